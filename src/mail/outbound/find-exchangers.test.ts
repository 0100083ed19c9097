import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { dnsOf, type Zone } from '../../../test/support/outbound/far-end.ts';
import { findAddresses, findExchangers } from './find-exchangers.ts';

const find = (domain: string, zone: Zone) =>
  findExchangers(domain, dnsOf(zone), (host) => host === 'mail.postroom.test');

suite('exchangers', () => {
  test('come in the order of their preferences, each once', async () => {
    const found = await find('a.test', {
      'a.test': { MX: ['20 c.test', '5 a.test', '10 b.test', '30 A.test'] },
    });
    assert.deepEqual(found, { hosts: ['a.test', 'b.test', 'c.test'] });
  });

  test('of equal preference come in random order', async () => {
    const seen = new Set<string>();
    for (let n = 0; n < 200; n++) {
      const found = await find('a.test', {
        'a.test': { MX: ['10 a.test', '10 b.test', '10 c.test', '20 d.test'] },
      });
      seen.add('hosts' in found ? found.hosts.join(' ') : '');
    }
    assert.equal(seen.size, 6);
    assert.ok([...seen].every((order) => order.endsWith('d.test')));
  });

  test('without an MX record the domain is its own exchanger', async () => {
    assert.deepEqual(await find('a.test', { 'a.test': {} }), { hosts: ['a.test'] });
  });

  test('those with the preference of our own name, or a worse one, are left out', async () => {
    const found = await find('a.test', {
      'a.test': { MX: ['10 b.test', '20 mail.postroom.test', '20 c.test', '30 d.test'] },
    });
    assert.deepEqual(found, { hosts: ['b.test'] });
  });

  test('are limited in number', async () => {
    const many = Array.from({ length: 1_000 }, (_, n) => `${n} h${n}.test`);
    const found = await find('a.test', { 'a.test': { MX: many } });
    assert.equal('hosts' in found && found.hosts.length, 20);
  });

  const refused: [what: string, zone: Zone, expected: object][] = [
    [
      'null MX',
      { 'a.test': { MX: ['0 '] } },
      { result: 'permanent', status: 556, enhancedStatus: '5.1.10' },
    ],
    [
      'ourselves',
      { 'a.test': { MX: ['5 mail.postroom.test', '10 b.test'] } },
      { result: 'permanent', enhancedStatus: '5.4.6' },
    ],
    ['no such domain', {}, { result: 'permanent', enhancedStatus: '5.1.2' }],
    ['no answer', { 'a.test': { MX: '!' } }, { result: 'temporary', enhancedStatus: '4.4.3' }],
  ];
  for (const [what, zone, expected] of refused) {
    test(`${what}: ${JSON.stringify(expected)}`, async () => {
      const found = await find('a.test', zone);
      assert.ok('error' in found);
      const { text, ...error } = found.error;
      assert.deepEqual({ result: found.result, ...error }, expected);
      assert.match(text, /a\.test/);
    });
  }

  test('a null MX among others is left out', async () => {
    const found = await find('a.test', { 'a.test': { MX: ['0 ', '10 b.test'] } });
    assert.deepEqual(found, { hosts: ['b.test'] });
  });
});

suite('addresses', () => {
  test('IPv4 comes first', async () => {
    const found = await findAddresses(
      'a.test',
      dnsOf({ 'a.test': { A: ['192.0.2.1'], AAAA: ['2001:db8::1'] } }),
    );
    assert.deepEqual(found, { addresses: ['192.0.2.1', '2001:db8::1'] });
  });

  test('one address family without an answer does not prevent the other', async () => {
    const found = await findAddresses(
      'a.test',
      dnsOf({ 'a.test': { A: '!', AAAA: ['2001:db8::1'] } }),
    );
    assert.deepEqual(found, { addresses: ['2001:db8::1'] });
  });

  test('no address is permanent, no answer is temporary', async () => {
    const none = await findAddresses('a.test', dnsOf({}));
    assert.equal('result' in none && none.result, 'permanent');
    const silent = await findAddresses('a.test', dnsOf({ 'a.test': { A: '!' } }));
    assert.equal('result' in silent && silent.result, 'temporary');
  });
});
