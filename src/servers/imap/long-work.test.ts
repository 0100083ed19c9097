/** Signs of life (RFC 9585): as long as the work lasts, and nothing of it is left after it. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { showProgress } from './long-work.ts';
import type { Session } from './session.ts';

function sessionWith(disabled: readonly string[] = []) {
  let flushed = 0;
  const session = {
    tag: 'a1',
    services: { disabled: new Set(disabled) },
    channel: {
      async flush() {
        flushed++;
      },
    },
  } as unknown as Session;
  return { session, flushed: () => flushed };
}

test('a command that works tells how far it is every ten seconds, and then its result', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { session, flushed } = sessionWith();
  const work = Promise.withResolvers<string>();
  let done = 0;
  const shown = showProgress(session, work.promise, () => ({ done, of: 9 }));
  const first = shown.next();
  t.mock.timers.tick(9_999);
  await turn();
  done = 3;
  t.mock.timers.tick(1);
  const line = '* OK [INPROGRESS ("a1" 3 9)] Still working\r\n';
  assert.deepEqual(await first, { done: false, value: line });
  const last = shown.next();
  await turn();
  // The client has it before the next one.
  assert.equal(flushed(), 1);
  work.resolve('all');
  assert.deepEqual(await last, { done: true, value: 'all' });
});

test('what is not known is told as such, and what fails fails', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { session } = sessionWith();
  const work = Promise.withResolvers<string>();
  const shown = showProgress(session, work.promise);
  const first = shown.next();
  t.mock.timers.tick(10_000);
  assert.match(String((await first).value), /^\* OK \[INPROGRESS \("a1" NIL NIL\)\] /);
  work.reject(new Error('failed'));
  await assert.rejects(shown.next(), /failed/);
});

test('work that fails after the client left is no error of the process', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { session } = sessionWith();
  const work = Promise.withResolvers<string>();
  const shown = showProgress(session, work.promise);
  const first = shown.next();
  t.mock.timers.tick(10_000);
  await first;
  await shown.return('');
  const seen: unknown[] = [];
  const see = (reason: unknown) => seen.push(reason);
  process.on('unhandledRejection', see);
  work.reject(new Error('the client left'));
  await turn();
  await turn();
  process.off('unhandledRejection', see);
  assert.deepEqual(seen, []);
});

test('an operator takes it off', async (t) => {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  const { session } = sessionWith(['INPROGRESS']);
  const work = Promise.withResolvers<string>();
  const shown = showProgress(session, work.promise).next();
  t.mock.timers.tick(60_000);
  work.resolve('all');
  assert.deepEqual(await shown, { done: true, value: 'all' });
});
