import assert from 'node:assert/strict';
import { test } from 'node:test';
import { onEachEngine, openTestDatabase } from '../../../test/support/databases.ts';
import { insertRecipients, insertSend, refuseOverLimit } from './new-send.ts';
import {
  deleteSendsOf,
  findSends,
  type RecipientStatus,
  readStatuses,
  writeStatuses,
} from './send-rows.ts';
import { pruneSends } from './waiting-sends.ts';

onEachEngine('rows of sent mail', (engine) => {
  async function openRows() {
    const { database } = await openTestDatabase(engine);
    let sent = 0;
    /** A message of two recipients, each with a delivery of its own. */
    const make = (
      accountId: number,
      statuses: readonly RecipientStatus[],
      now = 1_000,
      sendAt?: number,
    ) =>
      database.write(async (tx) => {
        const row = await insertSend(tx, {
          public_id: `send-${++sent}`,
          account_id: accountId,
          domain_id: 1,
          body_id: 1,
          message_id: `<${sent}@acme.test>`,
          ...{ mailbox: 'Sent', uid: sent, uidvalidity: '1' },
          recipients: statuses.length,
          ...{ idempotency_key: null, request_hash: null, draft: null },
          send_at: sendAt ?? null,
          created_at: now,
        });
        for (const [at, status] of statuses.entries()) {
          const delivery = { sendId: row.id, deliveryId: at };
          const address = `r${at}@far.test`;
          await insertRecipients(tx, delivery, [{ address, status: 'queued' }]);
          await writeStatuses(tx, delivery, [{ address, status }]);
        }
        return row;
      });
    const count = async () => {
      const tables = ['sends', 'send_recipients'] as const;
      const rows = tables.map((table) => database.read.selectFrom(table).select('id').execute());
      return (await Promise.all(rows)).map((found) => found.length);
    };
    return { database, make, count };
  }

  test('the status of a message is that of its least advanced recipient', async () => {
    const { database, make } = await openRows();
    for (const [statuses, expected] of [
      [['delivered', 'queued', 'bounced'], 'queued'],
      [['delivered', 'deferred', 'bounced'], 'deferred'],
      [['delivered', 'bounced'], 'bounced'],
      [['delivered', 'delivered'], 'delivered'],
      [['cancelled', 'cancelled'], 'cancelled'],
    ] as const) {
      const [found] = await readStatuses(database.read, [await make(1, statuses)]);
      assert.equal(found?.status, expected);
    }
  });

  test('several messages are found by their ids, in that order, each with its own recipients', async () => {
    const { database, make } = await openRows();
    const mine = await make(1, ['queued', 'delivered']);
    const last = await make(1, ['bounced']);
    const foreign = await make(2, ['queued']);
    const ids = [last, foreign, mine, last].map(({ public_id }) => public_id);
    const rows = await findSends(database.read, 1, [...ids, 'send-0']);
    const found = await readStatuses(database.read, rows);
    assert.deepEqual(
      found.map(({ id, recipients }) => [id, ...recipients.map(({ status }) => status)]),
      [
        ['send-2', 'bounced'],
        ['send-1', 'queued', 'delivered'],
        ['send-2', 'bounced'],
      ],
    );
    assert.deepEqual(await readStatuses(database.read, await findSends(database.read, 1, [])), []);
  });

  test('old ended messages are removed, waiting ones are not', async () => {
    const { database, make, count } = await openRows();
    await make(1, ['delivered', 'bounced'], 1_000);
    await make(1, ['delivered', 'deferred'], 1_000);
    await make(1, ['delivered'], 3_000);
    // It was sent later than it was accepted.
    await make(1, ['delivered'], 1_000, 3_000);
    const prune = () => database.write((tx) => pruneSends(tx, 2_000));
    assert.equal(await prune(), 1);
    assert.equal(await prune(), 0);
    assert.deepEqual(await count(), [3, 4]);
  });

  test('scheduled mail counts until a day after it is sent', async () => {
    const { database, make } = await openRows();
    const day = 24 * 60 * 60 * 1_000;
    await make(1, ['queued', 'queued'], 0, 100 * day);
    const isTaken = (now: number) =>
      database
        .write((tx) => refuseOverLimit(tx, { accountId: 1, recipients: 2, now }, 3))
        .then(
          () => true,
          ({ code, retryAfter }) => [code, retryAfter],
        );
    assert.deepEqual(await isTaken(50 * day), ['send_limit', (51 * day) / 1_000]);
    assert.deepEqual(await isTaken(101 * day - 1_000), ['send_limit', 1]);
    assert.equal(await isTaken(101 * day), true);
  });

  test('sent mail of a deleted account is removed', async () => {
    const { database, make, count } = await openRows();
    await make(1, ['delivered', 'deferred']);
    await make(2, ['queued']);
    const remove = () => database.write((tx) => deleteSendsOf(tx, [1, 3]));
    assert.deepEqual([await remove(), await remove()], [1, 0]);
    assert.deepEqual(await count(), [1, 1]);
  });
});
