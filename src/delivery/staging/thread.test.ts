import assert from 'node:assert/strict';
import { once } from 'node:events';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { Refusal } from '../../errors/errors.ts';
import type { ArrivedMail } from './staging.ts';
import { StagingThread, type ThreadTimes } from './thread.ts';

const MAIL: ArrivedMail = {
  id: 'f4e7',
  envelope: {
    from: '',
    to: ['ann@acme.test'],
    arrival: { protocol: 'ESMTP', heloName: '', remoteAddress: '192.0.2.1', sessionId: 's' },
  },
  receivedAt: 0,
};
const NEVER: ThreadTimes = { answerMs: 60_000, idleMs: 60_000 };

interface Opened {
  readonly thread: StagingThread;
  /** Resolves with what ended it. */
  readonly ended: Promise<unknown>;
  stage(): Promise<unknown>;
}

/** A thread that says that it is ready, and does to each question what the script says. */
async function open(script: string, times = NEVER): Promise<Opened> {
  const worker = new Worker(
    `const { parentPort } = require('node:worker_threads');
     parentPort.on('message', ({ id }) => { ${script} });
     parentPort.postMessage({ kind: 'ready' });`,
    { eval: true },
  );
  const { promise: ended, resolve } = Promise.withResolvers<unknown>();
  const thread = new StagingThread(worker, resolve, times);
  assert.equal(thread.takesMore, false);
  await once(worker, 'message');
  assert.equal(thread.takesMore, true);
  return { thread, ended, stage: () => thread.stage(MAIL, new Uint8Array(10)) };
}

const isUnavailable = (error: unknown) => error instanceof Refusal && error.code === 'unavailable';

test('a bug fails the message that it was found by, and no other', async () => {
  const { thread, ended, stage } = await open(`
    const message = { size: 1, envelope: '{"subject":"hi"}', structure: '{"type":"a/b"}', headerEnd: 1 };
    if (id === 1) parentPort.postMessage({ kind: 'failed', id, bug: 'TypeError: oops' });
    else parentPort.postMessage({ kind: 'staged', id, message, content: new Uint8Array(3) });`);
  const [failed, staged] = await Promise.allSettled([stage(), stage()]);
  assert.equal(failed.status, 'rejected');
  assert.match(String(failed.reason), /staging failed: TypeError: oops/);
  assert.deepEqual(staged, {
    status: 'fulfilled',
    value: {
      message: {
        parsed: { size: 1, envelope: { subject: 'hi' }, structure: { type: 'a/b' }, headerEnd: 1 },
        body: { size: 3, content: Buffer.alloc(3) },
      },
    },
  });
  await thread.end();
  assert.equal(await ended, undefined);
});

test('a thread that hangs is ended, and says so', async () => {
  const { thread, ended, stage } = await open('for (;;);', { ...NEVER, answerMs: 200 });
  const results = await Promise.allSettled([stage(), stage()]);
  for (const result of results) {
    assert.ok(result.status === 'rejected' && isUnavailable(result.reason));
  }
  assert.match(String(await ended), /did not answer in 200 ms/);
  assert.equal(thread.takesMore, false);
});

test('a thread with a long queue is not taken for one that hangs', async () => {
  // A tenth of a second for each, one after the other: the last waits much longer than is allowed.
  const slow = `Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 100);
    parentPort.postMessage({ kind: 'failed', id, bug: 'slow' });`;
  const { thread, ended, stage } = await open(slow, { ...NEVER, answerMs: 400 });
  const results = await Promise.allSettled(Array.from({ length: 10 }, stage));
  for (const result of results) {
    assert.ok(result.status === 'rejected' && /slow/.test(String(result.reason)));
  }
  assert.equal(thread.takesMore, true);
  await thread.end();
  assert.equal(await ended, undefined);
});

test('a thread that nobody needs ends by itself, without a fault', async () => {
  const { thread, ended } = await open('', { ...NEVER, idleMs: 50 });
  assert.equal(await ended, undefined);
  assert.equal(thread.takesMore, false);
});

test('a thread that takes longer to start than it may be idle is not ended meanwhile', async () => {
  const worker = new Worker(
    `const { parentPort } = require('node:worker_threads');
     Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 400);
     parentPort.postMessage({ kind: 'ready' });
     parentPort.on('message', () => {});`,
    { eval: true },
  );
  const { promise: ended, resolve } = Promise.withResolvers<unknown>();
  const thread = new StagingThread(worker, resolve, { ...NEVER, idleMs: 50 });
  const started = once(worker, 'message').then(() => thread.takesMore);
  assert.equal(await Promise.race([started, ended]), true);
  assert.equal(await ended, undefined);
});

test('a thread with a message in hand is not idle', async () => {
  const answer = `setTimeout(() => parentPort.postMessage({ kind: 'failed', id, bug: 'late' }), 300)`;
  const { thread, stage } = await open(answer, { ...NEVER, idleMs: 50 });
  await assert.rejects(stage(), /late/);
  await thread.end();
});

test('the end of a thread refuses what it has in hand, for now', async () => {
  const { thread, ended, stage } = await open('');
  const staged = stage();
  const settled = assert.rejects(staged, isUnavailable);
  const ending = thread.end();
  assert.equal(thread.takesMore, false);
  await ending;
  await settled;
  assert.equal(await ended, undefined);
});

test('an end that nobody asked for is a fault', async () => {
  const { ended, stage } = await open('process.exit(3)');
  await assert.rejects(stage(), isUnavailable);
  assert.match(String(await ended), /ended with 3/);
});

test('a thread takes no more than it can have in hand', async () => {
  const { thread, stage } = await open('');
  const waiting: Promise<unknown>[] = [];
  while (thread.takesMore && waiting.length < 10_000) waiting.push(stage());
  assert.equal(waiting.length, 512);
  const settled = Promise.allSettled(waiting);
  await Promise.all([thread.end(), delay(0)]);
  assert.ok((await settled).every(({ status }) => status === 'rejected'));
});
