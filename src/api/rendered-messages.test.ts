import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { Message } from '../mailstore/mailstore.ts';
import { RenderedMessages } from './rendered-messages.ts';

const part = { type: 'text/plain', encoding: '7bit', size: 4 };

function message(uid: number, flags: string[], contentId?: string): Message {
  return {
    uid,
    flags,
    envelope: { subject: '' },
    bodyStructure: part,
    structure: { ...part, decodedSize: 4, headerStart: 0, bodyStart: 0, bodyEnd: 4 },
    size: 4,
    internalDate: '2026-01-01T00:00:00.000Z',
    async *open() {},
    ...(contentId !== undefined && { contentId }),
  };
}

test('what cannot change is read once, flags are those of now', async () => {
  const rendered = new RenderedMessages(1_000);
  let reads = 0;
  const read = async () => {
    reads++;
    return { rfc822: 'a\r\n"ü"' };
  };
  const first = await rendered.write(message(7, [], '1-7'), read);
  const second = await rendered.write(message(7, ['\\Seen'], '1-7'), read);
  assert.equal(reads, 1);
  assert.deepEqual(JSON.parse(first.toString()), { uid: 7, flags: [], rfc822: 'a\r\n"ü"' });
  assert.deepEqual(JSON.parse(second.toString()), {
    uid: 7,
    flags: ['\\Seen'],
    rfc822: 'a\r\n"ü"',
  });
});

test('a message without a content id is read each time', async () => {
  const rendered = new RenderedMessages(1_000);
  let reads = 0;
  const read = async () => ({ rfc822: String(++reads) });
  await rendered.write(message(7, []), read);
  await rendered.write(message(7, []), read);
  assert.equal(reads, 2);
});

test('the one that nobody asked for longest goes first', async () => {
  const rendered = new RenderedMessages(250);
  const reads: number[] = [];
  const ask = (uid: number) =>
    rendered.write(message(uid, [], `1-${uid}`), async () => {
      reads.push(uid);
      return { rfc822: 'x'.repeat(90) };
    });
  for (const uid of [1, 2, 1, 3, 1, 2]) await ask(uid);
  assert.deepEqual(reads, [1, 2, 3, 2]);
});

test('what came twice at once is counted once', async () => {
  const rendered = new RenderedMessages(250);
  let reads = 0;
  const ask = (uid: number) =>
    rendered.write(message(uid, [], `1-${uid}`), async () => {
      reads++;
      return { rfc822: 'x'.repeat(90) };
    });
  await Promise.all([ask(1), ask(1), ask(1)]);
  await ask(2);
  await ask(1);
  await ask(2);
  assert.equal(reads, 4);
});
