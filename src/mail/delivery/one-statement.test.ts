import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { sql } from 'kysely';
import { onEachEngine } from '../../../test/support/databases.ts';
import { openTestMailstore, type TestMailstore } from '../../../test/support/mail.ts';
import { openReceiver } from '../../../test/support/receive.ts';
import { activateDomain, openTenants } from '../../../test/support/tenants.ts';
import { type Database, isUnavailable, type Queries } from '../../platform/database/database.ts';
import { type Accounts, setQuota } from '../../tenants/accounts/accounts.ts';
import { Trace } from '../trace/trace.ts';
import { type MailReceiver, OwnMailboxes } from './delivery.ts';

const now = () => Date.UTC(2026, 0, 1, 12);
const tables = [
  'bodies',
  'messages',
  'search_queue',
  'trace',
  'usage_days',
  'mailboxes',
  'events',
] as const;
/** What differs from one message of a mailbox to the next: it must increase. */
const growing = new Set(['id', 'uid', 'body_id', 'created_modseq', 'modseq', 'xid']);

onEachEngine('one statement for a plain message', (engine) => {
  let store: TestMailstore;
  let accounts: Accounts;
  /** Those of one statement where they can, and those of the transaction. */
  let plain: MailReceiver;
  let general: MailReceiver;
  let untraced: MailReceiver;
  /** Happens between the look for the recipient and the statement. */
  let beforeStoring = async () => {};
  /** Transactions of mail; each case begins with none. */
  let writes = 0;
  const atOnce = engine === 'postgres' ? 0 : 1;

  before(async () => {
    store = await openTestMailstore(engine, now);
    const { database, bodies, mailstore } = store;
    const changes = { publish: () => {} };
    const tenants = openTenants(database, {
      now,
      makeMailboxes: (tx, user) => mailstore.makeMailboxes(tx, user),
    });
    ({ accounts } = tenants);
    const log = { info: () => {}, warn: () => {}, error: () => {} };
    const storage = new OwnMailboxes({ mailstore, bodies, changes, now });
    const prepare = storage.prepare.bind(storage);
    storage.prepare = async (...given) => {
      await beforeStoring();
      return prepare(...given);
    };
    const receiver = (of: Database, keptDays: number) =>
      openReceiver(store, {
        ...tenants,
        database: of,
        storage,
        now,
        trace: new Trace({ database, keptDays, node: 'n', log, now }),
      });
    const write: Database['write'] = (work) => {
      writes++;
      return database.write(work);
    };
    const { atOnce: _, ...transactions } = database;
    plain = receiver({ ...database, write }, 30);
    untraced = receiver({ ...database, write }, 0);
    general = receiver({ ...transactions, write }, 30);
    await activateDomain(tenants.domains, 'u', 'acme.test');
  });

  async function create(localPart: string): Promise<number> {
    const password = 'a good password';
    const made = { userId: 'u', domain: 'acme.test', localPart, password };
    return (await accounts.create(made)).account.id;
  }

  const send = (to: string[], receiver = plain, header = 'Message-ID: <m@example.test>\r\n') =>
    receiver.receive(
      {
        id: 'mail-id',
        from: 'bob@example.test',
        to,
        arrival: {
          protocol: 'ESMTP',
          heloName: 'UID #',
          remoteAddress: '192.0.2.1',
          sessionId: 's',
        },
      },
      (async function* () {
        yield Buffer.from(
          `From: Bob <b@example.test>\r\nSubject: UID #\r\n${header}\r\nHello UID #.\r\n`,
        );
      })(),
    );

  /** All rows of the tables, in the order in which they were written. */
  async function readAll(): Promise<Record<string, Record<string, unknown>[]>> {
    const rows = tables.map(async (table) => {
      const all = await store.database.read.selectFrom(table).selectAll().execute();
      return [table, all.sort((a, b) => orderOf(a) - orderOf(b))] as const;
    });
    return Object.fromEntries(await Promise.all(rows));
  }

  /** What a message wrote: each column of new rows, and how the counters of others grew. */
  function written(before: Awaited<ReturnType<typeof readAll>>, after: typeof before) {
    return tables.flatMap((table) => {
      const [old = [], rows = []] = [before[table], after[table]];
      return rows.map((row, index) => {
        const known = old[index];
        const columns = Object.entries(row).map(([column, value]) => {
          const was = known?.[column];
          if (typeof value === 'number' && typeof was === 'number') return [column, value - was];
          if (growing.has(column)) return [column, typeof value];
          if (column === 'more') return [column, String(value).replace(/UID \d+/, 'UID n')];
          return [column, value];
        });
        return { table, isNew: known === undefined, ...Object.fromEntries(columns) };
      });
    });
  }

  test('writes the rows that the transaction writes, column by column', async () => {
    await create('ann');
    await send(['ann@acme.test'], general);
    const first = await readAll();
    await send(['ann@acme.test'], general);
    const second = await readAll();
    writes = 0;
    await send(['ann@acme.test']);
    assert.equal(writes, atOnce);
    const third = await readAll();
    const columns = (rows: ReturnType<typeof written>) => rows.filter(({ isNew }) => isNew);
    const [byTransaction, byStatement] = [written(first, second), written(second, third)];
    const added = 'a body, a message, news for the search, a trace, an event';
    assert.equal(columns(byStatement).length, 5, added);
    assert.deepEqual(columns(byStatement), columns(byTransaction));
    const grown = (rows: ReturnType<typeof written>) =>
      rows.filter(({ isNew, table }) => !isNew && ['usage_days', 'mailboxes'].includes(table));
    assert.deepEqual(grown(byStatement), grown(byTransaction));
    const { uid, modseq } = third.messages?.at(-1) ?? {};
    assert.deepEqual([uid, modseq], [3, Number(second.messages?.at(-1)?.modseq) + 1]);
    assert.match(String(third.trace?.at(-1)?.more), /"INBOX, UID 3"/);
    assert.equal(third.events?.at(-1)?.uid, 3);
  });

  test('is for plain mail alone, and all other mail comes in as before', async () => {
    const ben = await create('ben');
    await create('cal');
    const count = async () => (await readAll()).messages?.length ?? 0;
    const cases: [string, number, string[], MailReceiver, string?][] = [
      ['plain', atOnce, ['ben@acme.test'], plain],
      ['in capitals', atOnce, ['BEN@acme.test'], plain],
      ['without a trace', atOnce, ['ben@acme.test'], untraced],
      ['to a tag', 1, ['ben+tag@acme.test'], plain],
      ['for one account twice', 1, ['ben@acme.test', 'ben@acme.test'], plain],
      [
        'an answer',
        1,
        ['ben@acme.test'],
        plain,
        'Message-ID: <r@x>\r\nReferences: <m@example.test>\r\n',
      ],
      ['without an id', 1, ['ben@acme.test'], plain, ''],
    ];
    for (const [what, expected, to, receiver, header] of cases) {
      writes = 0;
      const before = await count();
      await send(to, receiver, header);
      assert.equal(writes, expected, what);
      assert.equal(await count(), before + 1, what);
    }
    writes = 0;
    await send(['ben@acme.test', 'cal@acme.test']);
    await store.database.write((tx) => setQuota(tx, ben, 1_000_000));
    await send(['ben@acme.test']);
    assert.equal(writes, 2, 'for two accounts, and for one with a quota');
  });

  test('leaves a mailbox that is not there yet to the transaction', async () => {
    const dan = await create('dan');
    await store.database.write((tx) =>
      tx.deleteFrom('mailboxes').where('account_id', '=', dan).execute(),
    );
    writes = 0;
    await send(['dan@acme.test']);
    assert.equal(writes, 1);
    await send(['dan@acme.test']);
    assert.equal(writes, 1 + atOnce);
    const { messages = [], usage_days = [], bodies = [] } = await readAll();
    const used = usage_days.find(({ account_id }) => account_id === dan);
    assert.equal(used?.messages_in, 2);
    assert.equal(bodies.length, messages.length - 1, 'one was for two accounts');
  });

  test('gives each message of one mailbox its UID and MODSEQ, however many come at once', async () => {
    const eve = await create('eve');
    await Promise.all(Array.from({ length: 30 }, () => send(['eve@acme.test'])));
    const box = await mailboxOf(eve);
    const rows = await store.database.read
      .selectFrom('messages')
      .select(['uid', 'modseq'])
      .where('mailbox_id', '=', box.id)
      .orderBy('uid')
      .execute();
    assert.deepEqual(
      rows.map(({ uid }) => uid),
      Array.from({ length: 30 }, (_, index) => index + 1),
    );
    assert.ok(rows.every(({ modseq }, index) => modseq === (rows[0]?.modseq ?? 0) + index));
    assert.deepEqual([box.messages, box.unseen, box.uidnext], [30, 30, 31]);
  });

  test('leaves nothing where a part of it fails', async () => {
    const fay = await create('fay');
    const box = await mailboxOf(fay);
    await send(['fay@acme.test']);
    // Its next UID is taken.
    await store.database.write((tx) =>
      tx.updateTable('mailboxes').set({ uidnext: 1 }).where('id', '=', box.id).execute(),
    );
    const before = await readAll();
    await assert.rejects(send(['fay@acme.test']), /unique|UNIQUE/);
    assert.deepEqual(await readAll(), before);
  });

  test('is refused for now where its connection is lost, stays out, and comes in once when it is sent again', {
    skip: engine === 'sqlite',
  }, async () => {
    const gil = await create('gil');
    const box = await mailboxOf(gil);
    const held = Promise.withResolvers<void>();
    const isHeld = Promise.withResolvers<void>();
    const holding = store.database.write(async (tx) => {
      await tx.updateTable('mailboxes').set({ unseen: 0 }).where('id', '=', box.id).execute();
      isHeld.resolve();
      await held.promise;
    });
    await isHeld.promise;
    const sent = send(['gil@acme.test']);
    const refused = assert.rejects(sent, isUnavailable);
    while ((await endWaiting(store.database.read)) === 0) await pause(10);
    await refused;
    held.resolve();
    await holding;
    assert.deepEqual(await mailboxOf(gil), { ...box, unseen: 0 });
    await send(['gil@acme.test']);
    assert.equal((await mailboxOf(gil)).messages, 1);
  });

  test('brings the first mail of new accounts without the counter of UIDVALIDITY, which one transaction at a time has', async () => {
    const counter = () => store.database.read.selectFrom('counters').selectAll().execute();
    const names = ['ida', 'jan', 'kim'].map((one) => `first-${one}`);
    for (const name of names) await create(name);
    const before = await counter();
    for (const receiver of [plain, general]) {
      await send(
        names.map((name) => `${name}@acme.test`),
        receiver,
      );
      for (const name of names) await send([`${name}@acme.test`], receiver);
    }
    assert.deepEqual(await counter(), before);
  });

  // The last one: it deletes the domain.
  test('messages that wait for one mailbox leave connections to others', async (t) => {
    const accountId = await create('crowded');
    const user = { accountId, address: 'crowded@acme.test' };
    await send([user.address]);
    const { database, mailstore } = store;
    const locked = Promise.withResolvers<void>();
    const done = Promise.withResolvers<void>();
    const holding = database.write(async (tx) => {
      const of = tx.updateTable('mailboxes').where('account_id', '=', accountId);
      await of.set({ highestmodseq: (columns) => columns.ref('highestmodseq') }).execute();
      locked.resolve();
      await done.promise;
    });
    await locked.promise;
    t.after(() => done.resolve());
    const set = { mailbox: 'INBOX', uids: [1] };
    const waiting = Array.from({ length: 15 }, () => [
      send([user.address]),
      send([user.address], general),
      mailstore.setFlags(user, set, { add: ['\\Seen'] }),
      mailstore.copy(user, set, 'Archive'),
      mailstore.expunge(user, { ...set, uids: [99] }),
    ]).flat();
    const settled = Promise.allSettled(waiting);
    // Reads have more turns than each of the writes needs to ask for a connection.
    for (let turn = 0; turn < 50; turn++) await sql`select 1`.execute(database.read);
    if (engine === 'postgres') {
      const { rows } = await sql<{ holders: number }>`
        select count(*)::int as holders from pg_stat_activity
        where datname = current_database() and wait_event_type = 'Lock'`.execute(database.read);
      assert.equal(rows[0]?.holders, 2);
    }
    done.resolve();
    await holding;
    const failed = (await settled).filter(({ status }) => status === 'rejected');
    assert.deepEqual(failed, []);
  });

  test('comes in once where the domain is deleted at that moment', {
    skip: engine === 'sqlite',
  }, async () => {
    const hal = await create('hal');
    beforeStoring = async () => {
      await accounts.removeDomain('u', 'acme.test');
    };
    await send(['hal@acme.test']);
    assert.equal((await mailboxOf(hal)).messages, 1);
  });

  const mailboxOf = (accountId: number) =>
    store.database.read
      .selectFrom('mailboxes')
      .selectAll()
      .where('account_id', '=', accountId)
      .where('name', '=', 'INBOX')
      .executeTakeFirstOrThrow();
});

/** Ends the connection whose statement waits for the mailbox. */
async function endWaiting(queries: Queries): Promise<number> {
  const { rows } = await sql`select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and wait_event_type = 'Lock'
      and pid <> pg_backend_pid() and query like '%with advanced%'`.execute(queries);
  return rows.length;
}

/** Where a row was written, among those of its table. */
function orderOf(row: object): number {
  if ('id' in row) return Number(row.id);
  return 'mailbox_id' in row && 'uid' in row
    ? Number(row.mailbox_id) * 1e6 + Number(row.uid)
    : Number('account_id' in row && row.account_id);
}
