import assert from 'node:assert/strict';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';
import { sql } from 'kysely';
import { twiceAtOnce } from '../../../test/support/at-once.ts';
import { onEachEngine } from '../../../test/support/databases.ts';
import {
  openTestMailstore,
  sampleMessage,
  type TestMailstore,
} from '../../../test/support/mail.ts';
import { openTenants } from '../../../test/support/tenants.ts';
import { removeSuppressionsOf } from '../../mail/sending/sending.ts';
import { Bodies, BodyFolder } from '../../mailboxes/bodies/bodies.ts';
import { markShadowsOf, purgeShadows } from '../../mailboxes/mail-server/mail-server.ts';
import { EmbeddedMailstore, type MailUser } from '../../mailboxes/mailstore/mailstore.ts';
import type { Database, Schema } from '../../platform/database/database.ts';
import { type PurgeOptions, purgeStep } from './purge.ts';

/** Every table with rows of accounts and domains, children before their parents. */
const tables = [
  ['tombstones', 'shadow_messages', 'shadow_tombstones', 'messages', 'bodies'],
  ['mailboxes', 'shadow_mailboxes', 'delivery_payloads', 'deliveries', 'accounts'],
  ['domains', 'routes', 'dns_records', 'deleted_accounts', 'deleted_domains'],
  ['send_recipients', 'sends', 'idempotency_keys', 'suppressions'],
].flat() as readonly (keyof Schema)[];

/** No transaction removes more rows of one table than this. */
const ROWS_MAX = 500;
const LARGE = `Subject: large\r\n\r\n${'x'.repeat(100_000)}`;

async function countRows({ read }: Pick<Database, 'read'>): Promise<Map<string, number>> {
  const counts = new Map<string, number>();
  for (const table of tables) {
    const { rows } = await sql<{
      count: number;
    }>`select count(*) as count from ${sql.table(table)}`.execute(read);
    counts.set(table, rows[0]?.count ?? 0);
  }
  return counts;
}

const bodyFiles = async ({ directory }: TestMailstore) =>
  (await readdir(join(directory, 'bodies'), { recursive: true })).filter((name) =>
    /^[0-9a-f]{2}\//.test(name),
  );

/** The parts of the service, as after a start. */
function open({ directory }: TestMailstore, database: Database) {
  const bodies = new Bodies({ database, store: new BodyFolder(join(directory, 'bodies')) });
  const { domains, accounts } = openTenants(database);
  const stores = [
    new EmbeddedMailstore({ database, bodies, idSecret: 'secret' }),
    { markForPurge: markShadowsOf, purge: () => purgeShadows(database) },
  ];
  const options = { database, bodies, accounts, stores } satisfies PurgeOptions;
  return { ...options, domains };
}

/** A database that reports each commit. */
function telling(database: Database, onCommit: () => Promise<void>): Database {
  return {
    ...database,
    async write(work) {
      const value = await database.write(work);
      await onCommit();
      return value;
    },
  };
}

/** A process that is killed in the first transaction that changes anything: before its commit, or just after. */
function killed(database: Database, when: 'before' | 'after'): Database {
  return {
    ...database,
    async write(work) {
      const { value, isChanged } = await database.write(async (tx) => {
        const before = await countRows({ read: tx });
        const value = await work(tx);
        const isChanged = !isDeepStrictEqual(before, await countRows({ read: tx }));
        if (isChanged && when === 'before') throw new Error('killed');
        return { value, isChanged };
      });
      if (isChanged) throw new Error('killed');
      return value;
    },
  };
}

