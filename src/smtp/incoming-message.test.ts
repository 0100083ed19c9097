import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Refusal } from '../errors/errors.ts';
import { IncomingMessage } from './incoming-message.ts';

const chunk = Buffer.alloc(256 * 1024, 'x');

test('asks for more once its reader is ready, and once only', async () => {
  const message = new IncomingMessage(10_000_000);
  let asked = 0;
  assert.equal(
    message.add(chunk, () => (asked += 1)),
    false,
  );
  const reader = message[Symbol.asyncIterator]();
  await reader.next();
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(asked, 1);
});

test('asks for nothing more once it is over', async () => {
  const message = new IncomingMessage(10_000_000);
  let asked = 0;
  message.add(chunk, () => (asked += 1));
  message.finish();
  let octets = 0;
  for await (const part of message) octets += part.length;
  assert.equal(octets, chunk.length);
  await new Promise((resolve) => setImmediate(resolve));
  assert.equal(asked, 0);
});

test('a reader that begins late still learns that the message failed', async () => {
  const message = new IncomingMessage(10_000_000);
  message.add(Buffer.from('half'), () => {});
  message.cutOff();
  assert.equal(await message.arrived, false);
  await new Promise((resolve) => setImmediate(resolve));
  await assert.rejects(Array.fromAsync(message), (error) => error instanceof Refusal);
});

test('the limit is the last octet that is taken', () => {
  const message = new IncomingMessage(10);
  assert.equal(
    message.add(Buffer.alloc(10), () => {}),
    true,
  );
  assert.equal(message.tooLarge, false);
  message.add(Buffer.alloc(1), () => {});
  assert.equal(message.tooLarge, true);
  assert.equal(message.destroyed, true);
});

test('a reader who stops early gives the message up, and the rest of it is dropped', async () => {
  const message = new IncomingMessage(10_000_000);
  let asked = 0;
  message.add(chunk, () => (asked += 1));
  for await (const part of message) {
    assert.equal(part.length, chunk.length);
    break;
  }
  assert.equal(message.destroyed, true);
  assert.equal(
    message.add(chunk, () => (asked += 1)),
    true,
  );
  assert.equal(message.bytes, 2 * chunk.length);
  assert.equal(asked, 1);
});

test('a message that is given up is never taken for one that ended', async () => {
  const message = new IncomingMessage(10_000_000);
  const read = Array.fromAsync(message);
  message.add(Buffer.from('half'), () => {});
  message.destroy();
  message.finish();
  await assert.rejects(read, /given up/);
});

test('a reader that waits hears of each chunk, and of the end', async () => {
  const message = new IncomingMessage(10_000_000);
  const reader = message[Symbol.asyncIterator]();
  for (const text of ['one', 'two']) {
    const next = reader.next();
    message.add(Buffer.from(text), () => {});
    assert.deepEqual((await next).value, Buffer.from(text));
  }
  const last = reader.next();
  message.finish();
  assert.equal((await last).done, true);
});

test('what came in tiny pieces is read in few', async () => {
  const message = new IncomingMessage(10_000_000);
  const sent = Buffer.from(Array.from({ length: 100_000 }, (_, index) => index % 251));
  for (let at = 0; at < sent.length; at++) message.add(sent.subarray(at, at + 1), () => {});
  message.finish();
  const read = await Array.fromAsync(message);
  assert.ok(read.length < 10, `${read.length} pieces`);
  assert.ok(Buffer.concat(read).equals(sent));
});
