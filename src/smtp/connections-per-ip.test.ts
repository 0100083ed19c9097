import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ConnectionsPerIp, isLoopback } from './connections-per-ip.ts';

test('counts up to the limit and down again', () => {
  const connections = new ConnectionsPerIp(2);
  const leave = connections.enter('192.0.2.1');
  assert.ok(leave !== undefined && connections.enter('192.0.2.1') !== undefined);
  assert.equal(connections.enter('192.0.2.1'), undefined);
  assert.ok(connections.enter('192.0.2.2') !== undefined);
  leave();
  leave();
  assert.equal(connections.count('192.0.2.1'), 1);
  assert.ok(connections.enter('192.0.2.1') !== undefined);
});

test('an IPv4 address is the same however a socket writes it', () => {
  const connections = new ConnectionsPerIp(1);
  connections.enter('::ffff:192.0.2.1');
  assert.equal(connections.count('192.0.2.1'), 1);
});

test('IPv6 clients count by /64', () => {
  const connections = new ConnectionsPerIp(1);
  assert.ok(connections.enter('2001:db8:0:1::1') !== undefined);
  assert.equal(connections.enter('2001:db8:0:1:ffff::2'), undefined);
  assert.ok(connections.enter('2001:db8:0:2::1') !== undefined);
});

test('knows the addresses of this machine', () => {
  for (const address of ['127.0.0.1', '127.9.9.9', '::1', '::ffff:127.0.0.1']) {
    assert.equal(isLoopback(address), true, address);
  }
  for (const address of ['192.0.2.1', '10.0.0.1', 'fe80::1', '']) {
    assert.equal(isLoopback(address), false, address);
  }
});
