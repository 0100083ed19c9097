/** Facts of messages, kept for many in one row, against the rows of the messages themselves. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { onEachEngine } from '../../../test/support/databases.ts';
import { openTestMailstore } from '../../../test/support/mail.ts';
import { chunks } from '../../platform/database/database.ts';
import { type MessageFact, MessageFacts } from './message-facts.ts';

const HEADERS = [
  'Date: Mon, 3 Feb 2020 01:00:00 +0100\r\nSubject: a',
  'Date: nonsense\r\nSubject: b',
  'Date: Tue, 4 Feb 2003 00:00:00 +0000\r\nSubject: cc',
  'Subject: ddd',
  'Date: Sat, 1 Jan 1966 00:00:00 +0000',
];
/** When each was sent; undefined where it came. */
const SENT = [Date.UTC(2020, 1, 3), undefined, Date.UTC(2003, 1, 4), undefined, Date.UTC(1966, 0)];
const NAME = 'Large';
/** More than the UIDs of two rows. */
const MESSAGES = 2_560;
const EVERY = ['modseq', 'flags', 'body_id', 'size', 'internal_date'] as const;

const upTo = (last: number, first = 1) =>
  Array.from({ length: Math.max(0, last - first + 1) }, (_, at) => first + at);

async function openLarge(engine: Parameters<typeof openTestMailstore>[0]) {
  const store = await openTestMailstore(engine);
  const { mailstore, database } = store;
  const { imap } = mailstore;
  const user = await store.makeUser();
  const deliver = async () => {
    for (const [at, header] of HEADERS.entries()) {
      const staged = await store.stage(`${header}\r\n\r\n${'x'.repeat(at)}`);
      await store.append(staged, [{ user, mailbox: NAME, internalDate: 1_000 + at }]);
    }
  };
  await mailstore.createMailbox(user, NAME);
  await deliver();
  for (let count = HEADERS.length; count < MESSAGES; count *= 2) {
    await mailstore.copy(user, { mailbox: NAME, uids: upTo(count) }, NAME);
  }
  const mailbox = await imap.open(user, NAME);
  let asked = 0;
  let isAtHand = true;
  const facts = new MessageFacts(database, {
    indexAtHand: async (...named) => (isAtHand ? imap.indexAtHand(...named) : undefined),
    rows(from, uids, columns) {
      asked += uids.length;
      return imap.rows(from, uids, columns);
    },
  });
  const rowsIn = async () => {
    const rows = await database.read
      .selectFrom('imap_numbers')
      .select(['span', 'numbers'])
      .where('mailbox_id', '=', mailbox.id)
      .orderBy('span')
      .execute();
    // UID, how many follow, and four numbers, each of eight octets.
    return rows.map(({ span, numbers }) => [span, numbers.length / 48]);
  };
  /** Compares facts with rows. @returns how many messages were not kept */
  const compare = async (uids: readonly number[]) => {
    asked = 0;
    const found = await facts.read(user, mailbox, uids);
    const made = asked;
    const expected: MessageFact[] = [];
    for (const some of chunks(uids)) {
      for (const row of await imap.rows(mailbox, some, EVERY)) {
        const sent_at = SENT[(row.uid - 1) % SENT.length] ?? row.internal_date;
        expected.push({ ...row, sent_at });
      }
    }
    // One by one: a difference of thousands is long.
    for (const [at, one] of expected.entries()) assert.deepEqual(found[at], one);
    assert.equal(found.length, expected.length);
    isAtHand = false;
    assert.deepEqual(await facts.read(user, mailbox, uids), found);
    isAtHand = true;
    return made;
  };
  const expunge = async (uids: readonly number[]) => {
    const set = { mailbox: NAME, uids };
    await mailstore.setFlags(user, set, { add: ['\\Deleted'] });
    await mailstore.expunge(user, set);
  };
  const damage = (octets: Uint8Array) =>
    database.write((tx) =>
      tx
        .updateTable('imap_numbers')
        .set({ numbers: Buffer.from(octets) })
        .where('mailbox_id', '=', mailbox.id)
        .execute(),
    );
  return { user, mailstore, compare, rowsIn, deliver, expunge, damage };
}

