/** Random lives of an account's tabs in each store, and lives that went wrong once. */
import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, test } from 'node:test';
import 'fake-indexeddb/auto';
import { type FlagChange, memoryStore, type Store } from '../../src/mail.ts';
import { fileStore } from '../../src/stores/file.ts';
import { sqliteStore } from '../../src/stores/sqlite.ts';
import { Life } from './life.ts';
import { liveOften, RUNS } from './lives.ts';
import { step } from './steps.ts';
import { World } from './world.ts';

/** Its types are those of browsers, which this program does not have: it is not followed by the compiler. */
const inBrowsers: string = '../../src/stores/indexeddb.ts';
const { indexedDbStore } = (await import(inBrowsers)) as {
  indexedDbStore(options: { name: string }): Store;
};

const folder = mkdtempSync(join(tmpdir(), 'postroom-engine-'));
after(() => rmSync(folder, { recursive: true }));
let files = 0;
const newName = () => join(folder, String(++files));

for (const [kind, open, withLocks, runs, areProcesses] of [
  ['memory', async () => memoryStore(), true, RUNS],
  ['memory', async () => memoryStore(), false, RUNS],
  ['SQLite', async () => sqliteStore(newName()), false, RUNS / 4, true],
  ['IndexedDB', async () => indexedDbStore({ name: newName() }), true, RUNS / 4],
  ['a file', async () => fileStore(newName()), false, RUNS / 4],
] as const) {
  const tabs = areProcesses ? 'processes' : `tabs ${withLocks ? 'with' : 'without'} locks`;
  const name = `whatever happens, all come to show what the server has; in ${kind}, ${tabs}`;
  test(name, () =>
    liveOften(name, step, runs, async (steps, seed) => {
      const store = await open();
      await new Life(new World({ seed, withLocks, areProcesses, store })).live(steps);
      await store.close();
    }),
  );
}

test('a sync is over once its answer is in the copy', async () => {
  const world = new World({ seed: 1, withLocks: true });
  const { client } = await world.open();
  await world.pass(1000);
  world.account.deliver('INBOX', { subject: 'new' });
  const inbox = client.mailbox('INBOX');
  let isOver = false;
  const sync = inbox.sync().then(() => {
    isOver = true;
  });
  await world.pass(0, sync);
  assert.ok(isOver, 'the sync is not over');
  assert.equal((await inbox.list()).messages.length, 1);
});

test('a connection by which nothing comes any more is given up within about a minute, and no other is', async () => {
  const world = new World({ seed: 1, withLocks: true });
  const { client } = await world.open();
  await world.pass(3_600_000);
  const opened: string[] = [];
  client.on('traffic', ({ title }) => title === 'GET /ws' && opened.push(title));
  await world.pass(3_600_000);
  assert.deepEqual(opened, []);
  world.deafen();
  world.account.deliver('INBOX', { subject: 'new' });
  await world.pass(70_000);
  assert.equal((await client.mailbox('INBOX').list()).messages.length, 1);
  assert.deepEqual([client.state, opened], ['live', ['GET /ws']]);
});

test('the first sync of a copy that was just opened brings the mail', async () => {
  const world = new World({ seed: 1, withLocks: false });
  world.account.deliver('INBOX', { subject: 'first' });
  world.server.failNext({ delayMs: 3000 }, '/mail/mailboxes');
  const { client } = await world.open();
  const inbox = client.mailbox('INBOX');
  const sync = inbox.sync();
  await world.pass(0, sync);
  await sync;
  assert.equal((await inbox.list()).messages.length, 1);
  const none = client.mailbox('Nowhere').sync();
  await world.pass(5000, none);
  await none;
});

test('a mailbox that is made while the list of them is on its way is shown at once', async () => {
  const world = new World({ seed: 1, withLocks: true });
  const { client } = await world.open();
  await world.pass(60_000);
  world.server.failNext({ delayMs: 1000 }, '/mail/mailboxes');
  world.account.create('One');
  await world.pass(500);
  world.account.create('Two');
  await world.pass(2000);
  const names = (await client.mailboxes()).map(({ name }) => name);
  assert.deepEqual(
    names.filter((name) => name === 'One' || name === 'Two'),
    ['One', 'Two'],
  );
});

