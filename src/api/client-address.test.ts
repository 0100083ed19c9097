import assert from 'node:assert/strict';
import { IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import { test } from 'node:test';
import { addressOf, trustNetworks } from './client-address.ts';

function requestFrom(remoteAddress: string, forwarded?: string): IncomingMessage {
  const socket = new Socket();
  Object.defineProperty(socket, 'remoteAddress', { value: remoteAddress });
  const request = new IncomingMessage(socket);
  if (forwarded !== undefined) request.headers['x-forwarded-for'] = forwarded;
  return request;
}

const isTrusted = trustNetworks(['10.0.0.0/8', '192.0.2.7', 'fd00::/8', '::1/128']);

test('networks are IPv4, IPv6, single addresses, and IPv4 in IPv6', () => {
  for (const address of ['10.1.2.3', '::ffff:10.1.2.3', '192.0.2.7', 'fd12::1', '::1']) {
    assert.equal(isTrusted(address), true, address);
  }
  for (const address of ['11.0.0.1', '192.0.2.8', '2001:db8::1', '', '10.1.2', 'localhost']) {
    assert.equal(isTrusted(address), false, address);
  }
  assert.equal(trustNetworks([])('127.0.0.1'), false);
});

test('the client is the first hop from here that is not trusted', () => {
  const cases: [string, string | undefined, string][] = [
    ['203.0.113.5', undefined, '203.0.113.5'],
    ['203.0.113.5', '198.51.100.1', '203.0.113.5'],
    ['10.0.0.1', undefined, '10.0.0.1'],
    ['10.0.0.1', '198.51.100.1', '198.51.100.1'],
    ['10.0.0.1', '1.1.1.1, 198.51.100.1', '198.51.100.1'],
    ['10.0.0.1', '198.51.100.1,10.0.0.2 , fd00::3', '198.51.100.1'],
    ['10.0.0.1', '10.0.0.3, 10.0.0.2', '10.0.0.3'],
    ['::ffff:10.0.0.1', '2001:db8::9', '2001:db8::9'],
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
