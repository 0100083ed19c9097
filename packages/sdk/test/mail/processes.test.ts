/** Several processes on one copy: nothing is told between them, and what one wants of another is in the store. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { World } from './world.ts';

const processes = () => new World({ seed: 1, withLocks: false, areProcesses: true });

test('who does not lead knows how the copy stands to the server', async () => {
  const world = processes();
  await world.open();
  await world.pass(1000);
  const { client } = await world.open();
  assert.equal(client.state, 'live');
  world.server.online = false;
  world.server.dropSockets();
  await world.pass(12_000);
  assert.equal(client.state, 'offline');
});

test('who does not lead opens mailboxes that nobody had, and a sync of it is over once the copy has the mail', async () => {
  const world = processes();
  await world.open();
  await world.pass(1000);
  const { client } = await world.open();
  world.account.deliver('Archive', { subject: 'old' });
  const archive = client.mailbox('Archive');
  const subjects = async () =>
    (await archive.list()).messages.map(({ envelope }) => envelope.subject);
  assert.deepEqual(await subjects(), []);
  await world.pass(15_000);
  assert.deepEqual(await subjects(), ['old']);
  world.account.deliver('Archive', { subject: 'new' });
  const sync = archive.sync();
  await world.pass(0, sync);
  await sync;
  assert.deepEqual(await subjects(), ['new', 'old']);
});

test('who does not lead counts the messages that it shows', async () => {
  const world = processes();
  await world.open();
  await world.pass(1000);
  const { client } = await world.open();
  world.account.deliver('INBOX', { subject: 'new' });
  await world.pass(1000);
  const { messages, total, unseen } = await client.mailbox('INBOX').list();
  assert.deepEqual([messages.length, total, unseen], [1, 1, 1]);
});

test('who does not lead shows a message once, and counts it once, while the one who leads brings it where it was moved', async () => {
  const world = processes();
  const { account } = world;
  const uid = account.deliver('INBOX', { subject: 'moved' });
  await world.open();
  await world.pass(1000);
  const { client } = await world.open();
  await world.pass(6000);
  const archive = client.mailbox('Archive');
  const settled = async <T>(promise: Promise<T>) => {
    await world.pass(0, promise);
    return await promise;
  };
  await settled(client.mailbox('INBOX').move([uid], 'Archive'));
  for (let ms = 0; ms < 20_000; ms += 100) {
    const { messages, total, unseen } = await settled(archive.list());
    assert.deepEqual([messages.length, total, unseen], [1, 1, 1], `after ${ms} ms`);
    await world.pass(100);
  }
  assert.equal(account.mailbox('Archive').uids.length, 1);
  assert.deepEqual(await client.pending(), []);
});

test('a sync that was asked of a process that died is done by the next one', async () => {
  const world = processes();
  const first = await world.open();
  await world.pass(1000);
  const { client } = await world.open();
  world.server.failNext({ delayMs: Number.POSITIVE_INFINITY }, '/mail/sync');
  world.account.deliver('INBOX', { subject: 'new' });
  const inbox = client.mailbox('INBOX');
  const sync = inbox.sync();
  await world.pass(1000);
  world.kill(first);
  for (let seconds = 0; seconds < 60; seconds += 10) await world.pass(0, sync);
  await sync;
  assert.equal((await inbox.list()).messages.length, 1);
});

for (const withLocks of [true, false])
  test(`an account that signed out in one process is signed out in the others, ${withLocks ? 'with' : 'without'} locks`, async () => {
    const world = new World({ seed: 1, withLocks, areProcesses: true });
    const first = await world.open();
    await world.pass(1000);
    const { client } = await world.open();
    const out = first.client.signOut();
    await world.pass(0, out);
    await out;
    await world.pass(6000);
    assert.equal(client.state, 'stopped');
  });