test('a list of mailboxes that comes late takes away no mailbox that was made meanwhile', async () => {
  await new Life(new World({ seed: 722_517_869, withLocks: true })).live([
    { do: 'wait', ms: 40_000 },
    { do: 'fault', fault: { delayMs: 3000 }, path: '/mail/mailboxes' },
    { do: 'remake', box: 'Work', ms: 300 },
    { do: 'wait', ms: 2000 },
    { do: 'move', tab: 0, box: 'INBOX', pick: 0, to: 'Work' },
  ]);
});

test('mail that is moved into a mailbox that the copy does not know yet is seen there all the time', async () => {
  await new Life(new World({ seed: 1, withLocks: true })).live([
    { do: 'move', tab: 0, box: 'INBOX', pick: 0, to: 'Archive' },
    { do: 'crash', tab: 0, when: 'after' },
    { do: 'remake', box: 'Work', ms: 0 },
    { do: 'fault', fault: { delayMs: 3000 }, path: undefined },
    { do: 'open', tab: 0 },
    { do: 'move', tab: 0, box: 'Archive', pick: 0, to: 'Work' },
  ]);
});

test('mail that was moved is seen once, also where the answer is lost and the next one comes late, or is an error', async () => {
  for (const fault of [{ delayMs: 3000 }, { status: 429, retryAfter: 5 }, { status: 500 }]) {
    await new Life(new World({ seed: 1, withLocks: true })).live([
      { do: 'wait', ms: 40_000 },
      { do: 'fault', fault: { lose: 'answer' }, path: '/mail/move' },
      { do: 'fault', fault, path: '/mail/move' },
      { do: 'move', tab: 0, box: 'INBOX', pick: 0, to: 'Trash' },
      { do: 'wait', ms: 40_000 },
    ]);
  }
});

test('a draft that was taken back is over, also where one that was to take its place is taken back too', async () => {
  await new Life(new World({ seed: 1, withLocks: false })).live([
    { do: 'kill', tab: 0 },
    { do: 'open', tab: 0 },
    { do: 'draft', tab: 0 },
    { do: 'undo', pick: 0 },
    { do: 'draft', tab: 0 },
    { do: 'undo', pick: 9 },
  ]);
});

test('texts stay within what is kept at most, where the tab that fetches them leads no more', async () => {
  const life = new Life(new World({ seed: 1, withLocks: false }));
  await life.live([
    { do: 'deliver', count: 2 },
    { do: 'deliver', count: 1 },
    { do: 'busy', tab: 0 },
    { do: 'clock', ms: -86_400_000 },
    { do: 'deliver', count: 2 },
    { do: 'open', tab: 0 },
    { do: 'deliver', count: 3 },
    { do: 'crash', tab: 0, when: 'before' },
    { do: 'deliver', count: 2 },
  ]);
});

test('a change that is told while a sync of several pages is under way is not missed', async () => {
  await new Life(new World({ seed: 1, withLocks: true })).live([
    { do: 'fault', fault: { delayMs: 3000 }, path: '/mail/sync' },
    { do: 'deliver', count: 3 },
    { do: 'deliver', count: 1 },
  ]);
});

test('a change takes one request: its answer is what the event of it tells', async () => {
  const world = new World({ seed: 1, withLocks: true });
  for (const subject of ['one', 'two', 'three']) world.account.deliver('INBOX', { subject });
  const { client } = await world.open();
  await world.pass(5000);
  const inbox = client.mailbox('INBOX');
  const before = world.server.requests.length;
  await inbox.flag([1], { add: ['\\Flagged'] });
  await world.pass(5000);
  await inbox.delete([2], { forever: true });
  await world.pass(5000);
  const paths = world.server.requests.slice(before).map(({ path }) => path);
  assert.deepEqual(paths, ['/mail/flags', '/mail/delete']);
  assert.equal((await inbox.list()).total, 2);
});

