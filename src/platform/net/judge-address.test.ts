import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect, createServer } from 'node:net';
import { hostname } from 'node:os';
import { suite, test } from 'node:test';
import fc from 'fast-check';
import { startDnsServer } from '../../../test/support/dns-server.ts';
import { DnsResolver } from '../../protocols/dns/dns.ts';
import {
  type AddressRecords,
  type AddressRefused,
  createAddressFilter,
  createHostResolver,
  guardLookup,
} from './net.ts';

const kindOf = (address: string, allowed: readonly string[] = []) => {
  const verdict = createAddressFilter(allowed).judge(address);
  return verdict.allowed ? 'allowed' : verdict.kind;
};

suite('addresses that no connection goes to', () => {
  const refused: [string, string][] = [
    ['127.0.0.1', 'loopback'],
    ['127.255.255.254', 'loopback'],
    ['0.0.0.0', 'unspecified'],
    ['0.1.2.3', 'unspecified'],
    ['10.0.0.1', 'private'],
    ['172.16.0.1', 'private'],
    ['172.31.255.255', 'private'],
    ['192.168.1.1', 'private'],
    ['169.254.169.254', 'link-local'],
    ['168.63.129.16', 'metadata'],
    ['100.64.0.1', 'shared'],
    ['100.100.100.200', 'shared'],
    ['192.0.0.192', 'reserved'],
    ['192.0.2.1', 'reserved'],
    ['198.18.0.1', 'reserved'],
    ['203.0.113.7', 'reserved'],
    ['224.0.0.1', 'multicast'],
    ['240.0.0.1', 'reserved'],
    ['255.255.255.255', 'multicast'],
    ['::', 'unspecified'],
    ['::1', 'loopback'],
    ['fe80::1', 'link-local'],
    ['fe80::1%eth0', 'link-local'],
    ['fc00::1', 'private'],
    ['fd00:ec2::254', 'private'],
    ['fec0::1', 'private'],
    ['ff02::1', 'multicast'],
    ['100::1', 'reserved'],
    ['2001:db8::1', 'reserved'],
    ['2001::1', 'reserved'],
    ['64:ff9b:1::1', 'reserved'],
    ['::ffff:127.0.0.1', 'loopback'],
    ['::ffff:7f00:1', 'loopback'],
    ['::FFFF:10.1.2.3', 'private'],
    ['::ffff:168.63.129.16', 'metadata'],
    ['::127.0.0.1', 'loopback'],
    ['::a9fe:a9fe', 'link-local'],
    ['::ffff:0:10.0.0.1', 'private'],
    ['64:ff9b::169.254.169.254', 'link-local'],
    ['64:ff9b::a9fe:a9fe', 'link-local'],
    ['2002:7f00:1::', 'loopback'],
    ['2002:c0a8:101::1', 'private'],
    ['localhost', 'malformed'],
    ['127.1', 'malformed'],
    ['2130706433', 'malformed'],
    ['', 'malformed'],
  ];
  for (const [address, kind] of refused) {
    test(`${address} is ${kind}`, () => assert.equal(kindOf(address), kind));
  }

  const allowed = [
    '1.1.1.1',
    '93.184.216.34',
    '172.32.0.1',
    '100.128.0.1',
    '2606:4700::1111',
    '2a00:1450:4001::1',
    '::ffff:1.1.1.1',
    '64:ff9b::101:101',
    '2002:101:101::1',
  ];
  for (const address of allowed) {
    test(`${address} is allowed`, () => assert.equal(kindOf(address), 'allowed'));
  }

  test('an IPv4 address is judged the same inside any IPv6 address', () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 4, maxLength: 4 }), ([a, b, c, d]) => {
        const plain = kindOf(`${a}.${b}.${c}.${d}`);
        assert.equal(kindOf(`::ffff:${a}.${b}.${c}.${d}`), plain);
        assert.equal(kindOf(`64:ff9b::${a}.${b}.${c}.${d}`), plain);
      }),
    );
  });
});

test('the operator allows networks, in whatever form the address comes', () => {
  const networks = ['10.0.0.0/8', '127.0.0.1/32', 'fd00::/8'];
  assert.equal(kindOf('10.1.2.3', networks), 'allowed');
  assert.equal(kindOf('::ffff:10.1.2.3', networks), 'allowed');
  assert.equal(kindOf('fd12::1', networks), 'allowed');
  assert.equal(kindOf('127.0.0.1', networks), 'allowed');
  assert.equal(kindOf('127.0.0.2', networks), 'loopback');
  assert.equal(kindOf('192.168.0.1', networks), 'private');
  assert.equal(kindOf('::1', networks), 'loopback');
  assert.equal(kindOf('169.254.169.254', ['::/0']), 'link-local');
});

