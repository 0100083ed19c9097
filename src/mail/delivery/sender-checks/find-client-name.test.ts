/** Which name of a client is believed, and that the search delays nothing else. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  check,
  inShort,
  mail,
  records,
  stranger,
  times,
} from '../../../../test/support/sender-checks/checking.ts';
import { lookupIn, type Zone } from '../../../../test/support/sender-checks/zone.ts';

const PTR = 'PTR 9.113.0.203.in-addr.arpa';
const PTR_IPV6 = 'PTR 9.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa';

/** Checks a message of a client, at 203.0.113.9 by default. */
async function look(zone: Partial<Zone>, remoteAddress = stranger.remoteAddress, isWanted = true) {
  const { verdicts, asked } = await check({
    message: mail('eve@evil.test'),
    client: { ...stranger, remoteAddress },
    zone: { ...zone, records: { ...records, ...zone.records } },
    // A busy machine may take longer for an answer that comes than the tests wait for one that does not.
    options: {
      isNameWanted: () => isWanted,
      times: zone.silent ? times : { ...times, lookupMs: times.totalMs },
    },
  });
  return { verdicts, name: verdicts.clientName, asked };
}

const found: [what: string, zone: Zone['records'], remoteAddress?: string][] = [
  ['IPv4', { [PTR]: ['mx.evil.test'], 'A mx.evil.test': ['203.0.113.1', '203.0.113.9'] }],
  [
    'IPv4 written as IPv6',
    { [PTR]: ['mx.evil.test'], 'A mx.evil.test': ['203.0.113.9'] },
    '::ffff:203.0.113.9',
  ],
  [
    'IPv6, in another form',
    { [PTR_IPV6]: ['mx.evil.test'], 'AAAA mx.evil.test': ['2001:DB8:0:0:0::9'] },
    '2001:db8::9',
  ],
  [
    'several names',
    { [PTR]: ['mail.bank.test', 'mx.evil.test'], 'A mx.evil.test': ['203.0.113.9'] },
  ],
];
for (const [what, zone, remoteAddress] of found) {
  test(`the name that leads back to the client is its name: ${what}`, async () => {
    assert.equal((await look({ records: zone }, remoteAddress)).name, 'mx.evil.test');
  });
}

const BANK = { [PTR]: ['mail.bank.test'], 'A mail.bank.test': ['192.0.2.1'] };
const unnamed: [what: string, zone: Partial<Zone>][] = [
  ['there is no name', { records: {} }],
  ['the name is that of somebody else', { records: BANK }],
  ['the name has no address', { records: { [PTR]: ['mail.bank.test'] } }],
  ['the name is none', { records: { [PTR]: ['', 'a..b', `${'x'.repeat(64)}.test`] } }],
  ['the servers of the address are silent', { silent: [PTR] }],
  ['the servers of the name are silent', { records: BANK, silent: ['A mail.bank.test'] }],
  ['DNS fails', { failing: ['*'] }],
];
for (const [what, zone] of unnamed) {
  test(`a client has no name where ${what}`, async () => {
    assert.equal((await look(zone)).name, undefined);
  });
}

test('a name that is not found does not affect the other checks', async () => {
  const { verdicts } = await look({ silent: [PTR] });
  assert.equal(inShort(verdicts), 'pass |  | none none evil.test | accept');
});

test('both lookups share the time limit of one', async () => {
  let now = 0;
  const named = { [PTR]: ['mx.evil.test'], 'A mx.evil.test': ['203.0.113.9'] };
  const dns = lookupIn({ records: { ...records, ...named } });
  const { verdicts } = await check({
    message: mail('eve@evil.test'),
    options: {
      isNameWanted: () => true,
      now: () => now,
      dns: {
        async lookup(name, type) {
          if (type === 'PTR') now += times.lookupMs;
          return dns.lookup(name, type);
        },
      },
    },
  });
  assert.equal(verdicts.clientName, undefined);
  assert.ok(dns.asked.includes(PTR) && !dns.asked.includes('A mx.evil.test'));
});

test('of many names only three are looked up', async () => {
  const names = Array.from({ length: 100 }, (_, index) => `n${index}.evil.test`);
  const { asked } = await look({ records: { [PTR]: names } });
  assert.equal(asked.filter((question) => /^A n\d/.test(question)).length, 3);
});

test('nothing is asked about a client whose name is not wanted, or that has no address', async () => {
  for (const answer of [await look({}, undefined, false), await look({}, 'unknown')]) {
    assert.equal(answer.name, undefined);
    assert.ok(!answer.asked.some((question) => question.startsWith('PTR')));
  }
});
