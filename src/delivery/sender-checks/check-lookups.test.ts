import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { createSenderChecks, type SendingClient } from './check-sender.ts';
import {
  check,
  HOST,
  inShort,
  insider,
  mail,
  pass,
  records,
  signed,
  stranger,
  times,
} from './testing/checking.ts';
import { ed25519Key, sign } from './testing/signed-mail.ts';
import { collect } from './testing/stream.ts';
import { lookupIn, type Zone } from './testing/zone.ts';

const forged = mail('ann@bank.test');
const withSlow = (...silent: string[]) => ({ silent });

const temporary: [what: string, zone: Partial<Zone>, message: string, client: SendingClient][] = [
  ['the DMARC record is silent', withSlow('TXT _dmarc.bank.test'), forged, stranger],
  ['the DMARC record fails', { failing: ['TXT _dmarc.bank.test'] }, forged, stranger],
  ['SPF of the author is silent', withSlow('TXT bank.test'), forged, insider],
  [
    'the key of an aligned signature is silent',
    withSlow('TXT key1._domainkey.mail.bank.test'),
    await signed('ann@bank.test', { domain: 'mail.bank.test' }),
    stranger,
  ],
];
const final: [what: string, zone: Partial<Zone>, message: string, client: SendingClient][] = [
  ['SPF of somebody else is silent', withSlow('TXT evil.test'), forged, stranger],
  [
    'the key of somebody else is silent',
    withSlow('TXT key1._domainkey.evil.test'),
    await signed('ann@bank.test', { domain: 'evil.test' }),
    stranger,
  ],
  [
    'the key of a signature that does not fit the body is silent',
    withSlow('TXT key1._domainkey.bank.test'),
    `${await signed('ann@bank.test', { domain: 'bank.test' })}More.\r\n`,
    stranger,
  ],
  [
    'the key of an aligned signature has a name that DNS cannot hold',
    { failing: [`TXT ${'x'.repeat(64)}._domainkey.bank.test`] },
    await signed('ann@bank.test', { domain: 'bank.test', selector: 'x'.repeat(64) }),
    stranger,
  ],
  [
    'the key of a signature that is aligned too loosely is silent',
    withSlow('TXT key1._domainkey.mail.strict.test'),
    await signed('ann@strict.test', { domain: 'mail.strict.test' }),
    stranger,
  ],
];
suite('lookups', () => {
  test('all start at once, when the header is there', async () => {
    const message = await sign(await signed('ann@bank.test', { domain: 'bank.test' }), {
      domain: 'evil.test',
    });
    const never = lookupIn({ records, silent: ['*'] });
    const checks = createSenderChecks({
      lookup: never.lookup,
      hostname: HOST,
      enforce: true,
      times,
    });
    const checking = checks.begin(insider);
    const body = message.indexOf('\r\n\r\n') + 4;
    async function* source() {
      yield Buffer.from(message.slice(0, body));
      assert.deepEqual(never.asked.sort(), [
        'TXT _dmarc.bank.test',
        'TXT bank.test',
        'TXT key1._domainkey.bank.test',
        'TXT key1._domainkey.evil.test',
      ]);
      yield Buffer.from(message.slice(body));
    }
    await collect(checking.through(source()));
    await checking.verdicts();
  });

  test('keys are read anew from every record that differs', async () => {
    const dns = lookupIn({ records });
    const checks = createSenderChecks({ lookup: dns.lookup, hostname: HOST, enforce: true });
    const byRsa = await signed('ann@bank.test', { domain: 'bank.test' });
    const byEd25519 = await signed('ann@bank.test', {
      domain: 'bank.test',
      selector: 'key2',
      key: ed25519Key,
    });
    const results = async () => {
      const both = [await pass(checks, byRsa, stranger), await pass(checks, byEd25519, stranger)];
      return both.map(({ verdicts }) => verdicts.dkim[0]?.result);
    };
    assert.deepEqual(await results(), ['pass', 'pass']);
    assert.deepEqual(await results(), ['pass', 'pass']);
    dns.zone = { records: { ...records, 'TXT key1._domainkey.bank.test': ['v=DKIM1; p='] } };
    assert.deepEqual(await results(), ['neutral', 'pass']);
    dns.zone = { records: { ...records, 'TXT key1._domainkey.bank.test': [ed25519Key.record] } };
    assert.deepEqual(await results(), ['neutral', 'pass']);
  });

  test('each question is asked once', async () => {
    const once = await signed('ann@bank.test', { domain: 'bank.test' });
    const { asked } = await check({
      message: await sign(once, { domain: 'bank.test' }),
      client: insider,
    });
    assert.equal(new Set(asked).size, asked.length);
  });

  for (const [what, zone, message, client] of temporary) {
    test(`temperror, and accepted, where ${what}`, async () => {
      const { verdicts } = await check({ message, client, zone });
      assert.equal(verdicts.dmarc.result, 'temperror');
      assert.equal(verdicts.action, 'accept');
    });
  }

  for (const [what, zone, message, client] of final) {
    test(`still a failure where ${what}`, async () => {
      const { verdicts } = await check({ message, client, zone });
      assert.equal(verdicts.dmarc.result, 'fail');
      assert.equal(verdicts.action, 'reject');
    });
  }

  test('one that passes is enough, whatever else is silent', async () => {
    const { verdicts } = await check({
      message: await signed('ann@bank.test', { domain: 'bank.test' }),
      client: insider,
      zone: withSlow('TXT key1._domainkey.bank.test'),
    });
    assert.equal(inShort(verdicts), 'pass | temperror* | pass reject bank.test | accept');
  });

  test('many slow steps end when the time for all is up', async () => {
    const slow = lookupIn({ records });
    const chain = Object.fromEntries(
      Array.from({ length: 9 }, (_, n) => [
        `TXT s${n}.test`,
        [`v=spf1 include:s${n + 1}.test -all`],
      ]),
    );
    slow.zone = { records: { ...records, ...chain } };
    let now = 0;
    const checks = createSenderChecks({
      lookup: async (name, type) => {
        now += 1_900;
        return slow.lookup(name, type);
      },
      hostname: HOST,
      enforce: true,
      now: () => now,
    });
    const client = { ...stranger, from: 'x@s0.test' };
    const { verdicts } = await pass(checks, mail('x@s0.test'), client);
    assert.equal(verdicts.spf.result, 'temperror');
    assert.ok(slow.asked.length <= 4, slow.asked.join());
  });

  test('a machine without DNS takes mail, and after the first does not even ask', async () => {
    const message = await signed('ann@bank.test', { domain: 'bank.test' });
    const dead = lookupIn({ records, failing: ['*'] });
    const checks = createSenderChecks({
      lookup: dead.lookup,
      hostname: HOST,
      enforce: true,
      times,
    });
    for (let n = 0; n < 3; n++) {
      const { verdicts } = await pass(checks, message, insider);
      assert.equal(inShort(verdicts), 'temperror | temperror* | temperror none bank.test | accept');
      if (n === 0) dead.asked.length = 0;
    }
    assert.deepEqual(dead.asked, []);
  });

  test('a lookup function that throws is a bug, not a silent server', async () => {
    const lookup = async () => {
      throw new TypeError('oops');
    };
    const checks = createSenderChecks({ lookup, hostname: HOST, enforce: true, times });
    await assert.rejects(pass(checks, forged, stranger), /oops/);
  });
});
