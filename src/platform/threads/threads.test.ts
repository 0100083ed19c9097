import assert from 'node:assert/strict';
import { test } from 'node:test';
import { Worker } from 'node:worker_threads';
import { AskedThread, ThreadEnded } from './threads.ts';

/** A thread that answers by the given function. */
function start(answer: string): Worker {
  const url = JSON.stringify(new URL('./threads.ts', import.meta.url).href);
  const program = `import(${url}).then(({ answerRequests, tell }) => {
    answerRequests(${answer}, undefined, (error) => error.message === 'damage');
    tell('ready');
  });`;
  return new Worker(program, { eval: true });
}

test('each request gets its own answer, whatever their order; an error is an answer', async () => {
  const told: string[] = [];
  const answer = `async (ms) => {
    if (ms < 0) throw new Error('negative');
    await new Promise((resolve) => setTimeout(resolve, ms));
    return ms;
  }`;
  const thread = new AskedThread<number, string>(start(answer), {
    onTold: (what) => told.push(what),
  });
  const asked = [20, 0, 10].map((ms) => thread.ask<number>(ms));
  await assert.rejects(thread.ask(-1), /negative/);
  assert.deepEqual(await Promise.all(asked), [20, 0, 10]);
  assert.deepEqual([told, thread.waiting, thread.fault], [['ready'], 0, undefined]);
  await thread.end();
});

test('what was asked of a thread that ends fails, and what is asked later', async () => {
  const ends: unknown[] = [];
  const ended = new AskedThread<string>(start('() => new Promise(() => {})'), {
    onEnd: (fault) => ends.push(fault, ended.waiting),
  });
  const asked = ended.ask('something');
  await Promise.all([assert.rejects(asked, ThreadEnded), ended.end()]);
  await assert.rejects(ended.ask('something'), ThreadEnded);
  assert.deepEqual(ends, [ended.fault, 1]);

  const damaged = new AskedThread<string>(start('(text) => { throw new Error(text) }'));
  await assert.rejects(damaged.ask('small'), /small/);
  assert.equal(damaged.fault, undefined);
  await assert.rejects(damaged.ask('damage'), /damage/);
  assert.match(String(damaged.fault), /^Error: damage/);
});

test('a thread that does not answer is ended', async () => {
  const thread = new AskedThread<string>(start('() => new Promise(() => {})'), { answerMs: 1 });
  await assert.rejects(thread.ask('something'), /did not answer in 1 ms/);
  assert.match(String(thread.fault), /did not answer/);
});

test('others have their turn between two answers, also where each is there before its work is done', async () => {
  const thread = new AskedThread<number>(start('(number) => number'));
  let turns = 0;
  let isDone = false;
  const count = () => {
    turns++;
    if (!isDone) setImmediate(count);
  };
  const held = new Int32Array(new SharedArrayBuffer(4));
  const askAgain = async () => {
    for (let n = 0; n < 20; n++) {
      await thread.ask(n);
      // The event loop is held: meanwhile the other one gets its answer.
      Atomics.wait(held, 0, 0, 10);
    }
  };
  await thread.ask(0);
  count();
  await Promise.all([askAgain(), askAgain()]);
  isDone = true;
  assert.ok(turns > 20, `${turns} turns`);
  await thread.end();
});
