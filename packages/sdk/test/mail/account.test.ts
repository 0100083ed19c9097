/** Whose mail it is, what is left of it after the user signed out, and how many requests of a minute are left to others. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { BodyRow } from '../../src/mail/rows.ts';
import { TABLES, type TableName } from '../../src/mail/store.ts';
import { memoryStore, openMail, SessionEnded } from '../../src/mail.ts';
import { FakeServer } from '../../src/testing/testing.ts';
import { BODY_BUDGET, World } from './world.ts';

const BOB = 'bob@acme.test';
const TABLES_OF_ACCOUNT = Object.keys(TABLES) as TableName[];

/** A token as Postroom makes them, which says whose it is; its signature is the server's business. */
function ownToken(address: string): string {
  const claims = { sub: address, postroom_account: 'id' };
  return `x.${Buffer.from(JSON.stringify(claims)).toString('base64url')}.x`;
}

for (const [kind, tokenOf] of [
  ['says whose it is', () => ({ token: ownToken(BOB), expires_in: 3600 })],
  [
    'the server alone knows',
    (world: World) => world.server.issueToken(world.server.addAccount({ address: BOB })),
  ],
] as const) {
  test(`changes of one account never go with the token of another, which ${kind}`, async () => {
    const store = memoryStore();
    const world = new World({ seed: 1, withLocks: true, store });
    world.account.deliver('INBOX', { subject: 'for Ada' });
    const first = await world.open();
    await world.pass(5000);
    world.server.online = false;
    world.server.dropSockets();
    const inbox = first.client.mailbox('INBOX');
    const [id] = await inbox.ids();
    assert.ok(id);
    await inbox.flag([id], { add: ['\\Flagged'] });
    world.kill(first);
    world.server.online = true;
    const before = world.server.requests.length;
    const { token } = tokenOf(world);
    world.tokenOf = () => ({ token, expires_in: 3600 });
    const second = await world.open();
    await world.pass(60_000);
    assert.equal(second.client.state, 'stopped');
    assert.deepEqual(
      world.server.requests.slice(before).map(({ path }) => path),
      [],
    );
    assert.equal((await second.client.pending()).length, 1, 'the change is kept');
  });
}

test('who opens mail of no account is told what names one', async () => {
  const auth = async () => ({ token: 'of.a.product' });
  // Plain JavaScript may leave it out.
  const none = undefined as unknown as typeof auth;
  for (const options of [{ auth }, { auth, address: '' }, { auth: none }]) {
    await assert.rejects(openMail({ baseUrl: 'https://mail.test', ...options }), {
      name: 'TypeError',
      message: /`address`, `auth` or the token.+ada@acme\.test/,
    });
  }
});

test('a login that gives its token once opens mail whose account the token names', async () => {
  const { clock, platform } = new FakeServer();
  let given = 0;
  const auth = async () => {
    if (++given > 1) throw new SessionEnded('the login of this tab is over');
    return { token: ownToken(BOB), expires_in: 3600 };
  };
  const client = await openMail({
    baseUrl: 'https://mail.test',
    auth,
    platform: {
      ...platform,
      connect: undefined,
      fetch: async () => {
        throw new TypeError('fetch failed');
      },
    },
  });
  await clock.advance(60_000);
  assert.deepEqual([client.address, client.state, given], [BOB, 'offline', 1]);
  await client.close();
});

test('a network that wants a login first ends no session: the password is not refused', async () => {
  const server = new FakeServer();
  const { clock } = server;
  server.addAccount({ address: BOB, password: 'secret' });
  let isPage = true;
  const client = await openMail({
    baseUrl: 'https://mail.test',
    address: BOB,
    auth: { address: BOB, password: 'secret' },
    store: memoryStore(),
    platform: {
      ...server.platform,
      fetch: async (...request) => (isPage ? new Response('<html>') : server.fetch(...request)),
      connect: undefined,
    },
  });
  await clock.advance(5000);
  assert.equal(client.state, 'offline');
  isPage = false;
  await clock.advance(60_000);
  assert.equal(client.state, 'polling');
  await client.close();
});

test('a callback that never gives a token is asked again', async () => {
  const world = new World({ seed: 1, withLocks: true });
  const { tokenOf } = world;
  let asked = 0;
  world.tokenOf = () => (++asked === 1 ? new Promise<never>(() => undefined) : tokenOf());
  const { client } = await world.open();
  await world.pass(90_000);
  assert.equal(client.state, 'live');
});

