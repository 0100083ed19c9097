/** Messages whose move is taken back before it went, and which are changed again meanwhile: no change is lost. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { ConnectionError } from '../../src/mail.ts';
import { World } from './world.ts';

const WORK = 'Work';

/** A tab that leads and another one, and a message in a mailbox. */
async function begin() {
  const world = new World({ seed: 1, withLocks: true });
  const { account, server } = world;
  account.create(WORK);
  const uid = account.deliver(WORK, { subject: 'mail' });
  const [leader, other] = [await world.open(), await world.open()];
  const work = other.client.mailbox(WORK);
  const settled = async <T>(promise: Promise<T>) => {
    await world.pass(0, promise);
    return await promise;
  };
  await settled(work.list());
  await world.pass(5000);
  /** The id that a tab shows it by. */
  const shownId = async () => {
    const { messages } = await settled(work.list());
    assert.deepEqual(
      messages.map(({ envelope }) => envelope.subject),
      ['mail'],
    );
    return messages[0]?.id ?? 0;
  };
  const where = () =>
    account.mailboxes.filter(({ uids }) => uids.length > 0).map(({ name }) => name);
  const moves = () => server.requests.filter(({ path }) => path === '/mail/move').length;
  return { world, account, server, leader, other, work, uid, settled, shownId, where, moves };
}

test('a message is moved again after an undo that the leader has not seen', async () => {
  const { world, leader, work, uid, settled, shownId, where } = await begin();
  world.freeze(leader, 2000);
  const moving = await settled(work.move([uid], 'Trash'));
  await settled(moving.undo());
  await settled(work.move([await shownId()], 'INBOX'));
  await world.pass(60_000);
  assert.deepEqual(where(), ['INBOX']);
});

test('a message is moved again by a tab that does not know that its move and the undo never go', async () => {
  const { world, leader, other, work, uid, settled, shownId, where, moves } = await begin();
  world.freeze(leader, 2000);
  const moving = await settled(work.move([uid], 'Trash'));
  await settled(moving.undo());
  const id = await shownId();
  world.freeze(other, 10_000);
  await world.pass(5000);
  const { operations } = await world.invariants.read();
  assert.deepEqual(
    operations.map(({ state }) => state),
    ['cancelled', 'cancelled'],
  );
  await settled(work.move([id], 'INBOX'));
  await world.pass(60_000);
  assert.deepEqual(where(), ['INBOX']);
  assert.equal(moves(), 1);
});

test('an undo names no message that has the UID since the mailbox was made anew', async () => {
  const { world, account, leader, work, uid, settled, shownId } = await begin();
  world.freeze(leader, 2000);
  const moving = await settled(work.move([uid], 'Trash'));
  await settled(moving.undo());
  const id = await shownId();
  account.delete(WORK);
  account.create(WORK);
  account.deliver(WORK, { subject: 'another' });
  await world.pass(5000);
  const again = await settled(work.move([id], 'INBOX'));
  await assert.rejects(settled(again.applied), /uidvalidity_changed/);
  assert.equal(account.mailbox(WORK).find(uid)?.uid, uid);
});

test('a move of a message that another move brings is taken back, and its id leads to it still', async () => {
  const { world, server, work, uid, other, settled, where, moves } = await begin();
  const archive = other.client.mailbox('Archive');
  await settled(archive.list());
  await world.pass(1000);
  server.online = false;
  await settled(work.move([uid], 'Archive'));
  const [{ id = 0 } = {}] = (await settled(archive.list())).messages;
  const moving = await settled(archive.move([id], 'Trash'));
  await settled(moving.undo());
  const [{ id: again = 0 } = {}] = (await settled(archive.list())).messages;
  assert.notEqual(again, id);
  server.online = true;
  await world.pass(60_000);
  assert.deepEqual(where(), ['Archive']);
  assert.equal(moves(), 1);
  await settled(archive.move([again], 'INBOX'));
  await world.pass(60_000);
  assert.deepEqual(where(), ['INBOX']);
});

test('what is taken back without a network is seen at once, also where the copy never had the other mailbox', async () => {
  const { world, server, work, uid, settled, shownId, where } = await begin();
  const moving = await settled(work.move([uid], 'Trash'));
  await world.pass(20_000);
  assert.deepEqual(where(), ['Trash']);
  server.online = false;
  await settled(moving.undo());
  await shownId();
  server.online = true;
  await world.pass(60_000);
  assert.deepEqual(where(), [WORK]);
  await shownId();
});

test('a message whose move is under way is read where that brought it, with its source: the server has it there already', async () => {
  const { world, server, work, uid, settled } = await begin();
  server.failNext({ delayMs: 2000 }, '/mail/move');
  server.failNext({ delayMs: 2000 }, '/mail/move');
  const moving = await settled(work.move([uid], 'Trash'));
  await world.pass(500);
  await settled(moving.undo());
  await world.pass(2000);
  const id = (await settled(work.list())).messages[0]?.id ?? 0;
  assert.equal(typeof id, 'string', 'the undo is not over');
  const reading = Promise.all([work.read(id), work.source(id)]);
  await world.pass(0, reading);
  const [{ message }, source] = await reading;
  assert.equal(message.envelope.subject, 'mail');
  assert.match(await source.text(), /mail/);
});

test('a message whose move is under way is not waited for without a network', async () => {
  const { world, server, leader, work, uid, settled } = await begin();
  server.failNext({ delayMs: Number.POSITIVE_INFINITY }, '/mail/move');
  await settled(work.move([uid], 'Trash'));
  const trash = leader.client.mailbox('Trash');
  const [id = 0] = await settled(trash.ids());
  let isOver = false;
  const reading = assert.rejects(trash.source(id), ConnectionError).then(() => {
    isOver = true;
  });
  await world.pass(2000);
  assert.ok(!isOver, 'it is not waited for');
  server.online = false;
  server.dropSockets();
  await world.pass(20_000);
  assert.ok(isOver, 'it waits without a network');
  await reading;
});
