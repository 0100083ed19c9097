/** The order on a mail server: what is kept before the transaction, and what is found again. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { openTestMailstore, sampleMessage } from '../../test/support/mail.ts';
import { describeMessage } from '../mailstore/mailstore.ts';
import { ServerCopies } from './server-copies.ts';

test('a copy that an earlier request kept is found, and left to whom it belongs', async () => {
  // Any store does: what is asked of it is what every store offers.
  const { bodies, database, mailstore, makeUser, stage } = await openTestMailstore('sqlite');
  const user = await makeUser();
  const warnings: string[] = [];
  const log = { warn: (_: object, message: string) => warnings.push(message) };
  const copies = new ServerCopies({ mailstore, bodies, log });
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
  // The process dies here; the request comes again.
  const second = await copies.keep(user, message);
  assert.deepEqual((await commit(second)).place, (await commit(first)).place);
  assert.deepEqual(await uids(), [1]);
  await second.undo();
  assert.deepEqual(await uids(), [1]);

  // Another request, or one without a key, has a copy of its own, which it takes back.
  const third = await copies.keep(user, { ...message, messageId: undefined });
  assert.deepEqual(await uids(), [1, 2]);
  await third.undo();
  assert.deepEqual(await uids(), [1]);
  // What is not there any more is no failure.
  const { place } = await commit(third);
  await database.write((tx) => copies.remove(tx, user, place)).then((after) => after());
  await database.write((tx) => copies.setAnswered(tx, user, place)).then((after) => after());
  assert.deepEqual(warnings, []);
});