test('who leads writes nothing for a look that found nothing new, but a sign of life each five seconds', async () => {
  const server = new FakeServer();
  const account = server.addAccount({ address: BOB, password: 'secret' });
  account.deliver('INBOX', { subject: 'Hi' });
  const store = memoryStore();
  const written: string[] = [];
  const commit = store.apply.bind(store);
  store.apply = (changes) => {
    written.push(...changes.map((one) => ('put' in one ? one.put : one.remove)));
    commit(changes);
  };
  const client = await openMail({
    baseUrl: 'https://mail.test',
    address: BOB,
    auth: { address: BOB, password: 'secret' },
    store,
    platform: { ...server.platform, connect: undefined },
  });
  await server.clock.advance(120_000);
  assert.equal(client.state, 'polling');
  written.length = 0;
  const before = server.requests.length;
  await server.clock.advance(600_000);
  assert.equal(server.requests.length, before + 10);
  assert.deepEqual(
    written,
    Array.from({ length: 120 }, () => 'accounts'),
  );
  await client.close();
});

test('signing out leaves nothing, also of mail that has not gone', async () => {
  const world = new World({ seed: 1, withLocks: true });
  world.account.deliver('INBOX', { subject: 'Hi' });
  const { client } = await world.open();
  await world.pass(5000);
  world.server.online = false;
  world.server.dropSockets();
  await client.send({
    to: [{ address: 'bob@sender.test' }],
    attachments: [{ filename: 'a.txt', content: new Uint8Array([1, 2]) }],
  });
  assert.equal((await world.store.range({ table: 'blobs', prefix: [] })).length, 1);
  assert.equal((await world.store.range({ table: 'bodies', prefix: [] })).length, 1);
  await client.signOut();
  for (const table of TABLES_OF_ACCOUNT)
    assert.deepEqual(await world.store.range({ table, prefix: [] }), [], table);
});

test('a tab knows nothing more of what waited once another one has signed out', async () => {
  const world = new World({ seed: 1, withLocks: true });
  const [first, other] = [await world.open(), await world.open()];
  await world.pass(5000);
  world.server.online = false;
  world.server.dropSockets();
  await other.client.send({ to: [{ address: 'bob@sender.test' }] });
  assert.equal((await other.client.pending()).length, 1);
  // It looks again when all is removed.
  world.freeze(other, 1000);
  await first.client.signOut();
  await world.pass(10_000);
  assert.deepEqual([other.client.state, await other.client.pending()], ['stopped', []]);
});

test('a tab that slept over a sign-out and the next login knows nothing of what waited before', async () => {
  const world = new World({ seed: 1, withLocks: true });
  const [first, other] = [await world.open(), await world.open()];
  await world.pass(5000);
  world.server.online = false;
  world.server.dropSockets();
  await other.client.send({ to: [{ address: 'bob@sender.test' }] });
  world.freeze(other, 20_000);
  await first.client.signOut();
  const next = await world.open();
  world.server.online = true;
  await world.pass(30_000);
  assert.deepEqual(await other.client.pending(), []);
  // It leads now.
  world.kill(next);
  await world.pass(30_000);
  assert.equal(world.account.sends.all.length, 0);
});

test('what was to be removed by a tab that died over it, is removed when the account is opened again', async () => {
  const world = new World({ seed: 1, withLocks: true });
  world.account.deliver('INBOX', { subject: 'Hi' });
  const first = await world.open();
  await world.pass(5000);
  world.server.online = false;
  world.server.dropSockets();
  const inbox = first.client.mailbox('INBOX');
  for (const flag of ['one', 'two', 'three']) {
    const flagging = inbox.flag([1], { add: [flag] });
    await world.pass(0, flagging);
  }
  const { update } = first.store;
  // The next write after the one that says that the account signed out.
  first.store.update = async (...all) => {
    await update(...all);
    world.crash = { tab: first, when: 'before' };
  };
  void first.client.signOut();
  await world.pass(1000);
  assert.ok(first.isDead);
  assert.equal((await world.store.range({ table: 'operations', prefix: [] })).length, 3);
  world.server.online = true;
  const second = await world.open();
  assert.deepEqual(await second.client.pending(), []);
  await world.pass(60_000);
  assert.deepEqual(world.account.mailbox('INBOX').find(1)?.flags, []);
  assert.equal(second.client.state, 'live');
});

