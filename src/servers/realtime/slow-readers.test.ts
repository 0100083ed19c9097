import assert from 'node:assert/strict';
import type { Socket } from 'node:net';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import {
  change,
  connectClient,
  connectRaw,
  frame,
  type RunningRealtime,
  readToEnd,
  startRealtime,
} from '../../../test/support/realtime/start-realtime.ts';

/** More than the buffers of both kernels hold for one connection. */
const FLOOD = 30_000;
const MAILBOXES = 500;

const nameOf = (mailbox: number) => `${String(mailbox).padStart(4, '0')}${'x'.repeat(1_000)}`;

/** Publishes 30 MB in a row: nothing of it can be sent before the thread is free. */
function flood({ changes }: RunningRealtime, accountId: number): void {
  for (let n = 0; n < FLOOD; n++) {
    changes.publish(change(accountId, { mailbox: nameOf(n % MAILBOXES), token: String(n) }));
  }
}

/** The texts of unfragmented server frames (RFC 6455 section 5.2), and the close code. */
function readFrames(bytes: Buffer): { texts: string[]; code: number | undefined } {
  const texts: string[] = [];
  let code: number | undefined;
  let at = bytes.indexOf('\r\n\r\n') + 4;
  while (at + 2 <= bytes.length) {
    const opcode = (bytes[at] ?? 0) & 0x0f;
    let length = bytes[at + 1] ?? 0;
    at += 2;
    if (length === 126) {
      length = bytes.readUInt16BE(at);
      at += 2;
    }
    const payload = bytes.subarray(at, at + length);
    at += length;
    if (opcode === 1) texts.push(payload.toString());
    if (opcode === 8) code = payload.readUInt16BE(0);
  }
  return { texts, code };
}

/** Answers the close frame at the end, as a client should. */
function sayGoodbyeAtEnd(socket: Socket): void {
  let tail = Buffer.alloc(0);
  socket.on('data', (chunk: Buffer) => {
    tail = Buffer.concat([tail, chunk]).subarray(-1_000);
    if (tail.includes(Buffer.from([0x03, 0xf5])) || tail.includes(Buffer.from([0x03, 0xe9]))) {
      socket.write(frame(8));
    }
  });
}

test('a client that reads slowly gets the latest of each mailbox, late', async () => {
  const running = await startRealtime({ limits: { closeSeconds: 60 } });
  const { port, realtime } = running;
  const slow = await connectRaw(port, 'token-1');
  const quick = await connectClient(port, 'token-2');
  flood(running, 1);
  // Other clients are served meanwhile.
  running.changes.publish(change(2));
  await quick.next();

  sayGoodbyeAtEnd(slow);
  const reading = readToEnd(slow);
  const marker = Promise.withResolvers<void>();
  let tail = Buffer.alloc(0);
  slow.on('data', (chunk: Buffer) => {
    // It may be in two chunks.
    tail = Buffer.concat([tail.subarray(-100), chunk]);
    if (tail.includes(`"token":"${FLOOD - 1}"`)) marker.resolve();
  });
  await marker.promise;
  // It has caught up, so a change is sent at once again.
  running.changes.publish(change(1, { mailbox: 'after' }));
  await realtime.close();
  const { texts, code } = readFrames(await reading);
  assert.equal(code, 1001);
  const messages = texts
    .slice(1)
    .map((text): { mailbox: string; token: string } => JSON.parse(text));
  assert.ok(messages.length < FLOOD / 2, `${messages.length} of ${FLOOD} messages were sent`);
  assert.equal(messages.at(-1)?.mailbox, 'after');
  const last = new Map(messages.map(({ mailbox, token }) => [mailbox, Number(token)]));
  for (let mailbox = 0; mailbox < MAILBOXES; mailbox++) {
    assert.equal(last.get(nameOf(mailbox)), FLOOD - MAILBOXES + mailbox);
  }
});

test('a client that is behind in more than a thousand mailboxes has to connect again', async () => {
  const running = await startRealtime();
  const slow = await connectRaw(running.port, 'token-1');
  flood(running, 1);
  for (let n = 0; n <= 1_000; n++) running.changes.publish(change(1, { mailbox: `m${n}` }));
  sayGoodbyeAtEnd(slow);
  const { texts, code } = readFrames(await readToEnd(slow));
  assert.equal(code, 1013);
  assert.ok(!texts.some((text) => text.includes('"m0"')));
});

test('a client that never reads is cut, even if it sends pongs', async () => {
  const running = await startRealtime({ limits: { heartbeatSeconds: 0.1 } });
  const { realtime, port } = running;
  const deaf = await connectRaw(port, 'token-1');
  flood(running, 1);
  while (realtime.connections > 0) {
    // RFC 6455 section 5.5.3: pongs may come without a ping.
    deaf.write(frame(10));
    await turn();
  }
  deaf.destroy();
});
