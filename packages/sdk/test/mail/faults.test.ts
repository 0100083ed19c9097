/** What programs, browsers and disks do wrong around the engine: it goes on. */
import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { test } from 'node:test';
import { memoryStore, openMail, type Store } from '../../src/mail.ts';
import { FakeServer } from '../../src/testing/testing.ts';
import { World } from './world.ts';

const auth = { address: 'ada@acme.test', password: 'secret' };

test('a listener that throws neither stops what is under way nor the other listeners', async (context) => {
  const world = new World({ seed: 1, withLocks: true });
  world.account.deliver('INBOX', { subject: 'Hi' });
  const { client } = await world.open();
  await world.pass(5000);
  const reported: string[] = [];
  const later = queueMicrotask;
  context.mock.method(globalThis, 'queueMicrotask', (work: () => void) =>
    later(() => {
      try {
        work();
      } catch (error) {
        reported.push((error as Error).message);
      }
    }),
  );
  const heard: unknown[] = [];
  for (const name of ['pending', 'traffic'] as const) {
    client.on(name, () => assert.fail(name));
    client.on(name, () => heard.push(name));
  }
  const inbox = client.mailbox('INBOX');
  inbox.watch({}, ({ messages }) => {
    heard.push(messages[0]?.flags);
    assert.fail('watch');
  });
  const { applied } = await inbox.flag([1], { add: ['\\Flagged'] });
  await world.pass(0, applied);
  await applied;
  assert.deepEqual(world.account.mailbox('INBOX').find(1)?.flags, ['\\Flagged']);
  assert.deepEqual(heard.at(-1), ['\\Flagged']);
  for (const name of ['pending', 'traffic']) assert.ok(heard.includes(name), name);
  for (const name of ['pending', 'traffic', 'watch']) assert.ok(reported.includes(name), name);
});

test('where the browser allows no WebSocket to this address, INBOX is looked at', async () => {
  const server = new FakeServer();
  const account = server.addAccount(auth);
  const connect = () => {
    throw new DOMException('not secure', 'SecurityError');
  };
  const platform = { ...server.platform, connect };
  const client = await openMail({ baseUrl: 'https://mail.test', auth, platform });
  await server.clock.advance(20_000);
  account.deliver('INBOX', { subject: 'Hi' });
  await server.clock.advance(60_000);
  assert.equal((await client.mailbox('INBOX').list()).total, 1);
  assert.equal(client.state, 'polling');
  const before = server.requests.length;
  await server.clock.advance(600_000);
  assert.equal(server.requests.length - before, 10, 'once a minute');
  await client.close();
});

test('a store that is full from the beginning is no reason to show no mail', async () => {
  const server = new FakeServer();
  server.addAccount(auth);
  const full = async () => {
    store.onLost?.(new Error('full'));
    throw new Error('full');
  };
  const { get, range, close } = Object.getPrototypeOf(memoryStore()) as Store;
  const empty = memoryStore();
  const store: Store = {
    get: get.bind(empty),
    range: range.bind(empty),
    close: close.bind(empty),
    update: full,
  };
  const { clock } = server;
  const channels = new Set<object>();
  const openChannel = () => {
    const channel = {
      onmessage: null,
      postMessage: () => {},
      close: () => channels.delete(channel),
    };
    channels.add(channel);
    return channel;
  };
  const platform = { ...server.platform, openChannel };
  const client = await openMail({ baseUrl: 'https://mail.test', auth, store, platform });
  assert.equal(channels.size, 1, 'the client that did not start hears other tabs, and would lead');
  await clock.advance(20_000);
  assert.deepEqual([client.storage, client.state], ['memory', 'live']);
  await client.close();
  const before = server.requests.length;
  await clock.advance(120_000);
  assert.equal(server.requests.length, before, 'a second client goes on');
  assert.equal(channels.size, 0);
});

test('while nothing changes, nothing is read of the store but whether something did', async (context) => {
  const world = new World({ seed: 1, withLocks: true });
  world.account.deliver('INBOX', { subject: 'Hi' });
  const told = [0, 0];
  const reads = [];
  for (const tab of told.keys()) {
    const { client, store } = await world.open();
    client
      .mailbox('INBOX')
      .watch({ notFlags: ['\\Seen'] }, () => (told[tab] = (told[tab] ?? 0) + 1));
    await world.pass(30_000);
    // What waits may be as large as what it is about.
    await client.mailbox('INBOX').flag([1], { add: ['\\Flagged'] });
    await world.pass(30_000);
    reads.push(context.mock.method(store, 'range').mock);
  }
  for (const read of reads) read.resetCalls();
  const before = [...told];
  await world.pass(60_000);
  for (const read of reads) assert.equal(read.callCount(), 0);
  world.account.deliver('INBOX', { subject: 'Hi' });
  await world.pass(5000);
  assert.deepEqual(
    told,
    before.map((times) => times + 1),
  );
});