test('a change that was not at the server when its account signed out was not carried out', async () => {
  const world = new World({ seed: 1, withLocks: true });
  world.account.deliver('INBOX', { subject: 'Hi' });
  const [first, second] = [await world.open(), await world.open()];
  await world.pass(5000);
  world.server.online = false;
  world.server.dropSockets();
  const flagging = first.client.mailbox('INBOX').flag([1], { add: ['\\Flagged'] });
  await world.pass(0, flagging);
  const { applied } = await flagging;
  const over = assert.rejects(applied, /signed out/);
  const signingOut = second.client.signOut();
  await world.pass(1000, signingOut);
  await over;
});

test('texts are fetched ahead only with requests that nobody else needs', async () => {
  const world = new World({ seed: 1, withLocks: true, rateLimitPerMinute: 20 });
  // Two of them make a page: with the list and the other mailboxes, more than 12 requests.
  for (let i = 0; i < 22; i++) world.account.deliver('INBOX', { subject: `mail ${i}` });
  const { client } = await world.open();
  const ahead = () => world.server.requests.filter(({ path }) => path === '/mail/messages').length;
  await world.pass(40_000);
  assert.equal(client.state, 'live');
  assert.equal(ahead(), 0, 'of the minute, less than 40 % is left');
  // The next minute is new, which any request finds out.
  await world.pass(30_000);
  await client.mailbox('INBOX').sync();
  await world.pass(5_000);
  assert.ok(ahead() > 0, 'no text was fetched ahead');
});

test('texts of a tab that leads again stay within what is kept at most', async () => {
  const world = new World({ seed: 1, withLocks: false });
  const [first, second] = [await world.open(), await world.open()];
  const deliver = async () => {
    for (let i = 0; i < 4; i++) world.account.deliver('INBOX', { subject: 'mail' });
    await world.pass(10_000);
    const texts = (await world.store.range({ table: 'bodies', prefix: [] })) as BodyRow[];
    return texts.reduce((sum, { weight }) => sum + weight, 0);
  };
  const least = await deliver();
  assert.ok(least > 0);
  world.freeze(first, 25_000);
  await world.pass(30_000);
  assert.ok((await deliver()) > least, 'the other tab leads');
  world.kill(second);
  await world.pass(30_000);
  assert.ok((await deliver()) <= BODY_BUDGET);
});

test('a page that is shown again after its lock was taken away waits for the lock once more', async () => {
  const world = new World({ seed: 1, withLocks: true });
  const [first, second] = [await world.open(), await world.open()];
  await world.pass(5000);
  assert.equal(first.client.state, 'live');
  world.leave(first, 10_000);
  await world.pass(20_000);
  assert.equal(second.client.state, 'live');
  world.kill(second);
  // Without the lock it would wait for the end of the lease.
  await world.pass(3000);
  world.account.deliver('INBOX', { subject: 'after' });
  await world.pass(1000);
  assert.equal((await first.client.mailbox('INBOX').ids()).length, 1);
});

test('a page that goes away and comes back while it begins to lead, has one connection', async () => {
  const server = new FakeServer();
  const { clock } = server;
  server.addAccount({ address: BOB, password: 'secret' });
  const store = memoryStore();
  const range = store.range.bind(store);
  let isSlow = false;
  store.range = async (query) => {
    if (isSlow) await new Promise<void>((resolve) => clock.setTimeout(resolve, 100));
    return await range(query);
  };
  const page = { woken: (): void => undefined, leaving: (): void => undefined };
  const traffic: string[] = [];
  const opening = openMail({
    baseUrl: 'https://mail.test',
    auth: { address: BOB, password: 'secret' },
    store,
    platform: {
      ...server.platform,
      listen: (woken, leaving) => {
        Object.assign(page, { woken, leaving });
        isSlow = true;
        return () => undefined;
      },
    },
  });
  await clock.advance(10);
  const client = await opening;
  client.on('traffic', ({ title }) => title === 'GET /ws' && traffic.push(title));
  page.leaving();
  await clock.advance(0);
  page.woken();
  await clock.advance(60_000);
  assert.deepEqual([client.state, traffic], ['live', ['GET /ws']]);
  await client.close();
});