onEachEngine('what a deleted account or domain leaves', (engine) => {
  const sampleText = sampleMessage('m');

  async function append(store: TestMailstore, source: string, ...users: MailUser[]): Promise<void> {
    const targets = users.map((user) => ({ user, mailbox: 'INBOX' }));
    await store.append(await store.stage(source), targets);
  }

  /** A shadow as the IMAP store makes it. */
  function insertShadow({ database }: TestMailstore, { accountId }: MailUser, messages: number) {
    return database.write(async (tx) => {
      const { id } = await tx
        .insertInto('shadow_mailboxes')
        .values({
          account_id: accountId,
          name: 'INBOX',
          uidvalidity: '1',
          uidnext: messages + 1,
          messages,
          unseen: 0,
          modseq: 1,
          oldest_modseq: 1,
        })
        .returning('id')
        .executeTakeFirstOrThrow();
      const seen = { shadow_id: id, created_modseq: 1, modseq: 1 };
      const uids = Array.from({ length: messages }, (_, index) => index + 1);
      const rows = uids.map((uid) => ({ ...seen, uid, flags: '' }));
      await tx.insertInto('shadow_messages').values(rows).execute();
      const gone = { ...seen, uid: messages + 1, expunged_at: 1 };
      await tx.insertInto('shadow_tombstones').values(gone).execute();
    });
  }

  function insertDeliveries({ database, bodies }: TestMailstore, domainId: number, count: number) {
    return database.write(async (tx) => {
      const body_id = await bodies.commit(tx, { size: 2, content: Buffer.from('hi') });
      const at = { next_attempt_at: 0, created_at: 0, updated_at: 0 };
      const rows = Array.from({ length: count }, () => ({
        ...at,
        kind: 'webhook',
        domain_id: domainId,
        destination: 'x',
        body_id,
        public_id: crypto.randomUUID(),
        status: 'queued' as const,
      }));
      const ids = await tx.insertInto('deliveries').values(rows).returning('id').execute();
      const payloads = ids.map(({ id }) => ({ delivery_id: id, payload: '{}' }));
      await tx.insertInto('delivery_payloads').values(payloads).execute();
    });
  }

  /** What an account and its domain have beside mail. */
  function insertOthers({ database }: TestMailstore, accountId: number, domainId: number) {
    return database.write(async (tx) => {
      const many = (count: number) => Array.from({ length: count }, (_, n) => n);
      const at = { created_at: 0, uid: 1, uidvalidity: '1', mailbox: 'Sent', body_id: 0 };
      const owner = { account_id: accountId, domain_id: domainId };
      const sends = await tx
        .insertInto('sends')
        .values(
          many(300).map((n) => ({
            ...{ ...at, ...owner, recipients: 2 },
            ...{ public_id: `send-${accountId}-${n}`, message_id: `${n}` },
          })),
        )
        .returning('id')
        .execute();
      const to = sends.flatMap(({ id }) =>
        ['a', 'b'].map((address) => ({
          send_id: id,
          address,
          delivery_id: 0,
          status: 'queued' as const,
        })),
      );
      await tx.insertInto('send_recipients').values(to).execute();
      const keys = many(700).map((n) => ({ account_id: accountId, key: `${n}`, started_at: 0 }));
      await tx.insertInto('idempotency_keys').values(keys).execute();
      const suppressed = { domain_id: domainId, detail: '', created_at: 0 };
      const addresses = many(700).map((n) => ({ ...suppressed, address: `${n}@far.test` }));
      await tx.insertInto('suppressions').values(addresses).execute();
    });
  }

  /** A user with more of everything than one transaction removes; some of it shared with another user. */
  async function fill(store: TestMailstore, other: MailUser) {
    const user = await store.makeUser();
    const { domain_id, user_id } = await store.database.read
      .selectFrom('accounts')
      .select(['domain_id', 'user_id'])
      .where('id', '=', user.accountId)
      .executeTakeFirstOrThrow();
    await store.mailstore.listMailboxes(user);
    await Promise.all(Array.from({ length: 450 }, () => append(store, sampleText, user)));
    const uids = Array.from({ length: 220 }, (_, n) => n + 1);
    await store.mailstore.expunge(user, { mailbox: 'INBOX', uids });
    for (let n = 0; n < 3; n++) await append(store, LARGE, user);
    await append(store, LARGE, user, other);
    await insertShadow(store, user, 700);
    await insertDeliveries(store, domain_id, 250);
    await insertOthers(store, user.accountId, domain_id);
    return { user, userId: user_id, domain: user.address.split('@')[1] ?? '' };
  }

  /** A store with two users, and the expected rest after one of them is deleted. */
  async function openFilled() {
    const store = await openTestMailstore(engine);
    const other = await store.makeUser();
    await append(store, LARGE, other);
    await insertShadow(store, other, 1);
    const kept = await countRows(store.database);
    const filled = await fill(store, other);
    // The message that both users have.
    for (const table of ['messages', 'bodies']) kept.set(table, (kept.get(table) ?? 0) + 1);
    return { store, kept, ...filled };
  }

  test('is removed in short transactions, and nothing of it stays', async () => {
    const { store, kept, userId, domain } = await openFilled();
    let transactions = 0;
    let before = await countRows(store.database);
    const database = telling(store.database, async () => {
      transactions++;
      const after = await countRows(store.database);
      for (const [table, count] of before) {
        const removed = count - (after.get(table) ?? 0);
        assert.ok(removed <= ROWS_MAX, `${removed} of ${table} in transaction ${transactions}`);
      }
      before = after;
    });
    const parts = open(store, database);
    await parts.accounts.removeDomain(userId, domain);
    assert.equal(before.get('messages'), 236, 'the deletion itself removes nothing but the claim');
    while (await purgeStep(parts));
    assert.deepEqual(await countRows(store.database), kept);
    assert.equal((await bodyFiles(store)).length, 2);
    assert.ok(transactions > 10, `${transactions} transactions`);
  });

  test('is removed to the end, whenever the process is killed on the way', async () => {
    const { store, kept, user, userId, domain } = await openFilled();
    await open(store, store.database).accounts.remove(userId, user.accountId);
    await open(store, store.database).accounts.removeDomain(userId, domain);
    let kills = 0;
    const isKilled = async (when: 'before' | 'after') => {
      const parts = open(store, killed(store.database, when));
      try {
        while (await purgeStep(parts));
        return false;
      } catch (error) {
        assert.ok(error instanceof Error && error.message === 'killed', String(error));
        kills++;
        return true;
      }
    };
    while ((await isKilled('before')) && (await isKilled('after')));
    assert.ok(kills > 20, `${kills} kills`);
    assert.deepEqual(await countRows(store.database), kept);
    // A kill between a commit and the removal of files leaves them to the sweep.
    const files = await bodyFiles(store);
    assert.ok(files.length > 2);
    const bodies = new Bodies({
      database: store.database,
      store: new BodyFolder(join(store.directory, 'bodies')),
      now: () => Date.now() + 2 * 86_400_000,
    });
    const swept = await bodies.files.sweep(new AbortController().signal);
    assert.equal(swept, files.length - 2);
  });

  test('of two nodes that remove the same addresses at once, none takes the rest for removed', async () => {
    const { database } = await openTestMailstore(engine);
    const rows = Array.from({ length: ROWS_MAX + 1 }, (_, at) => ({
      domain_id: 1,
      address: `${at}@sender.test`,
      detail: '550',
      created_at: 0,
    }));
    await database.write((tx) => tx.insertInto('suppressions').values(rows).execute());
    assert.notEqual(await twiceAtOnce(database, (tx) => removeSuppressionsOf(tx, 1)), 0);
  });

  test('a deleted mailbox disappears at once, and its name is free', async () => {
    const store = await openTestMailstore(engine);
    const user = await store.makeUser();
    const state = await countRows(store.database);
    await append(store, sampleText, user);
    const { uidvalidity } = await store.mailstore.sync(user, { mailbox: 'INBOX' });
    await store.database.write((tx) => store.mailstore.markForPurge(tx, [user.accountId]));
    const anew = await store.mailstore.sync(user, { mailbox: 'INBOX' });
    assert.deepEqual(anew.changes.added, []);
    assert.notEqual(anew.uidvalidity, uidvalidity);
    while (await store.mailstore.purge());
    const after = await countRows(store.database);
    assert.equal(after.get('messages'), state.get('messages'));
    assert.equal(after.get('mailboxes'), 6);
  });
});
