/** The order on a mail server: what is kept before the transaction, and found again after a crash. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openTestMailstore, sampleMessage } from '../../../test/support/mail.ts';
import { FakeClock, until } from '../../../test/support/queue/fake-clock.ts';
import { describeMessage } from '../../mailboxes/mailstore/mailstore.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import { Queue } from '../queue/queue.ts';
import { ServerCopies } from './server-copies.ts';

test('a copy of an earlier request is found, and is not removed', async () => {
  // Any store will do: only methods that every store has are used.
  const { bodies, database, mailstore, makeUser, stage } = await openTestMailstore('sqlite');
  const user = await makeUser();
  const warnings: string[] = [];
  const log = { warn: (_: object, message: string) => warnings.push(message) };
  const queue = new Queue({ database, log: silent });
  const copies = new ServerCopies({ database, mailstore, bodies, queue, log });
  const source = `Message-ID: <1@acme.test>\r\n${sampleMessage('m')}`;
  const staged = await stage(source);
  const message = {
    use: '\\Sent' as const,
    texts: await describeMessage(bodies, staged),
    body: staged.body,
    messageId: '<1@acme.test>',
  };
  const uids = async () => {
    const { changes } = await mailstore.sync(user, { mailbox: 'Sent' });
    return changes.added.map(({ uid }) => uid);
  };
  const commit = (keeping: Awaited<ReturnType<typeof copies.keep>>) =>
    database.write((tx) => keeping.commit(tx, 0));

  const first = await copies.keep(user, message);
  // The process dies here; the request is repeated.
  const second = await copies.keep(user, message);
  assert.deepEqual((await commit(second)).location, (await commit(first)).location);
  assert.deepEqual(await uids(), [1]);
  await second.undo();
  assert.deepEqual(await uids(), [1]);

  // Another request, or one without a key, has a copy of its own, which it removes again.
  const third = await copies.keep(user, { ...message, messageId: undefined });
  assert.deepEqual(await uids(), [1, 2]);
  await third.undo();
  assert.deepEqual(await uids(), [1]);
});

const silent = { warn() {}, error() {} };

/** A mailbox with a draft and a message that is answered, and a mail server that can fail. */
async function openServer() {
  const opened = await openTestMailstore('sqlite');
  const { database, bodies, mailstore, makeUser, stage, append } = opened;
  const user = await makeUser();
  const staged = await stage(sampleMessage('m'));
  for (const mailbox of ['INBOX', 'Drafts']) await append(staged, [{ user, mailbox }]);
  const { id: bodyId } = await database.read
    .selectFrom('bodies')
    .select('id')
    .executeTakeFirstOrThrow();
  const { id: domainId } = await database.read
    .selectFrom('domains')
    .select('id')
    .executeTakeFirstOrThrow();
  const server = { isDown: false, asked: 0 };
  const clock = new FakeClock();
  const warnings: string[] = [];
  const failing = new Proxy(mailstore, {
    get(target, name: keyof typeof mailstore) {
      const found = target[name];
      if (typeof found !== 'function') return found;
      return async (...values: never[]) => {
        server.asked++;
        if (server.isDown) throw new Refusal('unavailable', 'the mail server does not answer');
        return Reflect.apply(found, target, values);
      };
    },
  });
  /** The state after a start of the process. */
  const start = () => {
    const queue = new Queue({ database, clock, log: silent });
    const log = { warn: (_: object, message: string) => warnings.push(message) };
    const now = () => clock.now();
    const copies = new ServerCopies({ database, mailstore: failing, bodies, queue, log, now });
    copies.start();
    return { queue, copies };
  };
  const location = async (mailbox: string) => {
    const { uidvalidity } = await mailstore.sync(user, { mailbox });
    return { mailbox, uid: 1, uidvalidity };
  };
  const state = async () => {
    const drafts = await mailstore.sync(user, { mailbox: 'Drafts' });
    const { flags } = await mailstore.fetchMessage(user, 'INBOX', 1);
    const waiting = await database.read.selectFrom('deliveries').select('status').execute();
    return { drafts: drafts.changes.added.length, flags, waiting: waiting.length };
  };
  const sent = { domainId, bodyId };
  return { database, user, server, clock, warnings, start, location, state, sent };
}

const DONE = { drafts: 0, flags: ['\\Answered'] };

test('a change that succeeds after the commit leaves nothing in the queue', async () => {
  const { database, user, start, location, state, sent, warnings } = await openServer();
  const { queue, copies } = start();
  const [answered, draft] = [await location('INBOX'), await location('Drafts')];
  for (const time of ['first', 'again, where it is not there any more']) {
    const after = await database.write(async (tx) => [
      await copies.setAnswered(tx, user, answered, sent),
      await copies.remove(tx, user, draft, sent),
    ]);
    for (const one of after) await one();
    assert.deepEqual(await state(), { ...DONE, waiting: 0 }, time);
  }
  assert.deepEqual(warnings, []);
  await queue.stop(0);
});

test('a change that the mail server did not make at once is repeated until it does', async () => {
  const { database, user, server, clock, start, location, state, sent, warnings } =
    await openServer();
  const { queue, copies } = start();
  const [answered, draft] = [await location('INBOX'), await location('Drafts')];
  server.isDown = true;
  const after = await database.write(async (tx) => [
    await copies.setAnswered(tx, user, answered, sent),
    await copies.remove(tx, user, draft, sent),
  ]);
  for (const one of after) await one();
  assert.equal(warnings.length, 2);
  assert.match(warnings[0] ?? '', /it is tried again/);
  await clock.advance(61_000);
  await until(() => server.asked === 4);
  assert.deepEqual(await state(), { drafts: 1, flags: [], waiting: 2 });
  server.isDown = false;
  for (let minute = 0; minute < 10; minute++) await clock.advance(60_000);
  await until(() => server.asked === 6);
  await queue.stop(0);
  assert.deepEqual(await state(), { ...DONE, waiting: 2 });
  const rows = await database.read.selectFrom('deliveries').select('status').execute();
  assert.deepEqual(new Set(rows.map(({ status }) => status)), new Set(['delivered']));
});

test('if a process dies after the commit, the change is made after its next start', async () => {
  const { database, user, server, clock, start, location, state, sent } = await openServer();
  const before = start();
  const [answered, draft] = [await location('INBOX'), await location('Drafts')];
  await database.write(async (tx) => {
    await before.copies.setAnswered(tx, user, answered, sent);
    await before.copies.remove(tx, user, draft, sent);
  });
  await before.queue.stop(0);
  const { queue } = start();
  await clock.advance(61_000);
  await until(() => server.asked === 2);
  await queue.stop(0);
  const { waiting: _, ...done } = await state();
  assert.deepEqual(done, DONE);
});
