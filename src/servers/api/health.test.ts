import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startApi } from '../../../test/support/api/start-api.ts';

const noKey = { 'x-api-key': undefined };

test('the process is alive whatever else fails', async () => {
  const api = await startApi('sqlite', { readiness: { database: async () => false } });
  const answer = await api.call('GET', '/healthz', undefined, noKey);
  assert.equal(answer.status, 200);
  assert.deepEqual(answer.body, { status: 'ok' });
});

test('it is ready while every check passes', async () => {
  let listening = false;
  const api = await startApi('sqlite', {
    readiness: {
      database: async () => true,
      listeners: async () => {
        if (!listening) throw new Error('not listening');
        return true;
      },
    },
  });
  const early = await api.call('GET', '/readyz', undefined, noKey);
  assert.equal(early.status, 503);
  assert.equal(early.body.code, 'unavailable');
  assert.equal(early.body.detail, 'not ready: listeners');
  assert.ok(Number(early.headers.get('retry-after')) > 0);
  listening = true;
  const answer = await api.call('GET', '/readyz', undefined, noKey);
  assert.equal(answer.status, 200);
  assert.deepEqual(answer.body, { status: 'ready' });
});

test('it is ready for the rest while a part is down', async () => {
  let bodies: 'degraded' | true = 'degraded';
  const api = await startApi('sqlite', { readiness: { bodies: async () => bodies } });
  const away = await api.call('GET', '/readyz', undefined, noKey);
  assert.equal(away.status, 200);
  assert.deepEqual(away.body, { status: 'degraded', detail: 'bodies' });
  bodies = true;
  assert.deepEqual((await api.call('GET', '/readyz', undefined, noKey)).body, { status: 'ready' });
});

test('a start and a stop are not logged as a failure, and what fails beside them is', async () => {
  const states = { listeners: false, database: true };
  const api = await startApi('sqlite', {
    readiness: {
      listeners: async () => states.listeners,
      database: async () => states.database,
    },
  });
  const ask = async (now: Partial<typeof states>) => {
    Object.assign(states, now);
    return (await api.call('GET', '/readyz', undefined, noKey)).status;
  };
  assert.deepEqual([await ask({}), await ask({ listeners: true })], [503, 200]);
  assert.equal(await ask({ listeners: false }), 503);
  const told = () => api.logLines.flatMap(({ failing }) => failing ?? []);
  assert.deepEqual(told(), []);
  assert.equal(await ask({ database: false }), 503);
  assert.deepEqual(told(), ['listeners, database']);
});
