/** A request waits where its account or its user has used its share of the event loop. */
import assert from 'node:assert/strict';
import type { Readable } from 'node:stream';
import { test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { MailAccess, Tokens } from '../../tenants/accounts/accounts.ts';
import type { Key } from '../../tenants/keys/keys.ts';
import { authenticateMail, knowKeys, requireKey } from './authenticate.ts';
import { waitForTurn } from './docs-pages.ts';
import { enforceScopes } from './key-scope.ts';
import { LargeRequests } from './large-requests.ts';
import type { Api } from './route-tools.ts';

test('of many requests of one account at once, those of others come in between', async (t) => {
  let now = 0;
  t.mock.method(performance, 'now', () => now);
  const authenticate = async (token: string) => {
    // No other test of this process has its ids: what such a one did in the same turn, by the true clock, would count.
    const accountId = 900_000 + Number(token);
    return { accountId, address: `${token}@a.test`, userId: `user ${token}` };
  };
  const tokens = { authenticate } as unknown as Tokens;
  const begun: string[] = [];
  const ask = async (token: string) => {
    const authorization = `Bearer ${token}`;
    const raw = { headers: { authorization }, rawHeaders: ['Authorization', authorization] };
    await authenticateMail(tokens, { headers: raw.headers, raw } as unknown as FastifyRequest);
    begun.push(token);
    now += 6;
  };
  const asked: Promise<void>[] = [];
  for (const token of ['1', '1', '1', '2']) {
    asked.push(ask(token));
    // Each comes on a connection of its own, all within one turn of the event loop.
    await new Promise<void>((resolve) => process.nextTick(resolve));
  }
  await Promise.all(asked);
  assert.deepEqual(begun, ['1', '2', '1', '1']);
});

test('a key of one user waits for the share of that user, and the key of the product does not', async (t) => {
  let now = 0;
  t.mock.method(performance, 'now', () => now);
  const scopes: Record<string, object> = {
    'one-user': { userId: 'user of the one key' },
    'other-user': { userId: 'user of the other key' },
  };
  const made = { open: async (key: string) => scopes[key] as Key };
  const hook = requireKey(knowKeys(['product'], made), undefined);
  const begun: string[] = [];
  const ask = async (key: string) => {
    await hook({ headers: { 'x-api-key': key } } as unknown as FastifyRequest);
    begun.push(key);
    now += 11;
  };
  const asked: Promise<void>[] = [];
  for (const key of ['one-user', 'one-user', 'other-user', 'product', 'product']) {
    asked.push(ask(key));
    await new Promise<void>((resolve) => process.nextTick(resolve));
  }
  await Promise.all(asked);
  assert.deepEqual(begun, ['one-user', 'other-user', 'product', 'product', 'one-user']);
});

test('a call waits for the share of the user it names, and of the organization of its key', async (t) => {
  let now = 0;
  t.mock.method(performance, 'now', () => now);
  const hooks = new Map<string, (request: FastifyRequest) => Promise<void>>();
  enforceScopes({
    addHook: (name: string, hook: never) => hooks.set(name, hook),
  } as unknown as Api);
  const begun: string[] = [];
  const ask = async (user_id: string, organizationId?: string) => {
    const routeOptions = { config: { ownerIn: 'query' } };
    const caller = { scope: 'operator', organizationId };
    const request = { caller, routeOptions, query: { user_id } };
    await hooks.get('preHandler')?.(request as unknown as FastifyRequest);
    begun.push(user_id);
    now += 11;
  };
  const asked: Promise<void>[] = [];
  for (const [user, organization] of [
    ['named'],
    ['named'],
    ['first of one', 'one'],
    ['second of one', 'one'],
    ['another'],
  ] as const) {
    asked.push(ask(user, organization));
    await new Promise<void>((resolve) => process.nextTick(resolve));
  }
  await Promise.all(asked);
  assert.deepEqual(begun, ['named', 'first of one', 'another', 'named', 'second of one']);
});

test('who reads pages waits for the share of his client, and of all readers', async (t) => {
  let now = 0;
  t.mock.method(performance, 'now', () => now);
  const begun: string[] = [];
  const ask = async (ip: string, cost: number) => {
    await waitForTurn({ clientAddress: ip } as FastifyRequest);
    begun.push(ip);
    now += cost;
  };
  const asked: Promise<void>[] = [];
  const [first, second, third] = ['192.0.2.1', '192.0.2.2', '192.0.2.3'];
  for (const [ip, cost] of [
    [first, 2],
    [first, 2],
    [second, 3],
    [third, 1],
  ] as const) {
    asked.push(ask(ip, cost));
    await new Promise<void>((resolve) => process.nextTick(resolve));
  }
  await Promise.all(asked);
  assert.deepEqual(begun, [first, second, first, third]);
});

test('a body that is whole is parsed in the turn of its account', async (t) => {
  let now = 0;
  t.mock.method(performance, 'now', () => now);
  const requests = new LargeRequests();
  const parsed: number[] = [];
  const take = async (accountId: number) => {
    const holder = { accountId, address: `${accountId}@a.test`, userId: `user ${accountId}` };
    async function* pieces() {
      yield Buffer.alloc(10);
    }
    const payload = { iterator: pieces, resume: () => {} } as unknown as Readable;
    const [request, reply] = [{} as FastifyRequest, {} as FastifyReply];
    for await (const _ of requests.read(request, reply, payload, holder as MailAccess));
    parsed.push(accountId);
    now += 6;
  };
  await turn();
  const taken: Promise<void>[] = [];
  for (const accountId of [20, 20, 21]) {
    taken.push(take(accountId));
    await new Promise<void>((resolve) => process.nextTick(resolve));
  }
  await Promise.all(taken);
  assert.deepEqual(parsed, [20, 21, 20]);
});
