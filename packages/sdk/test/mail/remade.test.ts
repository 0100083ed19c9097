/** Mailboxes that are deleted, or deleted and made anew with their name, while changes of the user wait or are under way. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { MailboxRow } from '../../src/mail/rows.ts';
import type { FakeAccount } from '../../src/testing/account.ts';
import { World } from './world.ts';

const WORK = 'Work';

function remake(account: FakeAccount): void {
  account.delete(WORK);
  account.create(WORK);
}

/** A tab that has a message in INBOX and none in the mailbox it looks at, and all that it sees there. */
async function begin() {
  const world = new World({ seed: 1, withLocks: true });
  const { account, server } = world;
  account.create(WORK);
  const uid = account.deliver('INBOX', { subject: 'first' });
  const { client } = await world.open();
  const [inbox, work] = [client.mailbox('INBOX'), client.mailbox(WORK)];
  const seen: string[] = [];
  work.watch({}, ({ messages }) => {
    seen.push(messages.map(({ envelope, flags }) => [envelope.subject, ...flags].join()).join());
  });
  await world.pass(5000);
  const settled = async <T>(promise: Promise<T>) => {
    await world.pass(0, promise);
    return await promise;
  };
  const move = () => settled(inbox.move([uid], WORK));
  return { world, account, server, client, inbox, work, uid, seen, settled, move };
}

test('a message that is moved into a mailbox is seen there, also while the mailbox is made anew', async () => {
  const { world, account, server, seen, move, settled } = await begin();
  server.failNext({ status: 500 }, '/mail/move');
  const { applied } = await move();
  seen.length = 0;
  remake(account);
  await settled(applied);
  await world.pass(60_000);
  assert.ok(!seen.includes(''), 'it was not seen for a while');
  assert.equal(account.mailbox(WORK).uids.length, 1);
});

test('a change is over where the mailbox that was to show it is deleted', async () => {
  const { world, account, server, client, work, seen, move } = await begin();
  server.fault = ({ path }) => (path === '/mail/sync' ? { status: 500 } : undefined);
  await move();
  await world.pass(1000);
  account.delete(WORK);
  await world.pass(5000);
  server.fault = undefined;
  await world.pass(60_000);
  const { operations } = await world.invariants.read();
  assert.deepEqual(
    operations.map(({ state }) => state),
    ['done'],
  );
  assert.equal(seen.at(-1), '');
  assert.deepEqual((await work.list()).messages, []);
  assert.deepEqual(await client.pending(), []);
});

test('undo moves nothing out of a mailbox that was made anew: its UIDs are of other messages', async () => {
  const { world, account, client, move, settled } = await begin();
  const moving = await move();
  await settled(moving.applied);
  await world.pass(5000);
  remake(account);
  account.deliver(WORK, { subject: 'other' });
  await world.pass(5000);
  const refused: string[] = [];
  client.on('rejected', ({ error }) => refused.push(error.message));
  await settled(moving.undo());
  await world.pass(5000);
  assert.match(refused.join(), /^409 uidvalidity_changed/);
  assert.equal(account.mailbox(WORK).uids.length, 1);
  assert.equal(account.mailbox('INBOX').uids.length, 0);
});

test('a message that is moved can be changed, also where its mailbox was made anew and the tab does not know', async () => {
  const { account, server, work, move, settled } = await begin();
  server.fault = ({ path }) => (path === '/mail/sync' ? { status: 500 } : undefined);
  remake(account);
  const moving = await move();
  const [{ id = 0 } = {}] = (await settled(work.list())).messages;
  await settled(moving.applied);
  const flagging = await settled(work.flag([id], { add: ['\\Flagged'] }));
  await settled(flagging.applied);
  assert.deepEqual(account.mailbox(WORK).find(1)?.flags, ['\\Flagged']);
});

test('a change of flags is not shown at the message that has the UID since the mailbox was made anew', async () => {
  const { world, account, server, work, seen, settled } = await begin();
  const uid = account.deliver(WORK, { subject: 'old' });
  await world.pass(5000);
  server.fault = ({ path }) => (path === '/mail/flags' ? { status: 500 } : undefined);
  const { applied } = await settled(work.flag([uid], { add: ['\\Flagged'] }));
  remake(account);
  account.deliver(WORK, { subject: 'new' });
  await world.pass(5000);
  server.fault = undefined;
  const refused = assert.rejects(applied, /uidvalidity_changed/);
  await world.pass(60_000);
  await refused;
  assert.ok(seen.includes('old,\\Flagged'));
  assert.ok(!seen.includes('new,\\Flagged'));
  assert.equal(seen.at(-1), 'new');
});

test('the answer of a change leaves no messages of a mailbox that was deleted meanwhile', async () => {
  const { world, account, server, work, settled } = await begin();
  const uid = account.deliver(WORK, { subject: 'old' });
  await world.pass(5000);
  const boxOf = async () => (await world.invariants.read()).mailboxes.find(isWork)?.box;
  const isWork = ({ name }: MailboxRow) => name === WORK;
  const box = await boxOf();
  server.failNext({ delayMs: 3000 }, '/mail/flags');
  const { applied } = await settled(work.flag([uid], { add: ['\\Flagged'] }));
  await world.pass(1000);
  account.delete(WORK);
  await settled(applied);
  await world.pass(60_000);
  assert.equal(server.requests.filter(({ path }) => path === '/mail/flags').length, 1);
  assert.equal(await boxOf(), undefined);
  assert.deepEqual(await world.store.range({ table: 'messages', prefix: [box ?? 0] }), []);
});

