import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
// Else it is loaded with the first message, whose lookup for SPF would come later than the others.
import 'mailauth/lib/spf/index.js';
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
} from '../../../../test/support/sender-checks/checking.ts';
import { ed25519Key, sign } from '../../../../test/support/sender-checks/signed-mail.ts';
import { collect } from '../../../../test/support/sender-checks/stream.ts';
import { lookupIn, type Zone } from '../../../../test/support/sender-checks/zone.ts';
import { createSenderChecks, type SendingClient } from './check-sender.ts';
import {
  type LookupAnswer,
  ResolverGuard,
  type SenderDns,
  Unanswered,
  type Weight,
} from './lookups.ts';

const forged = mail('ann@bank.test');
const withSlow = (...silent: string[]) => ({ silent });

type Case = [what: string, zone: Partial<Zone>, message: string, client: SendingClient];
const unknown: Case[] = [
  ['the DMARC record is silent', withSlow('TXT _dmarc.bank.test'), forged, stranger],
  ['the DMARC record fails', { failing: ['TXT _dmarc.bank.test'] }, forged, stranger],
];
const temporary: Case[] = [
  [
    'it is that of the organization alone, since the DMARC record of a domain below it fails',
    { failing: ['TXT _dmarc.lost.bank.test'] },
    mail('ann@lost.bank.test'),
    stranger,
  ],
  ['SPF of the author is silent', withSlow('TXT bank.test'), forged, insider],
  [
    'an envelope sender below the author’s domain fails',
    { failing: ['TXT lost.bank.test'] },
    forged,
    { ...stranger, from: 'x@lost.bank.test' },
  ],
  [
    'the key of an aligned signature is silent',
    withSlow('TXT key1._domainkey.mail.bank.test'),
    await signed('ann@bank.test', { domain: 'mail.bank.test' }),
    stranger,
  ],
];
const final: Case[] = [
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
  test('all start at once, when the header was read', async () => {
    const message = await sign(await signed('ann@bank.test', { domain: 'bank.test' }), {
      domain: 'evil.test',
    });
    const never = lookupIn({ records, silent: ['*'] });
    const checks = createSenderChecks({
      dns: never,
      hostname: HOST,
      enforce: true,
      times,
    });
    const checking = checks.begin(insider);
    const body = message.indexOf('\r\n\r\n') + 4;
    async function* source() {
      yield Buffer.from(message.slice(0, body));
      // None of them is answered, and the body is not there yet.
      while (never.asked.length < 4) await pause(1);
      // On a slow machine the resolver may be taken for dead by now, and be probed.
      assert.deepEqual(never.asked.slice(0, 4).sort(), [
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

  test('a key is read again from every record that differs', async () => {
    const dns = lookupIn({ records });
    const checks = createSenderChecks({ dns, hostname: HOST, enforce: true });
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

  for (const [what, zone, message, client] of unknown) {
    test(`temperror, and the message is accepted, where ${what}`, async () => {
      const { verdicts } = await check({ message, client, zone });
      assert.equal(verdicts.dmarc.result, 'temperror');
      assert.equal(verdicts.action, 'accept');
    });
  }

  for (const [what, zone, message, client] of temporary) {
    test(`temperror, and the message is deferred, where the policy is known and ${what}`, async () => {
      const { verdicts } = await check({ message, client, zone });
      assert.equal(verdicts.dmarc.result, 'temperror');
      assert.equal(verdicts.action, 'defer');
    });
  }

  for (const [what, zone, message, client] of final) {
    test(`still a failure where ${what}`, async () => {
      const { verdicts } = await check({ message, client, zone });
      assert.equal(verdicts.dmarc.result, 'fail');
      assert.equal(verdicts.action, 'reject');
    });
  }

  test('one that passes is enough, whichever others get no answer', async () => {
    const { verdicts } = await check({
      message: await signed('ann@bank.test', { domain: 'bank.test' }),
      client: insider,
      zone: withSlow('TXT key1._domainkey.bank.test'),
    });
    assert.equal(inShort(verdicts), 'pass | temperror* | pass reject bank.test | accept');
  });

  test('many slow steps end when the time limit for all is over', async () => {
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
      dns: {
        lookup: async (name, type) => {
          now += 1_900;
          return slow.lookup(name, type);
        },
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

  test('a machine without DNS accepts mail, and asks nothing after the first message', async () => {
    const message = await signed('ann@bank.test', { domain: 'bank.test' });
    const dead = lookupIn({ records, failing: ['*'] });
    const checks = createSenderChecks({
      dns: dead,
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

  test('a lookup function that throws is a bug, not a server that does not answer', async () => {
    const lookup = async () => {
      throw new TypeError('oops');
    };
    const checks = createSenderChecks({ dns: { lookup }, hostname: HOST, enforce: true, times });
    await assert.rejects(pass(checks, forged, stranger), /oops/);
  });
});

const REST = 30_000;
const found: LookupAnswer = { kind: 'records', records: ['x'] };
const failed: LookupAnswer = { kind: 'unanswered', reason: 'no connection' };

const never = new AbortController().signal;

/** A resolver whose answers the test chooses, with a clock of its own. */
function openGuard(
  answer: (name: string) => LookupAnswer | Promise<LookupAnswer>,
  memory = Unanswered.memory(),
) {
  const asked: string[] = [];
  const lookup: SenderDns['lookup'] = async (name) => {
    asked.push(name);
    return answer(name);
  };
  const clock = { now: 0 };
  const outages: boolean[] = [];
  const kept = new Map<string, LookupAnswer>();
  const guard = new ResolverGuard({
    dns: { lookup, kept: (name) => kept.get(name) },
    onOutage: (isOut) => outages.push(isOut),
    unanswered: new Unanswered(memory, () => clock.now),
    restMs: REST,
    probeMs: 5,
    now: () => clock.now,
  });
  const askFor = (client: string, name: string, weight: Weight, signal = never) =>
    guard.ask(name, 'TXT', { ms: 5, weight, parties: [{ name: client, most: 16 }], signal });
  const ask = (name: string) => askFor('one', name, 'deciding');
  return { guard, ask, askFor, asked, clock, outages, kept };
}

/** Lets everything that waits for a promise continue. */
const settle = () => new Promise((resolve) => setImmediate(resolve));

suite('a resolver that is dead', () => {
  test('is left alone for 30 s, then found alive by a probe', async () => {
    let answer: LookupAnswer = failed;
    const { guard, ask, asked, clock, outages } = openGuard(() => answer);
    assert.equal((await ask('a.test')).kind, 'unanswered');
    await settle();
    assert.deepEqual(asked, ['a.test', 'a.root-servers.net']);
    clock.now = REST - 1;
    assert.equal((await ask('b.test')).kind, 'unanswered');
    assert.equal(guard.isResting(), true);
    assert.equal(asked.length, 2);

    // It is still dead: it is probed once more, then left alone again.
    clock.now = REST;
    for (const name of ['c.test', 'd.test']) assert.equal((await ask(name)).kind, 'unanswered');
    await settle();
    assert.deepEqual(asked.slice(2), ['a.root-servers.net']);
    clock.now = 2 * REST - 1;
    assert.equal((await ask('e.test')).kind, 'unanswered');
    assert.equal(asked.length, 3);
    assert.deepEqual(outages, [true]);

    answer = found;
    clock.now = 2 * REST;
    assert.equal(guard.isResting(), true);
    await settle();
    assert.equal(guard.isResting(), false);
    assert.equal((await ask('f.test')).kind, 'records');
    assert.deepEqual(asked.slice(3), ['a.root-servers.net', 'f.test']);
    assert.deepEqual(outages, [true, false]);
  });

  test('is found alive by a probe, also where no mail comes', async (t) => {
    t.mock.timers.enable({ apis: ['setTimeout'] });
    let answer: LookupAnswer = failed;
    const { guard, ask, clock, outages } = openGuard(() => answer);
    await ask('a.test');
    await settle();
    assert.equal(guard.isResting(), true);
    answer = found;
    clock.now = REST + 5;
    t.mock.timers.tick(REST + 5);
    await settle();
    assert.deepEqual(outages, [true, false]);
  });

  test('does not prevent the use of cached answers, and these do not count as answers of its own', async () => {
    const { guard, ask, asked, kept } = openGuard(() => failed);
    kept.set('known.test', found);
    const unknown = ask('a.test');
    assert.equal(await ask('known.test'), found);
    await unknown;
    await settle();
    assert.equal(guard.isResting(), true);
    assert.equal(await ask('known.test'), found);
    assert.deepEqual(asked, ['a.test', 'a.root-servers.net']);
  });

  test('may be one that never answers', async () => {
    const { guard, ask } = openGuard(() => new Promise<LookupAnswer>(() => {}));
    assert.deepEqual(await ask('a.test'), { kind: 'unanswered', reason: 'timeout' });
    while (!guard.isResting()) await settle();
    assert.equal((await ask('b.test')).kind, 'unanswered');
  });
});

suite('a resolver that is alive', () => {
  test('is not given up because the servers of some domains do not answer', async () => {
    const { guard, ask, asked } = openGuard((name) =>
      name.endsWith('evil.test') ? failed : found,
    );
    for (let n = 0; n < 20; n++) await ask(`n${n}.evil.test`);
    await settle();
    assert.ok(asked.includes('a.root-servers.net'));
    assert.equal(guard.isResting(), false);
    assert.equal((await ask('bank.test')).kind, 'records');
  });

  test('needs no probe while it answers other questions', async () => {
    const { ask, asked, clock } = openGuard((name) => {
      if (name !== 'evil.test') return found;
      return new Promise<LookupAnswer>(() => {});
    });
    const silent = ask('evil.test');
    clock.now = 1;
    await ask('bank.test');
    await silent;
    assert.deepEqual(asked, ['evil.test', 'bank.test']);
  });

  test('says that a name or record does not exist', async () => {
    const absent: LookupAnswer = { kind: 'absent', reason: 'no_name' };
    const { guard, ask, asked } = openGuard(() => absent);
    assert.deepEqual(await ask('a.test'), absent);
    await settle();
    assert.equal(guard.isResting(), false);
    assert.equal(asked.length, 1);
  });
});

test('the number of lookups that decide nothing is limited, and they never delay those that decide', async () => {
  const ends: (() => void)[] = [];
  const { askFor, asked } = openGuard((name) =>
    name === 'bank.test'
      ? found
      : new Promise<LookupAnswer>((resolve) => ends.push(() => resolve(failed))),
  );
  const others = Array.from({ length: 100 }, (_, n) =>
    askFor(`client ${n % 10}`, `n${n}.evil.test`, 'other'),
  );
  const ofOne = Array.from({ length: 4 }, (_, n) => askFor('client 0', `m${n}.evil.test`, 'other'));
  assert.equal(asked.length, 64);
  assert.equal((await askFor('x', 'bank.test', 'deciding')).kind, 'records');
  const reasons = (await Promise.all([...others, ...ofOne])).map((answer) =>
    answer.kind === 'unanswered' ? answer.reason : answer.kind,
  );
  assert.equal(reasons.filter((reason) => reason === 'timeout').length, 64);
  assert.equal(reasons.filter((reason) => reason === 'too busy').length, 40);
  for (const end of ends) end();
  await settle();
  const later = askFor('client 0', 'later.test', 'other');
  assert.equal(asked.at(-1), 'later.test');
  await later;
});

suite('lookups of one party that are never answered', () => {
  const silent = () =>
    openGuard((name) => (name.includes('evil') ? new Promise<LookupAnswer>(() => {}) : found));

  test('leave slots for the others, and are no sign that DNS is dead', async () => {
    const { guard, askFor, asked } = silent();
    const flood = Array.from({ length: 600 }, (_, n) =>
      askFor('stranger', `n${n}.evil.test`, 'deciding'),
    );
    for (const one of flood) one.catch(() => {});
    await settle();
    assert.equal(asked.length, 16);
    assert.equal((await askFor('bank', 'bank.test', 'deciding')).kind, 'records');
    await flood[0];
    await settle();
    assert.equal(guard.isResting(), false);
    // The resolver still works at them, though nobody waits any more.
    assert.equal(asked.filter((name) => name.includes('evil')).length, 16);
  });

  test('make his own mail wait and then be deferred, and do not open the way for forgeries of others', async () => {
    const names = Array.from({ length: 20 }, (_, n) => `evil${n}.test`);
    const dns = lookupIn({ records, silent: names.map((name) => `TXT _dmarc.${name}`) });
    const checks = createSenderChecks({
      dns,
      hostname: HOST,
      enforce: true,
      times: { ...times, totalMs: 1_500 },
    });
    const flood = names.map((name) => pass(checks, mail(`x@${name}`), stranger));
    while (dns.asked.filter((name) => name.includes('_dmarc')).length < 16) await settle();
    const own = pass(checks, forged, stranger);
    const other = { ...stranger, remoteAddress: '203.0.113.99' };
    assert.equal((await pass(checks, forged, other)).verdicts.action, 'reject');
    assert.equal((await own).verdicts.action, 'defer');
    await Promise.all(flood);
  });

  test('do not keep the mail of an author from it that stands beside others in the flood', async () => {
    const names = Array.from({ length: 20 }, (_, n) => `evil${n}.test`);
    const dns = lookupIn({ records, silent: names.map((name) => `TXT _dmarc.${name}`) });
    const checks = createSenderChecks({
      dns,
      hostname: HOST,
      enforce: true,
      times: { ...times, totalMs: 1_500 },
    });
    const flood = names.map((name) => pass(checks, mail(`x@${name}, y@bank.test`), stranger));
    while (dns.asked.filter((name) => name.includes('_dmarc.evil')).length < 15) await settle();
    const other = { ...stranger, remoteAddress: '203.0.113.99' };
    assert.equal((await pass(checks, forged, other)).verdicts.action, 'reject');
    await Promise.all(flood);
  });

  test('from many clients of one network leave the mail of others its turn', async () => {
    const names = Array.from({ length: 420 }, (_, n) => `evil${n}.test`);
    const dns = lookupIn({ records, silent: names.map((name) => `TXT _dmarc.${name}`) });
    const slow = { ...times, lookupMs: 1_000 };
    const checks = createSenderChecks({ dns, hostname: HOST, enforce: true, times: slow });
    const flood = names.map((name, n) =>
      pass(checks, mail(`x@${name}`), { ...stranger, remoteAddress: `2001:db8:1:${n}::1` }),
    );
    const asked = () => dns.asked.filter((name) => name.includes('_dmarc.evil')).length;
    while (asked() < 200) await settle();
    const other = { ...stranger, remoteAddress: '203.0.113.99' };
    assert.equal((await pass(checks, forged, other)).verdicts.action, 'reject');
    assert.equal(asked(), 200, 'none of theirs has ended yet');
    await Promise.all(flood);
  });

  test('keep the next of his from its turn, which then fails with the reason of the end', async () => {
    const { askFor } = silent();
    for (let n = 0; n < 16; n++) void askFor('stranger', `n${n}.evil.test`, 'deciding');
    const end = new AbortController();
    const late = askFor('stranger', 'bank.test', 'deciding', end.signal);
    const reason = new Error('out of time');
    end.abort(reason);
    await assert.rejects(late, reason);
  });
});

suite('a resolver that many lookups have filled', () => {
  const refused: LookupAnswer = { kind: 'unanswered', reason: 'REFUSED' };
  const fill = async ({ ask }: Pick<ReturnType<typeof openGuard>, 'ask'>, most = 50) => {
    // It answers others until it is full.
    for (let n = 0; n < most; n++) await ask(`n${n}.evil.test`);
    await settle();
  };

  test('is left alone, and is dead only where it does not answer after a time without lookups', async () => {
    let probe: LookupAnswer = found;
    const opened = openGuard((name) => (name === 'a.root-servers.net' ? probe : refused));
    const { guard, asked, clock, outages } = opened;
    await fill(opened);
    assert.equal(guard.isResting(), false);
    probe = refused;
    clock.now = 1;
    await fill(opened, 1);
    assert.deepEqual([guard.isResting(), guard.isDead(), guard.isFull()], [true, false, true]);
    asked.length = 0;
    for (; clock.now < 15_000; clock.now += 1_000) {
      await fill(opened, 1);
      assert.deepEqual([guard.isDead(), guard.isFull()], [false, true], `${clock.now}`);
    }
    assert.deepEqual(new Set(asked), new Set(['a.root-servers.net']));
    for (clock.now = 18_000; clock.now < 21_000; clock.now += 1_000) await fill(opened, 1);
    assert.equal(guard.isDead(), true);
    assert.deepEqual(outages, [true]);
  });

  test('is so for all threads that share the count', async () => {
    const memory = Unanswered.memory();
    await fill(openGuard((name) => (name === 'a.root-servers.net' ? found : refused), memory));
    const { guard, ask, outages } = openGuard(() => refused, memory);
    await ask('a.test');
    await settle();
    assert.deepEqual([guard.isResting(), guard.isDead(), outages.length], [true, false, 0]);
  });

  test('answers a probe late or not at all, but other lookups meanwhile', async () => {
    const { guard, ask, clock } = openGuard((name) => {
      if (name === 'a.root-servers.net') return new Promise<LookupAnswer>(() => {});
      return name === 'bank.test' ? found : failed;
    });
    await ask('evil.test');
    clock.now = 1;
    await ask('bank.test');
    await pause(20);
    assert.equal(guard.isResting(), false);
  });

  test('still works at what it did not answer in time: that keeps its slot', async () => {
    const late: LookupAnswer = { kind: 'unanswered', reason: 'timeout', failure: 'late' };
    const { askFor, asked } = openGuard((name) => {
      if (name === 'a.root-servers.net') return found;
      return name.endsWith('silent.test') ? late : refused;
    });
    const of = async (client: string, zone: string) => {
      const all = Array.from({ length: 60 }, (_, n) => `${client}${n}.${zone}`);
      for (const name of all) askFor(client, name, 'deciding').catch(() => {});
      for (let turn = 0; turn < 100; turn++) await settle();
      return asked.filter((name) => all.includes(name)).length;
    };
    assert.equal(await of('one', 'refused.test'), 60);
    assert.equal(await of('two', 'silent.test'), 16);
    assert.equal(await of('three', 'refused.test'), 60);
  });

  test('does not open the way for forgeries: they are deferred until it is known that DNS is away', async () => {
    const names = Array.from({ length: 60 }, (_, n) => `evil${n}.test`);
    let failing = names.map((name) => `TXT _dmarc.${name}`);
    const dns = lookupIn({ records, failing });
    const clock = { now: 0 };
    const checks = createSenderChecks({
      dns,
      hostname: HOST,
      enforce: true,
      times,
      unanswered: new Unanswered(Unanswered.memory(), () => clock.now),
      now: () => clock.now,
    });
    for (const [n, name] of names.entries()) {
      const client = { ...stranger, remoteAddress: `203.0.113.${n}` };
      const { verdicts } = await pass(checks, mail(`x@${name}`), client);
      assert.equal(verdicts.action, n < 49 ? 'accept' : 'defer', name);
    }
    assert.equal((await pass(checks, forged, stranger)).verdicts.action, 'reject');
    failing = ['*'];
    dns.zone = { records, failing };
    assert.equal((await pass(checks, forged, stranger)).verdicts.action, 'defer');
    await settle();
    assert.equal((await pass(checks, forged, stranger)).verdicts.action, 'defer');
    clock.now = 20_000;
    await pass(checks, forged, stranger);
    await settle();
    assert.equal((await pass(checks, forged, stranger)).verdicts.action, 'accept');
  });
});
