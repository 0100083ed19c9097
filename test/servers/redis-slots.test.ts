/** Slots and limits over all nodes, counted by a real Redis. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createClient } from '@redis/client';
import { type Logger, pino } from 'pino';
import { CountingState, Redis, RedisSlots, sharedLimits } from '../../src/platform/redis/redis.ts';
import { atEnd } from '../support/at-end.ts';
import { TcpProxy } from './proxy.ts';
import { startRedis } from './redis.ts';

const log = pino({ level: 'silent' });

/** @param own beside a patience which no busy machine exhausts */
async function connect(
  port: number,
  own: { answerMs?: number; log?: Logger } = { answerMs: 10_000 },
): Promise<Redis> {
  const server = {
    host: '127.0.0.1',
    port,
    tls: false,
    user: undefined,
    password: undefined,
    database: 0,
  };
  const redis = new Redis({ server, log, ...own });
  await redis.start();
  atEnd(() => redis.stop());
  return redis;
}

test('a slot that was refused is not counted, also where the node told Redis of its slots meanwhile', async () => {
  const server = await startRedis();
  atEnd(() => server.stop());
  const node = async (name: string) => {
    const redis = await connect(server.port);
    return new RedisSlots({ redis, prefix: 'test:', node: name, state: new CountingState(log) });
  };
  const [a, b, c] = await Promise.all([node('a'), node('b'), node('c')]);
  assert.equal(await a.take('key', 1, 1), 1);
  for (let i = 0; i < 20; i++) {
    const refused = b.take('key', 1, 1);
    // Redis is told of all slots of the key at once, of the one that is asked for too.
    b.give('key', 0);
    assert.equal(await refused, 0);
  }
  a.give('key', 1);
  // What a node says, Redis hears in order; what it gives back, it says in its next turn.
  for (const slots of [a, b]) {
    await slots.take('before', 1, 9);
    await slots.take('after', 1, 9);
  }
  assert.equal(await c.take('key', 1, 1), 1);
});

test('where Redis is full, or a replica, a count is given back where it was made, and that is told once', async () => {
  const told: string[] = [];
  const write = (line: string) => void told.push(JSON.parse(line).msg);
  const state = new CountingState(pino({}, { write }));
  for (const name of ['full', 'replica']) {
    const server = await startRedis('--replica-serve-stale-data', 'yes');
    atEnd(() => server.stop());
    const client = createClient({ url: server.url });
    await client.connect();
    const redis = await connect(server.port);
    const limit = sharedLimits(redis, 'test:', state)({ name, most: 2, seconds: 3_600 });
    await limit.take('before');
    if (name === 'full') await client.configSet('maxmemory', '1');
    else await client.replicaOf('127.0.0.1', 9);
    client.destroy();
    told.length = 0;
    for (let i = 0; i < 5; i++) {
      assert.equal((await limit.take('client')).remaining, 1);
      assert.equal((await limit.look('client')).remaining, 1);
      await limit.giveBack('client');
      await limit.clear('another');
    }
    assert.deepEqual(told, ['Redis refuses to count: each node applies the limits on its own']);
    state.worked();
  }
});

test('a command gives a silent Redis up before the connection is lost, and the next ones are not sent', async () => {
  const server = await startRedis();
  atEnd(() => server.stop());
  const link = await TcpProxy.start(server.port);
  atEnd(async () => link.stop());
  const told: string[] = [];
  const write = (line: string) => void told.push(JSON.parse(line).msg);
  const redis = await connect(link.port, { log: pino({}, { write }) });
  link.silenceAll();
  let sent = 0;
  const ask = () =>
    redis.ask((client) => {
      sent++;
      return client.ping();
    });
  await assert.rejects(ask(), /did not answer in 100 ms/);
  for (let i = 0; i < 20; i++) await assert.rejects(ask(), /does not answer/);
  assert.equal(sent, 1);
  assert.deepEqual(told, []);
});