const to = [{ address: 'bob@sender.test' }];
const file = (content: string) => ({ attachments: [{ filename: 'a.txt', content }] });

/** Mail waits that names the only message of a mailbox; then another mailbox has its name, and another message its UID. */
async function remakeBeforeSend(mailOf: (named: { mailbox: string; id: number }) => object) {
  const { world, account, server, client, settled } = await begin();
  const flags = ['\\Draft'];
  const id = account.deliver(WORK, { subject: 'old', ...file('old') }, { flags });
  await world.pass(5000);
  server.online = false;
  const { applied } = await settled(
    client.send({ to, subject: 'mail', ...mailOf({ mailbox: WORK, id }) }),
  );
  const outcome = applied.then(() => 'sent', String);
  remake(account);
  assert.equal(account.deliver(WORK, { subject: 'new', ...file('new') }, { flags }), id);
  server.online = true;
  await world.pass(60_000);
  return { outcome: await settled(outcome), other: account.mailbox(WORK).find(id), account };
}

test('mail removes and answers no other message that has the UID since the mailbox was made anew', async () => {
  const { outcome, other } = await remakeBeforeSend((named) => ({
    draft: named,
    inReplyTo: named,
  }));
  assert.equal(outcome, 'sent');
  assert.deepEqual(other?.flags, ['\\Draft']);
});

test('mail that waits hides no other message that has the UID of its draft since the mailbox was made anew', async () => {
  const { world, account, server, client, seen, settled } = await begin();
  const flags = ['\\Draft'];
  const id = account.deliver(WORK, { subject: 'old' }, { flags });
  await world.pass(5000);
  server.fault = ({ path }) => (path === '/mail/send' ? { status: 500 } : undefined);
  await settled(client.send({ to, subject: 'mail', draft: { mailbox: WORK, id } }));
  assert.equal(seen.at(-1), '', 'its own draft is hidden');
  remake(account);
  account.deliver(WORK, { subject: 'new' }, { flags });
  await world.pass(5000);
  assert.equal(seen.at(-1), 'new,\\Draft');
});

test('mail takes no file of another message that has the UID since the mailbox was made anew', async () => {
  const { outcome, account } = await remakeBeforeSend((named) => ({
    attachments: [{ from: { ...named, part: '2' } }],
  }));
  assert.match(outcome, /^ApiError: 409 uidvalidity_changed/);
  assert.equal(account.mailbox('Sent').uids.length, 0);
});

test('a draft takes no file of another message that has the UID since the mailbox was made anew', async () => {
  const { world, account, server, client, settled } = await begin();
  const id = account.deliver(WORK, { subject: 'old', ...file('old') });
  await world.pass(5000);
  server.fault = ({ path }) => (path === '/mail/drafts' ? { status: 500 } : undefined);
  const from = { mailbox: WORK, id, part: '2' };
  const { operation } = await settled(
    client.saveDraft({ to, subject: 'mail', attachments: [{ from }] }),
  );
  remake(account);
  account.deliver(WORK, { subject: 'new', ...file('new') });
  await world.pass(5000);
  server.fault = undefined;
  const refused = assert.rejects(operation.applied, /uidvalidity_changed/);
  await world.pass(60_000);
  await refused;
  assert.equal(account.mailbox('Drafts').uids.length, 0);
});

test('a draft replaces no other message that has the UID since the mailbox was made anew', async () => {
  const { world, account, server, client, settled } = await begin();
  const flags = ['\\Draft'];
  const id = account.deliver(WORK, { subject: 'old' }, { flags });
  await world.pass(5000);
  server.fault = ({ path }) => (path === '/mail/drafts' ? { status: 500 } : undefined);
  const mail = { to, subject: 'mail' };
  const { operation } = await settled(client.saveDraft(mail, { mailbox: WORK, id }));
  remake(account);
  account.deliver(WORK, { subject: 'new' }, { flags });
  await world.pass(5000);
  server.fault = undefined;
  await settled(operation.applied);
  await world.pass(60_000);
  assert.deepEqual(account.mailbox(WORK).uids, [id]);
  assert.equal(account.mailbox('Drafts').uids.length, 1);
});

test('a mailbox that is made anew has another uidvalidity: an app that kept ids sees that they are of others', async () => {
  const { world, account, client } = await begin();
  const now = async () => (await client.mailboxes()).find(({ name }) => name === WORK)?.uidvalidity;
  const before = await now();
  assert.equal(before, account.mailbox(WORK).uidvalidity);
  remake(account);
  await world.pass(5000);
  assert.notEqual(await now(), before);
  assert.equal(await now(), account.mailbox(WORK).uidvalidity);
});