suite('a guarded lookup', () => {
  const filter = createAddressFilter([]);

  /** Connects to a name; returns the error. */
  async function failure(addresses: readonly string[], allowed = filter): Promise<unknown> {
    const socket = connect({
      host: 'name.test',
      port: 9,
      lookup: guardLookup(allowed, async () => addresses),
    });
    const [error] = await once(socket, 'error').catch((reason) => [reason]);
    return error;
  }

  test('one refused address refuses the name', async () => {
    for (const addresses of [['1.1.1.1', '10.0.0.1'], ['::1', '2606:4700::1111'], ['127.0.0.1']]) {
      const error = await failure(addresses);
      assert.equal((error as AddressRefused).code, 'ADDRESS_REFUSED');
      assert.doesNotMatch(String(error), /10\.0\.0\.1|::1|127/);
    }
  });

  test('a name without addresses is not found, an error of the resolver is passed on', async () => {
    assert.equal(((await failure([])) as NodeJS.ErrnoException).code, 'ENOTFOUND');
    const socket = connect({
      host: 'name.test',
      port: 9,
      lookup: guardLookup(filter, async () => {
        throw Object.assign(new Error('nobody could be asked'), { code: 'EAI_AGAIN' });
      }),
    });
    const [error] = await once(socket, 'error').catch((reason) => [reason]);
    assert.equal((error as NodeJS.ErrnoException).code, 'EAI_AGAIN');
  });

  test('the name is resolved once, and the connection goes to the checked address', async () => {
    const server = createServer((socket) => socket.end());
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const bound = server.address();
    const port = typeof bound === 'object' && bound ? bound.port : 0;
    let asked = 0;
    for (const autoSelectFamily of [true, false]) {
      const socket = connect({
        host: 'name.test',
        port,
        autoSelectFamily,
        lookup: guardLookup(createAddressFilter(['127.0.0.0/8']), async () => {
          asked++;
          return ['127.0.0.1'];
        }),
      });
      await once(socket, 'connect');
      assert.equal(socket.remoteAddress, '127.0.0.1');
      socket.destroy();
    }
    assert.equal(asked, 2);
    server.close();
  });
});

suite('host names', () => {
  const absent = { kind: 'absent', reason: 'no_name' } as const;
  const resolver = (answers: Record<string, Awaited<ReturnType<AddressRecords['lookup']>>>) =>
    createHostResolver({
      lookup: async (name, type) => answers[`${name} ${type}`] ?? absent,
    });

  test('both kinds of records are used', async () => {
    const resolve = resolver({
      'a.test A': { kind: 'records', records: ['1.1.1.1', '1.0.0.1'] },
      'a.test AAAA': { kind: 'records', records: ['2606:4700::1111'] },
      'b.test AAAA': { kind: 'records', records: ['2606:4700::1111'] },
      'b.test A': { kind: 'unanswered', reason: 'timeout' },
    });
    assert.deepEqual(await resolve('a.test'), ['1.1.1.1', '1.0.0.1', '2606:4700::1111']);
    assert.deepEqual(await resolve('b.test'), ['2606:4700::1111']);
  });

  test('no answer is an error of its own; localhost needs no lookup', async () => {
    const unanswered = { kind: 'unanswered', reason: 'SERVFAIL' } as const;
    const resolve = resolver({ 'a.test AAAA': unanswered });
    await assert.rejects(resolve('a.test'), { code: 'EAI_AGAIN', message: /a\.test: SERVFAIL/ });
    for (const name of ['localhost', 'LOCALHOST.', 'app.localhost']) {
      assert.deepEqual(await resolve(name), ['127.0.0.1', '::1']);
    }
    assert.equal((await resolve('notlocalhost').catch(() => undefined))?.length ?? 0, 0);
  });

  test('the resolver of the service fits', async () => {
    const server = await startDnsServer([
      ['hooks.test', 'A', '192.0.2.1'],
      ['hooks.test', 'AAAA', '2001:db8::1'],
    ]);
    const dns = new DnsResolver({ servers: [server.address] });
    assert.deepEqual(await createHostResolver(dns)('hooks.test'), ['192.0.2.1', '2001:db8::1']);
    server.faults = () => 'servfail';
    await assert.rejects(createHostResolver(dns)('hooks.test'), { code: 'EAI_AGAIN' });
    dns.close();
  });

  test('a name is looked up once at a time for all callers', async () => {
    let asked = 0;
    const answer = Promise.withResolvers<void>();
    const resolve = createHostResolver({
      async lookup(_name, type) {
        asked++;
        await answer.promise;
        return type === 'A' ? { kind: 'records', records: ['1.1.1.1'] } : absent;
      },
    });
    const waiting = ['a.test', 'A.test', 'a.test'].map((name) => resolve(name));
    answer.resolve();
    for (const found of await Promise.all(waiting)) assert.deepEqual(found, ['1.1.1.1']);
    assert.equal(asked, 2);
    await resolve('a.test');
    assert.equal(asked, 4, 'the answer is not kept');
  });

  test('names that the system looks up slowly take one of its threads, and not all', async (t) => {
    let now = 0;
    t.mock.method(performance, 'now', () => now);
    const asked: string[] = [];
    const first = Promise.withResolvers<readonly string[]>();
    const resolve = createHostResolver({ lookup: async () => absent }, (name) => {
      asked.push(name);
      return asked.length === 1 ? first.promise : Promise.resolve(['192.0.2.1']);
    });
    const slow = resolve('slow.test');
    const late = resolve('late.test');
    await new Promise(setImmediate);
    now = 14_000;
    const next = resolve('next.test');
    await new Promise(setImmediate);
    assert.deepEqual(asked, ['slow.test']);
    now = 16_000;
    first.resolve([]);
    await slow;
    await assert.rejects(late, { code: 'EAI_AGAIN' });
    assert.deepEqual(await next, ['192.0.2.1']);
    assert.deepEqual(asked, ['slow.test', 'next.test']);
  });

  test('a name that only the system knows is looked up there once at a time', async () => {
    const none = { kind: 'unanswered', reason: 'no connection' } as const;
    const name = hostname();
    const resolve = resolver({ [`${name} A`]: none, [`${name} AAAA`]: none });
    const [first, second] = await Promise.allSettled([resolve(name), resolve(name)]);
    // The machine may or may not know its own name; both calls get the same result.
    assert.deepEqual(first, second);
  });
});