test('a search that is given up while the server wants a pause is over at once', async () => {
  const world = new World({ seed: 1, withLocks: true });
  const { client } = await world.open();
  await world.pass(5000);
  world.server.failNext({ status: 429, retryAfter: 60 });
  await assert.rejects(client.search({ text: 'one' }), { code: 'rate_limited' });
  const giving = new AbortController();
  const { signal } = new AbortController();
  const listened = () => getEventListeners(signal, 'abort').length;
  const waiting = client.search({ text: 'waits' }, { signal });
  await world.pass(1000);
  assert.equal(listened(), 1);
  await world.pass(60_000, waiting);
  await waiting;
  assert.equal(listened(), 0);
  world.server.failNext({ status: 429, retryAfter: 60 });
  await assert.rejects(client.search({ text: 'one' }), { code: 'rate_limited' });
  const found = client.search({ text: 'two' }, { signal: giving.signal });
  const over = assert.rejects(found, { name: 'AbortError' });
  giving.abort();
  await over;
  await assert.rejects(client.search({ text: 'three' }, { signal: giving.signal }), {
    name: 'AbortError',
  });
  assert.equal(world.server.requests.at(-1)?.path, '/mail/search');
});

test('a mailbox whose token the server does not read any more is read anew', async () => {
  const store = memoryStore();
  const world = new World({ seed: 1, withLocks: true, store });
  const gone = world.account.deliver('INBOX', { subject: 'gone' });
  world.account.deliver('INBOX', { subject: 'stays' });
  const first = await world.open();
  await world.pass(5000);
  world.kill(first);
  world.account.remove('INBOX', [gone]);
  // As of the mail server that had the mailboxes before.
  const rows = await store.range({
    table: 'mailboxes',
    prefix: ['https://mail.test ada@acme.test'],
  });
  store.apply(rows.map((row) => ({ put: 'mailboxes', row: { ...row, token: 'i1-7' } })));
  const { client } = await world.open();
  const received: unknown[] = [];
  client.on('received', (event) => received.push(event));
  await world.pass(20_000);
  const { messages, total } = await client.mailbox('INBOX').list();
  assert.deepEqual([total, messages[0]?.envelope.subject, received.length], [1, 'stays', 0]);
});

test('who may write to no more people today is told so, and reads on', async () => {
  const world = new World({ seed: 1, withLocks: true });
  const { client } = await world.open();
  await world.pass(5000);
  const rejected: string[] = [];
  client.on('rejected', ({ operation, error }) =>
    rejected.push(`${operation.kind} ${error.message}`),
  );
  world.server.failNext({ status: 429, code: 'send_limit', retryAfter: 80_000 }, '/mail/send');
  const sending = client.send({ to: [{ address: 'bob@sender.test' }], subject: 'Hi' });
  await world.pass(1000, sending);
  assert.deepEqual(rejected, ['send 429 send_limit: a fault of the test']);
  world.account.deliver('INBOX', { subject: 'Hi' });
  await world.pass(5000);
  assert.equal((await client.mailbox('INBOX').list()).total, 1);
});

test('what has no room in a full account is refused, and holds up nothing that makes room', async () => {
  const world = new World({ seed: 1, withLocks: true });
  const large = world.account.deliver('Drafts', { subject: 'large' });
  const { client } = await world.open();
  await world.pass(5000);
  const rejected: string[] = [];
  client.on('rejected', ({ operation, error }) =>
    rejected.push(`${operation.kind} ${error.message}`),
  );
  world.server.fault = ({ path }) =>
    path === '/mail/drafts' ? { status: 507, code: 'quota_exceeded' } : undefined;
  const { operation } = await client.saveDraft({ subject: 'one more' });
  const ends = [assert.rejects(operation.applied, { code: 'quota_exceeded' })];
  const removal = await client.mailbox('Drafts').delete([large], { forever: true });
  ends.push(removal.applied);
  await world.pass(60_000);
  assert.equal((await client.pending()).length, 0);
  await Promise.all(ends);
  assert.deepEqual(rejected, ['append 507 quota_exceeded: a fault of the test']);
  assert.equal((await client.mailbox('Drafts').list()).total, 0);
});
