/** Slots over all nodes, counted by a real Redis. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pino } from 'pino';
import { CountingState, Redis, RedisSlots } from '../../src/platform/redis/redis.ts';
import { atEnd } from '../support/at-end.ts';
import { startRedis } from './redis.ts';

const log = pino({ level: 'silent' });

test('a slot that was refused is not counted, also where the node told Redis of its slots meanwhile', async () => {
  const server = await startRedis();
  atEnd(() => server.stop());
  const node = async (name: string) => {
    const redis = new Redis({
      server: {
        host: '127.0.0.1',
        port: server.port,
        tls: false,
        user: undefined,
        password: undefined,
        database: 0,
      },
      log,
      answerMs: 10_000,
    });
    await redis.start();
    atEnd(() => redis.stop());
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
