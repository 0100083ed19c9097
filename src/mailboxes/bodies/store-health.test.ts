import assert from 'node:assert/strict';
import { test } from 'node:test';
import { StoreUnavailable } from './body-store.ts';
import { StoreHealth } from './store-health.ts';

test('for a store that does not answer, the result comes soon', {
  timeout: 20_000,
}, async () => {
  let answer = Promise.withResolvers<void>();
  const health = new StoreHealth({ test: () => answer.promise });
  assert.equal(await health.answers(), false);
  answer.resolve();
  assert.equal(await health.answers(), true);
  // Its last answer holds for a while.
  answer = Promise.withResolvers();
  assert.equal(await health.answers(), true);
  health.close();
});

test('a test that fails by the database leaves the store as it was', async (t) => {
  let time = 0;
  t.mock.method(performance, 'now', () => time);
  let ask = () => Promise.resolve();
  const health = new StoreHealth({ test: () => ask() });
  assert.equal(await health.answers(), true);
  ask = () => Promise.reject(new Error('the database does not answer'));
  for (time = 10_000; time < 13_000; time += 1_000) assert.equal(await health.answers(), true);
  health.close();
});

test('a database whose socket is gone is no store that does not answer', async () => {
  const text = 'connect ENOENT /run/postgresql/.s.PGSQL.5432';
  const failure = Object.assign(new Error(text), { code: 'ENOENT', syscall: 'connect' });
  const health = new StoreHealth({ test: () => Promise.reject(failure) });
  await assert.rejects(health.test(), failure);
  assert.equal(health.isUp, true);
  health.close();
});

test('a test after a failed request that fails by the database does not end the process', async () => {
  const said = Promise.withResolvers<unknown[]>();
  const log = { info: () => {}, warn: () => {}, error: (...args: unknown[]) => said.resolve(args) };
  const failure = new Error('the database does not answer');
  const health = new StoreHealth({ test: () => Promise.reject(failure), log });
  health.suspect(new StoreUnavailable('the store does not answer'));
  assert.deepEqual(await said.promise, [{ err: failure }, 'the body store could not be tested']);
  health.close();
});

test('of a store that answers and takes no bodies, the first failure and the end are logged', async () => {
  const lines: string[] = [];
  const log = (line: string) => void lines.push(line);
  const health = new StoreHealth({
    test: async () => undefined,
    log: { info: log, warn: log, error: log },
  });
  for (let upload = 0; upload < 3; upload++) {
    health.refused(new StoreUnavailable('the bucket is full'));
    await health.test();
  }
  health.accepted();
  health.accepted();
  assert.deepEqual(lines, [
    'a body could not be stored: the bucket is full; its mail is deferred, and no other failure is logged until one is stored',
    'bodies are stored again',
  ]);
  health.close();
});

test('a store that refuses the start is not logged: the start says why', async () => {
  const lines: string[] = [];
  const log = (line: string) => void lines.push(line);
  const refusal = new StoreUnavailable('the bucket answered AccessDenied (403)', true);
  const health = new StoreHealth({
    test: () => Promise.reject(refusal),
    log: { info: log, warn: log, error: log },
  });
  assert.equal(await health.test(), refusal);
  assert.equal(health.isUp, false);
  assert.deepEqual(lines, []);
  health.close();
});