onEachEngine('facts of messages', (engine) => {
  test('are those of their rows, whichever are asked for, come and go', async () => {
    const { user, mailstore, compare, deliver, expunge } = await openLarge(engine);
    let seed = 7;
    const random = (most: number) => {
      seed = (seed * 48_271) % 2_147_483_647;
      return seed % most;
    };
    let last = MESSAGES;
    for (let step = 0; step < 25; step++) {
      const some = upTo(last + 3).filter(() => random(4) > 0);
      const first = random(last);
      await compare(
        random(2) === 0 ? some : upTo(Math.min(last, first + random(1_500)), first + 1),
      );
      if (random(3) === 0) await expunge(some.filter(() => random(10) === 0));
      const seen = { mailbox: NAME, uids: some.slice(0, 40) };
      if (random(3) === 0) await mailstore.setFlags(user, seen, { add: ['\\Seen'] });
      if (random(3) === 0) {
        await deliver();
        last += HEADERS.length;
      }
    }
    await compare(upTo(last));
  });

  test('are read of the messages once, but for a few new ones', async () => {
    const { compare, rowsIn, deliver } = await openLarge(engine);
    // Whatever the pieces: the first row and the last one of a piece may lack some.
    for (let at = 0; at < MESSAGES; at += 600)
      await compare(upTo(Math.min(MESSAGES, at + 600), at + 1));
    await compare(upTo(MESSAGES));
    assert.equal(await compare(upTo(MESSAGES)), 0);
    assert.deepEqual(await rowsIn(), [
      [0, 1_023],
      [1, 1_024],
      [2, 513],
    ]);
    for (let count = 5; count < 64; count += 5) {
      await deliver();
      assert.equal(await compare(upTo(MESSAGES + count)), count);
    }
    await deliver();
    assert.equal(await compare(upTo(MESSAGES + 65)), 65);
    assert.equal(await compare(upTo(MESSAGES + 65)), 0);
  });

  test('are made again where their row is damaged', async () => {
    const { compare, damage } = await openLarge(engine);
    await compare(upTo(MESSAGES));
    const octets = (...numbers: number[]) => new Uint8Array(Float64Array.from(numbers).buffer);
    const damaged = {
      'half a number': octets(1, 4, 0, 0, 0, 0).subarray(3),
      'half a message': octets(1, 4, 0, 0),
      'no count': octets(1),
      'a count below none': octets(1, -2, 0, 0),
      'a count that is no number': octets(1, Number.NaN, 0, 0),
      'messages out of order': octets(2, 0, 1, 0),
    };
    for (const [what, row] of Object.entries(damaged)) {
      await damage(row);
      assert.equal(await compare(upTo(MESSAGES)), MESSAGES, what);
      assert.equal(await compare(upTo(MESSAGES)), 0, what);
    }
  });

  test('of messages that are gone do not stay, and those of a mailbox go with it', async () => {
    const { user, mailstore, compare, rowsIn, expunge } = await openLarge(engine);
    await compare(upTo(MESSAGES));
    await expunge(upTo(500));
    await compare(upTo(MESSAGES));
    assert.deepEqual((await rowsIn())[0], [0, 1_023]);
    await expunge(upTo(1_023, 501));
    await expunge(upTo(1_900, 1_024));
    assert.equal(await compare(upTo(MESSAGES)), 0);
    assert.deepEqual(await rowsIn(), [
      [1, 147],
      [2, 513],
    ]);
    await mailstore.deleteMailbox(user, NAME);
    while (await mailstore.purge());
    assert.deepEqual(await rowsIn(), []);
  });
});