test('a store that is lost is followed by memory, and no change of the user is lost with it', async () => {
  const world = new World({ seed: 1, withLocks: true });
  const { account, server } = world;
  account.deliver('INBOX', { subject: 'Hi' });
  const tab = await world.open();
  await world.pass(5000);
  const inbox = tab.client.mailbox('INBOX');
  const [id] = await inbox.ids();
  assert.ok(id);
  server.online = false;
  server.dropSockets();
  await inbox.flag([id], { add: ['\\Flagged'] });
  world.lose(tab);
  assert.equal(tab.client.storage, 'memory');
  server.online = true;
  await world.pass(60_000);
  const { messages, state } = await inbox.list();
  assert.deepEqual([state, messages.map(({ flags }) => flags)], ['live', [['\\Flagged']]]);
  assert.deepEqual(account.mailbox('INBOX').find(1)?.flags, ['\\Flagged']);
  await tab.client.close();
});

test('a sync that began before the answer to a change does not settle it: the copy lacks it still', async () => {
  const world = new World({ seed: 1, withLocks: true });
  const { account, server } = world;
  account.deliver('INBOX', { subject: 'first' });
  const { client } = await world.open();
  await world.pass(5000);
  const inbox = client.mailbox('INBOX');
  const seen: boolean[] = [];
  // Its answer is of before the change, and comes after the answer to the change.
  server.failNext({ delayMs: 3000 }, '/mail/sync');
  account.deliver('INBOX', { subject: 'second' });
  await world.pass(100);
  const flagging = inbox.flag([1], { add: ['\\Flagged'] });
  await world.pass(0, flagging);
  const stop = inbox.watch({}, ({ messages }) => {
    const first = messages.find(({ id }) => id === 1);
    seen.push(first?.flags.includes('\\Flagged') ?? false);
  });
  const { applied } = await flagging;
  await world.pass(0, applied);
  await applied;
  assert.equal((await inbox.list()).messages.length, 1, 'the sync is under way');
  await world.pass(10_000);
  assert.equal((await inbox.list()).messages.length, 2);
  assert.ok(seen.length > 1);
  assert.ok(!seen.includes(false), 'the flag was not seen for a while');
  stop();
});

test('a sync that another leader began does not settle a change: nobody knows which came first', async () => {
  const world = new World({ seed: 1, withLocks: true });
  const { account, server } = world;
  const first = await world.open();
  await world.pass(5000);
  const inbox = first.client.mailbox('INBOX');
  // The first page has the message as it was; the leader dies before the next one comes.
  server.failNext({ delayMs: 1000 }, '/mail/sync');
  server.failNext({ delayMs: Number.POSITIVE_INFINITY }, '/mail/sync');
  for (let number = 1; number <= 5; number++) account.deliver('INBOX', { subject: `${number}` });
  const newest = async () => (await inbox.list()).messages[0];
  for (let tries = 0; tries < 100 && !(await newest()); tries++) await world.pass(100);
  const { id } = (await newest()) ?? assert.fail('no page came');
  const flagging = inbox.flag([id], { add: ['\\Flagged'] });
  await world.pass(0, flagging);
  const { applied } = await flagging;
  await world.pass(0, applied);
  await applied;
  assert.equal((await inbox.list()).messages.length, 2, 'the sync is over already');
  world.kill(first);
  server.failNext({ delayMs: 1000 }, '/mail/sync');
  const { client } = await world.open();
  const seen: boolean[] = [];
  const stop = client.mailbox('INBOX').watch({}, ({ messages }) => {
    seen.push(messages.find((message) => message.id === id)?.flags.includes('\\Flagged') ?? false);
  });
  await world.pass(40_000);
  assert.equal((await client.mailbox('INBOX').list()).messages.length, 5);
  assert.ok(seen.length > 1);
  assert.ok(!seen.includes(false), 'the flag was not seen for a while');
  stop();
});

