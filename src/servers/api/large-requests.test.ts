/** Large requests that never end, of users who take all that they may have. */
import assert from 'node:assert/strict';
import { EventEmitter } from 'node:events';
import type { Readable } from 'node:stream';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { MailAccess } from '../../tenants/accounts/accounts.ts';
import { LargeRequests } from './large-requests.ts';

/** Begins a request of more than 1 MiB that does not end. @returns whether it is being read */
async function begin(requests: LargeRequests, userId: string, accountId: number): Promise<boolean> {
  const raw = Object.assign(new EventEmitter(), { socket: new EventEmitter() });
  const [request, reply] = [{ raw }, { raw }] as unknown as [FastifyRequest, FastifyReply];
  async function* pieces() {
    yield Buffer.alloc(2 * 1024 * 1024);
    await new Promise(() => {});
  }
  const payload = { iterator: pieces, resume: () => {} } as unknown as Readable;
  const holder = { accountId, address: `${accountId}@a.test`, userId } as MailAccess;
  await turn();
  return requests
    .read(request, reply, payload, holder)
    .next()
    .then(() => true)
    .catch(({ code }: { code: string }) => {
      assert.equal(code, 'rate_limited');
      return false;
    });
}

test('a short request becomes a large one by the files that it names, and is counted once', async () => {
  const requests = new LargeRequests();
  const holder = { accountId: 1, address: '1@a.test', userId: 'user' } as MailAccess;
  const open = () => {
    const raw = Object.assign(new EventEmitter(), { socket: new EventEmitter() });
    const [request, reply] = [{ raw }, { raw }] as unknown as [FastifyRequest, FastifyReply];
    return {
      name: (octets: number) => requests.add(request, reply, holder, octets),
      end: async () => {
        raw.emit('close');
        for (let turns = 0; turns < 5; turns++) await turn();
      },
    };
  };
  const begun = Array.from({ length: 4 }, open);
  for (const { name } of begun) for (let files = 0; files < 4; files++) name(600_000);
  const fifth = open();
  fifth.name(600_000);
  assert.throws(() => fifth.name(600_000), { code: 'rate_limited', retryAfter: 2 });
  await begun[0]?.end();
  open().name(2_000_000);
  assert.throws(() => open().name(2_000_000), { code: 'rate_limited' });
});

test('two users who send all that they may leave room for a third', async () => {
  const requests = new LargeRequests();
  const held: number[] = [];
  for (const user of [1, 2]) {
    let count = 0;
    for (let at = 0; at < 20; at++) {
      if (await begin(requests, `user ${user}`, 10 * user + (at % 5))) count++;
    }
    held.push(count);
  }
  assert.deepEqual(held, [6, 3]);
  assert.equal(await begin(requests, 'user 3', 30), true);
});
