/** Answers reach the client as they were made, however their pieces are sent. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { buffer } from 'node:stream/consumers';
import { test } from 'node:test';
import { Wire } from '../../platform/net/net.ts';
import { Outgoing } from './outgoing.ts';
import { Traffic } from './traffic.ts';
import type { Output, Part } from './write.ts';

/** What a client gets of these outputs, and how much was counted. */
async function sent(outputs: readonly Output[]) {
  const server = createServer({ allowHalfOpen: true }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const client = connect((server.address() as AddressInfo).port, '127.0.0.1');
  const [socket] = (await once(server, 'connection')) as [Socket];
  const got = buffer(client);
  const wire = new Wire(socket);
  const traffic = new Traffic(wire);
  let writes = 0;
  const outgoing = new Outgoing((octets) => {
    writes++;
    return traffic.write(octets);
  });
  for (const output of outputs) await outgoing.add(output);
  await outgoing.flush();
  wire.end('');
  const octets = await got;
  server.close();
  return { octets, writes, counted: traffic.sent };
}

function pieces(count: number, size: number): Part[] {
  return Array.from({ length: count }, (_, at) => [
    `* ${at} FETCH (BODY[] {${size}}\r\n\xe9`,
    Buffer.alloc(size, at),
  ]).flat();
}

function octetsOf(parts: readonly Part[]): Buffer {
  return Buffer.concat(
    parts.map((part) =>
      typeof part === 'string' ? Buffer.from(part, 'latin1') : (part as Uint8Array),
    ),
  );
}

for (const [count, size] of [
  [3, 20_000],
  [50, 9_000],
  [5_000, 3],
  [1, 5_000_000],
] as const) {
  test(`${count} sources of ${size} octets come whole and in order`, async () => {
    const parts = pieces(count, size);
    const { octets, writes, counted } = await sent([parts, 't OK done\r\n']);
    const expected = octetsOf([...parts, 't OK done\r\n']);
    assert.equal(Buffer.compare(octets, expected), 0);
    assert.equal(counted, expected.length);
    assert.ok(writes <= expected.length / 65_536 + 1, `${writes} writes`);
  });
}

test('whether a line has ended is known of the last part, also after nothing', async () => {
  const outgoing = new Outgoing(() => undefined);
  assert.ok(outgoing.isAtStart);
  const steps: [Output, boolean][] = [
    ['* 1 FETCH (', false],
    [['BODY[] {3}\r\n', Buffer.from('a\r\n')], false],
    ['', false],
    [')\r\n', true],
    ['', true],
    [[], true],
    [['* 2 FETCH (UID 2)\r\n', '* 3 FETCH ('], false],
  ];
  for (const [output, isAtStart] of steps) {
    await outgoing.add(output);
    assert.equal(outgoing.isAtStart, isAtStart, String(output));
  }
});

test('a source that fails leaves the client within a literal, whatever was to follow it', async () => {
  const outgoing = new Outgoing(async () => {});
  const source = (isWhole: boolean) => ({
    octets: 6,
    async *open() {
      yield Buffer.from('abc');
      if (!isWhole) throw new Error('the file cannot be read');
      yield Buffer.from('def');
    },
  });
  await outgoing.add(['* 1 FETCH (BODY[] {6}\r\n', source(true), ')\r\n']);
  assert.ok(outgoing.isAtStart);
  const failing = outgoing.add(['* 2 FETCH (BODY[] {6}\r\n', source(false), ')\r\n']);
  await assert.rejects(async () => failing, /cannot be read/);
  assert.equal(outgoing.isAtStart, false);
});