test('where there is nothing to do, a change is over at once; a flag that is seen already goes to the server', async () => {
  const world = new World({ seed: 1, withLocks: true });
  const { account, server } = world;
  account.deliver('INBOX', { subject: 'first' });
  const { client } = await world.open();
  await world.pass(5000);
  const inbox = client.mailbox('INBOX');
  const { requests } = server;
  const before = requests.length;
  for (const [kind, change] of [
    ['flag', () => inbox.flag([], { add: ['\\Seen'] })],
    ['flag', () => inbox.flag([1], {})],
    ['move', () => inbox.move([], 'Archive')],
    ['move', () => inbox.move([1], 'INBOX')],
    ['copy', () => inbox.copy([], 'Archive')],
    ['move', () => inbox.delete([])],
    ['delete', () => inbox.delete([], { forever: true })],
  ] as const) {
    const operation = await change();
    assert.equal(operation.kind, kind);
    await operation.applied;
    await operation.undo();
  }
  await world.pass(100);
  assert.equal(requests.length, before);
  assert.deepEqual(await client.pending(), []);
  await assert.rejects(inbox.copy([1], 'INBOX'), TypeError);

  account.flag('INBOX', [1], ['\\Seen'], []);
  await world.pass(1000);
  server.failNext({ delayMs: 3000 }, '/mail/sync');
  account.flag('INBOX', [1], [], ['\\Seen']);
  const marking = inbox.flag([1], { add: ['\\Seen'] });
  await world.pass(0, marking);
  await world.pass(10_000);
  assert.deepEqual(account.mailbox('INBOX').find(1)?.flags, ['\\Seen']);
});

test('what waits is tried again as soon as the server said, where the clock is set back meanwhile', async () => {
  for (const fault of [
    { status: 429, retryAfter: 20 },
    { status: 503 },
    { lose: 'request' },
  ] as const) {
    const world = new World({ seed: 1, withLocks: true });
    const { client } = await world.open();
    await world.pass(5000);
    world.server.failNext(fault, '/mail/sync');
    world.account.deliver('INBOX', { subject: 'Hi' });
    await world.pass(500);
    world.skew = -86_400_000;
    await world.pass(60_000);
    const { messages } = await client.mailbox('INBOX').list();
    assert.equal(messages.length, 1, JSON.stringify(fault));
  }
});

test('a tab that led before it was frozen does nothing again that the user took back in another one', async () => {
  const world = new World({ seed: 1, withLocks: true });
  const { account, server } = world;
  account.deliver('INBOX', { subject: 'Hi' });
  const first = await world.open();
  const second = await world.open();
  await world.pass(5000);
  const change = async ({ client }: typeof first, flags: FlagChange) =>
    await world.pass(0, client.mailbox('INBOX').flag([1], flags));
  server.failNext({ lose: 'request' }, '/mail/flags');
  await change(first, { add: ['\\Flagged'] });
  world.deafen();
  world.freeze(first, 25_000);
  await world.pass(20_000);
  assert.deepEqual(account.mailbox('INBOX').find(1)?.flags, ['\\Flagged']);
  await change(second, { remove: ['\\Flagged'] });
  await world.pass(60_000);
  assert.deepEqual(account.mailbox('INBOX').find(1)?.flags, []);
});

test('a lease of before the clock was set back holds no other tab off', async () => {
  const world = new World({ seed: 1, withLocks: false });
  world.account.deliver('INBOX', { subject: 'Hi' });
  const first = await world.open();
  await world.pass(5000);
  world.kill(first);
  const [account] = await world.store.range({ table: 'accounts', prefix: [] });
  const leaseUntil = world.server.clock.now() + 86_400_000;
  await world.store.update('accounts', [String(account?.account)], () => [
    { put: 'accounts', row: { ...account, leaseUntil } },
  ]);
  const { client } = await world.open();
  await world.pass(60_000);
  assert.equal(client.state, 'live');
});
