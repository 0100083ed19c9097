import assert from 'node:assert/strict';
import { IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import { test } from 'node:test';
import {
  addressOf,
  ClientShares,
  clientKey,
  isLoopback,
  networkKey,
  StrangerShares,
  testNetworks,
} from './clients.ts';

function requestFrom(remoteAddress: string, forwarded?: string): IncomingMessage {
  const socket = new Socket();
  Object.defineProperty(socket, 'remoteAddress', { value: remoteAddress });
  const request = new IncomingMessage(socket);
  if (forwarded !== undefined) request.headers['x-forwarded-for'] = forwarded;
  return request;
}

const isTrusted = testNetworks(['10.0.0.0/8', '192.0.2.7', 'fd00::/8', '::1/128']);

test('networks are IPv4, IPv6, single addresses, and IPv4 in IPv6', () => {
  for (const address of ['10.1.2.3', '::ffff:10.1.2.3', '192.0.2.7', 'fd12::1', '::1']) {
    assert.equal(isTrusted(address), true, address);
  }
  for (const address of ['11.0.0.1', '192.0.2.8', '2001:db8::1', '', '10.1.2', 'localhost']) {
    assert.equal(isTrusted(address), false, address);
  }
  assert.equal(testNetworks([])('127.0.0.1'), false);
});

test('the client is the first hop, seen from here, that is not trusted', () => {
  const cases: [string, string | undefined, string][] = [
    ['203.0.113.5', undefined, '203.0.113.5'],
    ['203.0.113.5', '198.51.100.1', '203.0.113.5'],
    ['10.0.0.1', undefined, '10.0.0.1'],
    ['10.0.0.1', '198.51.100.1', '198.51.100.1'],
    ['10.0.0.1', '1.1.1.1, 198.51.100.1', '198.51.100.1'],
    ['10.0.0.1', '198.51.100.1,10.0.0.2 , fd00::3', '198.51.100.1'],
    ['10.0.0.1', '10.0.0.3, 10.0.0.2', '10.0.0.3'],
    ['::ffff:10.0.0.1', '2001:db8::9', '2001:db8::9'],
    ['10.0.0.1', '198.51.100.1:4711', '198.51.100.1'],
    ['10.0.0.1', '[2001:db8::9]:4711', '2001:db8::9'],
    ['10.0.0.1', '198.51.100.1:4711, 10.0.0.2:80, [fd00::3]', '198.51.100.1'],
    ['10.0.0.1', '[198.51.100.1:80', '10.0.0.1'],
    ['10.0.0.1', '', '10.0.0.1'],
    ['10.0.0.1', 'unknown', '10.0.0.1'],
    ['10.0.0.1', '198.51.100.1, unknown', '10.0.0.1'],
    ['10.0.0.1', '198.51.100.1, unknown, 10.0.0.2', '10.0.0.2'],
  ];
  for (const [remote, forwarded, expected] of cases) {
    const request = requestFrom(remote, forwarded);
    assert.equal(addressOf(request, isTrusted), expected, `${remote} for ${forwarded}`);
  }
});

test('a client is an IPv4 address or an IPv6 /64', () => {
  for (const [address, key] of [
    ['203.0.113.5', '203.0.113.5'],
    ['::ffff:203.0.113.5', '203.0.113.5'],
    ['::FFFF:cb00:7105', '203.0.113.5'],
    ['2001:db8:0:1::5', '2001:db8:0:1::/64'],
    ['2001:0DB8:0:1:ffff:ffff:ffff:ffff', '2001:db8:0:1::/64'],
    ['2001:db8:0:2::5', '2001:db8:0:2::/64'],
    ['fe80::1%eth0', 'fe80::/64'],
    ['::1', '::/64'],
    ['', ''],
    ['unknown', 'unknown'],
  ] as const) {
    assert.equal(clientKey(address), key, address);
  }
});

test('loopback is 127.0.0.0/8 and ::1', () => {
  for (const address of ['127.0.0.1', '127.9.9.9', '::1', '::ffff:127.0.0.1']) {
    assert.equal(isLoopback(address), true, address);
  }
  for (const address of ['128.0.0.1', '::2', '', 'localhost']) {
    assert.equal(isLoopback(address), false, address);
  }
});

test('a client can take up to its share, and again what it gave back', () => {
  const shares = new ClientShares(100);
  assert.ok(shares.take('a', 2, 3) && shares.take('a', 1, 3));
  assert.equal(shares.take('a', 1, 3), false);
  // Another client may have another limit.
  assert.ok(shares.take('b', 4, 5));
  shares.give('a', 1);
  assert.equal(shares.taken, 6);
  assert.ok(shares.take('a', 1, 3));
});

test('all clients together have a limit, and a refusal takes nothing', () => {
  const shares = new ClientShares(3);
  assert.ok(shares.take('a', 2, 9));
  assert.equal(shares.take('b', 2, 9), false);
  assert.ok(shares.take('b', 1, 9));
  shares.give('a', 2);
  shares.give('b', 1);
  assert.equal(shares.taken, 0);
});

test('the network of a client is a /24 of IPv4, or a /48 of IPv6', () => {
  const networks = {
    '203.0.113.9': '203.0.113.0/24',
    '2001:db8:1:2::3': '2001:db8:1::/48',
    '::ffff:203.0.113.9': '203.0.113.0/24',
    '': '',
  };
  for (const [address, network] of Object.entries(networks)) {
    assert.equal(networkKey(clientKey(address)), network);
  }
});

test('a network leaves as many places as it holds, with however many clients', () => {
  const shares = new StrangerShares(20);
  const inOne = (n: number) => shares.hold(clientKey(`2001:db8:1:${n}::1`), 2);
  const held = Array.from({ length: 40 }, (_, n) => inOne(n)).filter((one) => one !== undefined);
  assert.equal(held.length, 10);
  assert.ok(shares.hold('203.0.113.9', 2));
  assert.equal(inOne(50), undefined);
  held[0]?.();
  held[0]?.();
  held[1]?.();
  assert.ok(inOne(50));
  assert.equal(inOne(51), undefined, 'given back once each');
});

test('every network has a place, and those whom the operator knows are not counted by networks', () => {
  const shares = new StrangerShares(3);
  for (const client of ['203.0.113.1', '198.51.100.1', '192.0.2.1']) {
    assert.ok(shares.hold(client, 1), client);
  }
  assert.equal(shares.hold('10.0.0.1', 1), undefined);
  const known = new StrangerShares(3);
  for (const n of [1, 2, 3]) assert.ok(known.hold(`10.0.0.${n}`, 1, false));
  const local = new StrangerShares(3);
  for (const n of [1, 2, 3]) assert.ok(local.hold(`127.0.0.${n}`, 1));
});
