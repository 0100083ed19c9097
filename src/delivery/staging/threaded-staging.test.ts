import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { before, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { Worker } from 'node:worker_threads';
import { openTestMailstore, type TestMailstore } from '../../../test/support/mail.ts';
import type { CheckSettings } from '../../compose/sender-checks.ts';
import { Refusal } from '../../errors/errors.ts';
import { textsOf } from '../../message/message.ts';
import type { ArrivedMail, StagedMail, Staging } from './staging.ts';
import { blindStaging } from './testing/blind-staging.ts';
import { ThreadedStaging } from './threaded-staging.ts';

const settings: CheckSettings = {
  // Nobody answers there.
  dnsServers: ['127.0.0.1:9'],
  hostname: 'mx.test',
  enforce: true,
};
/** Tries of a few milliseconds each, in which a thread has to start. */
const ROUNDS = 4_000;
const corpus = new URL('../../message/corpus/', import.meta.url);

function arrived(protocol = 'ESMTP'): ArrivedMail {
  const arrival = {
    protocol,
    heloName: 'client.test',
    remoteAddress: '192.0.2.1',
    sessionId: 'session',
  };
  const envelope = { from: 'bob@sender.test', to: ['ann@acme.test'], arrival };
  return { id: 'f4e7', envelope, receivedAt: Date.UTC(2026, 0, 5) };
}

async function* chunked(bytes: Buffer, size = 1_000): AsyncGenerator<Buffer> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

/** What staging is all about, in a form to compare: where a body lies is no part of it. */
async function foundIn({ message: { parsed, body }, verdicts }: StagedMail) {
  const source = Buffer.concat(await Array.fromAsync(store.bodies.read(body)));
  assert.equal(source.length, body.size);
  const digest = createHash('sha256').update(source).digest('hex');
  const { envelope, structure } = textsOf(parsed);
  const stored = { envelope, structure };
  return JSON.parse(JSON.stringify({ parsed, verdicts, digest, stored }));
}

let store: TestMailstore;
before(async () => {
  store = await openTestMailstore('sqlite');
});

interface Staged {
  readonly staging: ThreadedStaging;
  /** Messages that were staged on this thread. */
  readonly here: ArrivedMail[];
  readonly errors: unknown[];
  readonly threads: Worker[];
}

function open(start: () => Worker, now?: () => number): Staged {
  const [here, errors, threads]: [ArrivedMail[], unknown[], Worker[]] = [[], [], []];
  const local = blindStaging(store.bodies);
  const noted: Staging = {
    stage(mail, source) {
      here.push(mail);
      return local.stage(mail, source);
    },
  };
  const staging = new ThreadedStaging({
    local: noted,
    start: () => {
      const thread = start();
      threads.push(thread);
      return thread;
    },
    log: { error: ({ err }: { err?: unknown }) => errors.push(err) },
    ...(now && { now }),
  });
  return { staging, here, errors, threads };
}

function startThread(): Worker {
  return new Worker(new URL('../../staging-thread.ts', import.meta.url), { workerData: settings });
}

/** Several at once, again and again until one was staged elsewhere: a thread takes time to start. */
async function warmUp({ staging, here }: Staged): Promise<void> {
  const few = 4;
  for (let rounds = 0; rounds < ROUNDS; rounds++) {
    here.length = 0;
    await together(staging, few);
    if (here.length < few) return;
    await delay(5);
  }
  assert.fail('no message was handed over');
}

/**
 * Runs a test with a thread that takes messages, and nothing staged here yet.
 *
 * @param body told how to let time go by
 */
async function withThread(
  body: (opened: Staged, pass: (ms: number) => void) => Promise<void>,
): Promise<void> {
  let clock = 0;
  const opened = open(startThread, () => clock);
  try {
    await warmUp(opened);
    opened.here.length = 0;
    await body(opened, (ms) => {
      clock += ms;
    });
  } finally {
    await opened.staging.close();
  }
}

function together(staging: Staging, count: number): Promise<StagedMail[]> {
  const one = Buffer.from('Subject: one\r\n\r\ntext\r\n');
  return Promise.all(Array.from({ length: count }, () => staging.stage(arrived(), chunked(one))));
}

test('the thread finds what this one would, byte for byte', () =>
  withThread(async ({ staging, here }) => {
    const samples = readdirSync(corpus).map((name) => readFileSync(new URL(name, corpus)));
    // What claims to be ours is taken out of the header.
    samples.push(Buffer.from('Authentication-Results: mx.test; spf=pass\r\nTo: a@b.test\r\n\r\nx'));
    samples.push(Buffer.alloc(0), Buffer.alloc(64 * 1024, 'a line\r\n'));
    for (const protocol of ['ESMTP', 'LMTP']) {
      const mail = arrived(protocol);
      const [beside, ...staged] = await Promise.all([
        staging.stage(mail, chunked(Buffer.from('Subject: beside\r\n\r\n'))),
        ...samples.map((bytes) => staging.stage(mail, chunked(bytes))),
      ]);
      assert.ok(beside);
      const expected = blindStaging(store.bodies);
      for (const [index, bytes] of samples.entries()) {
        const found = staged[index];
        assert.ok(found);
        const wanted = await expected.stage(mail, chunked(bytes));
        assert.deepEqual(await foundIn(found), await foundIn(wanted));
      }
    }
    assert.equal(here.length, 0);
  }));

test('one that comes soon after several is handed over, one that comes later is not', () =>
  withThread(async ({ staging, here }, pass) => {
    await together(staging, 1);
    assert.equal(here.length, 0);
    pass(99);
    await together(staging, 1);
    assert.equal(here.length, 0);
    pass(1);
    await together(staging, 1);
    assert.equal(here.length, 1);
    await together(staging, 3);
    // The first of them was alone when it came.
    assert.equal(here.length, 2);
    await together(staging, 1);
    assert.equal(here.length, 2);
  }));

test('a message that comes alone is staged here, and starts no thread', async () => {
  const { staging, here, threads } = open(startThread);
  for (let count = 0; count < 20; count++) {
    await staging.stage(arrived(), chunked(Buffer.from('Subject: alone\r\n\r\n')));
  }
  assert.equal(here.length, 20);
  assert.equal(threads.length, 0);
  await staging.close();
});

test('a message that is too large to be handed over streams to the disk, whole', () =>
  withThread(async ({ staging, here }) => {
    const large = Buffer.from(`Subject: large\r\n\r\n${'0123456789\r\n'.repeat(20_000)}`);
    const [, staged] = await Promise.all([
      staging.stage(arrived(), chunked(Buffer.from('Subject: beside\r\n\r\n'))),
      staging.stage(arrived(), chunked(large, 16 * 1024)),
    ]);
    assert.equal(here.length, 1);
    const { body } = staged.message;
    assert.ok(body.file);
    const read = Buffer.concat(await Array.fromAsync(store.bodies.read(body)));
    assert.ok(read.subarray(-large.length).equals(large));
    assert.equal(read.length, body.size);
  }));

test('a source that fails fails the message alone', () =>
  withThread(async ({ staging }) => {
    async function* broken(): AsyncGenerator<Buffer> {
      yield Buffer.from('Subject: half\r\n');
      throw new Error('gone');
    }
    const [beside, half] = await Promise.allSettled([
      staging.stage(arrived(), chunked(Buffer.from('Subject: beside\r\n\r\n'))),
      staging.stage(arrived(), broken()),
    ]);
    assert.equal(beside.status, 'fulfilled');
    assert.equal(half.status, 'rejected');
    assert.equal((half.reason as Error).message, 'gone');
  }));

test('where a thread ends, what it has in hand is refused for now, and the rest is staged here', async () => {
  const dies = `const { parentPort } = require('node:worker_threads');
    parentPort.once('message', () => { throw new Error('poison'); });
    parentPort.postMessage({ kind: 'ready' });`;
  let clock = 0;
  const opened = open(
    () => new Worker(dies, { eval: true }),
    () => clock,
  );
  const { staging, here, errors, threads } = opened;
  const failed: PromiseRejectedResult[] = [];
  for (let rounds = 0; rounds < ROUNDS && failed.length === 0; rounds++) {
    await delay(5);
    const one = () => staging.stage(arrived(), chunked(Buffer.from('Subject: one\r\n\r\n')));
    const settled = await Promise.allSettled([one(), one(), one(), one()]);
    failed.push(...settled.filter((result) => result.status === 'rejected'));
  }
  const [first] = failed;
  assert.ok(first?.reason instanceof Refusal);
  assert.equal(first.reason.code, 'unavailable');
  assert.equal(errors.length, 1);
  here.length = 0;
  await together(staging, 8);
  assert.equal(here.length, 8);
  assert.equal(threads.length, 1);
  clock += 30_000;
  await together(staging, 8);
  assert.equal(threads.length, 2);
  await staging.close();
});

test('where the system has no room for a thread, all is staged here', async () => {
  let clock = 0;
  let tries = 0;
  const { staging, here, errors } = open(
    () => {
      tries++;
      throw new Error('EAGAIN');
    },
    () => clock,
  );
  await together(staging, 8);
  assert.equal(here.length, 8);
  assert.equal(tries, 1);
  assert.match(String(errors), /EAGAIN/);
  clock += 30_000;
  await together(staging, 8);
  assert.equal(here.length, 16);
  assert.equal(tries, 2);
});

test('the end of staging ends the thread, and nothing is handed over any more', async () => {
  const opened = open(startThread);
  const { staging, here, errors, threads } = opened;
  await warmUp(opened);
  await staging.close();
  here.length = 0;
  await together(staging, 8);
  assert.equal(here.length, 8);
  assert.equal(threads.length, 1);
  assert.deepEqual(errors, []);
});
