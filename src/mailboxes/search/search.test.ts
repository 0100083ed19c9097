import assert from 'node:assert/strict';
import { open, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { afterEach, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { sql } from 'kysely';
import { pino } from 'pino';
import { onEachEngine } from '../../../test/support/databases.ts';
import { openTestMailstore, type TestMailstore } from '../../../test/support/mail.ts';
import { type Engine, openPostgres, settingStore } from '../../platform/database/database.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import { InProcessChanges } from '../changes/changes.ts';
import type { MailUser } from '../mailstore/mailstore.ts';
import { createSearchSource, EmbeddedMailstore } from '../mailstore/mailstore.ts';
import { FORGET_AT_A_TIME } from './documents.ts';
import { PostgresIndex } from './postgres-index.ts';
import {
  createSearch,
  enqueueSearch,
  ownTerms,
  readTerms,
  type Search,
  type SearchOptions,
} from './search.ts';
import { SqliteIndex } from './sqlite-index.ts';
import { readQuery, TERMS_VERSION } from './terms.ts';

function mail(subject: string, text: string, more = ''): string {
  return `From: Bob Builder <bob@sender.test>\r\nTo: Ada <ada@acme.test>\r\nSubject: ${subject}\r\n${more}\r\n${text}\r\n`;
}

const changes = new InProcessChanges();
const running: Search[] = [];
afterEach(async () => {
  for (const search of running.splice(0)) await search.stop();
});

function startSearch(store: TestMailstore, options: Partial<SearchOptions> = {}): Search {
  const search = createSearch({
    database: store.database,
    changes,
    bodies: store.bodies,
    source: createSearchSource(store.database),
    log: pino({ level: 'silent' }),
    path: join(store.directory, 'search.db'),
    ...options,
  });
  running.push(search);
  search.start();
  return search;
}

/** A store with one account. */
async function openWithUser(engine: Engine): Promise<{ store: TestMailstore; user: MailUser }> {
  const store = await openTestMailstore(engine);
  return { store, user: await store.makeUser() };
}

/** Waits until everything of the account is indexed. */
async function settle(search: Search, user: MailUser): Promise<void> {
  changes.publish({ kind: 'mailboxes', accountId: user.accountId });
  while (await search.isBehind(user.accountId))
    await new Promise((resolve) => setTimeout(resolve, 5));
}

async function startSettled(
  store: TestMailstore,
  user: MailUser,
  options?: Partial<SearchOptions>,
): Promise<Search> {
  const search = startSearch(store, options);
  await settle(search, user);
  return search;
}

async function add(
  store: TestMailstore,
  user: MailUser,
  source: string,
  internalDate = 0,
): Promise<number> {
  await store.append(await store.stage(source), [{ user, mailbox: 'INBOX', internalDate }]);
  const { id } = await store.database.read
    .selectFrom('bodies')
    .select((eb) => eb.fn.max('id').as('id'))
    .executeTakeFirstOrThrow();
  return id;
}

async function found(search: Search, user: MailUser, text: string): Promise<number[]> {
  const terms = readQuery({ text });
  const hits = await search.find({ accountId: user.accountId, terms, limit: 50 });
  return hits.map(({ bodyId }) => bodyId);
}

onEachEngine('the search index', (engine) => {
  test('finds messages by words of any field, newest first', async () => {
    const { store, user } = await openWithUser(engine);
    const old = await add(store, user, mail('Invoice 4711', 'Please pay.'), 1_000);
    const html = 'Content-Type: text/html; charset=utf-8\r\n';
    const young = await add(
      store,
      user,
      mail('Hello', '<p>Your <b>inv&#111;ice</b></p>', html),
      2_000,
    );
    const search = await startSettled(store, user);
    assert.deepEqual(await found(search, user, 'invoice'), [young, old]);
    assert.deepEqual(await found(search, user, 'INVOICE 4711'), [old]);
    assert.deepEqual(await found(search, user, 'builder hello'), [young]);
    assert.deepEqual(await found(search, user, 'inv*'), [young, old]);
    assert.deepEqual(await found(search, user, 'nothing'), []);
  });

  test('finds forwarded messages by their words, senders, subjects and attachments', async () => {
    const { store, user } = await openWithUser(engine);
    const inner =
      'From: Zoe Zimmer <zoe@far.test>\r\nSubject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\r\n' +
      'Content-Type: multipart/mixed; boundary=i\r\n\r\n' +
      '--i\r\nContent-Type: text/html\r\n\r\n<p>Rhubarb <b>cru</b>mble</p>\r\n' +
      '--i\r\nContent-Type: application/pdf; name=recipe.pdf\r\n\r\nx\r\n' +
      '--i\r\nContent-Type: message/rfc822\r\n\r\nSubject: deepest\r\n\r\nCustard\r\n--i--\r\n';
    const outer = `--o\r\n\r\nSee below.\r\n--o\r\nContent-Type: message/rfc822\r\n\r\n${inner}\r\n--o--`;
    const id = await add(
      store,
      user,
      mail('Fwd', outer, 'Content-Type: multipart/mixed; boundary=o\r\n'),
    );
    const search = await startSettled(store, user);
    for (const words of [
      'below',
      'rhubarb crumble',
      'grusse',
      'zimmer',
      'zoe',
      'recipe',
      'deepest',
      'custard',
    ]) {
      assert.deepEqual(await found(search, user, words), [id], words);
    }
    // Fields are those of the message around it, as on a mail server.
    const subject = readQuery({ subject: 'grusse' });
    const { accountId } = user;
    assert.deepEqual(await search.find({ accountId, terms: subject, limit: 9 }), []);
    const body = readQuery({ body: 'grusse custard' });
    assert.equal((await search.find({ accountId, terms: body, limit: 9 })).length, 1);
  });

  test('indexes what a dead node left, without being woken', async () => {
    const { store, user } = await openWithUser(engine);
    const search = await startSettled(store, user, { retryMs: 10 });
    // The node that queued it wakes no other.
    const left = await add(store, user, mail('Left behind', 'x'));
    while (await search.isBehind(user.accountId))
      await new Promise((resolve) => setTimeout(resolve, 5));
    assert.deepEqual(await found(search, user, 'behind'), [left]);
  });

  test('pages by date, and by id within one date', async () => {
    const { store, user } = await openWithUser(engine);
    const ids: number[] = [];
    for (const date of [3, 1, 2, 2, 2, 1])
      ids.push(await add(store, user, mail('same', 'x'), date));
    const search = await startSettled(store, user);
    const all = await found(search, user, 'same');
    assert.equal(all.length, 6);
    assert.equal(all[0], ids[0]);
    const paged: number[] = [];
    let after: { date: number; id: number } | undefined;
    for (;;) {
      const request = { accountId: user.accountId, terms: readQuery({ text: 'same' }), limit: 2 };
      const hits = await search.find({ ...request, after });
      paged.push(...hits.map(({ bodyId }) => bodyId));
      after = hits.at(-1);
      if (!after) break;
    }
    assert.deepEqual(paged, all);
  });

  test('finds nothing of another account', async () => {
    const store = await openTestMailstore(engine);
    const [ada, bob] = [await store.makeUser(), await store.makeUser()];
    const own = await add(store, ada, mail('secret', 'x'));
    await add(store, bob, mail('secret', 'x'));
    const search = startSearch(store);
    await settle(search, ada);
    await settle(search, bob);
    assert.deepEqual(await found(search, ada, 'secret'), [own]);
    assert.deepEqual(await found(search, ada, 'secr*'), [own]);
  });

  test('forgets a message, and an account', async () => {
    const { store, user } = await openWithUser(engine);
    const first = await add(store, user, mail('word', 'x'));
    const second = await add(store, user, mail('word', 'y'));
    const search = await startSettled(store, user);
    const { accountId } = user;
    await store.database.write((tx) =>
      enqueueSearch(tx, [{ accountId, bodyId: first, gone: true }]),
    );
    await settle(search, user);
    assert.deepEqual(await found(search, user, 'word'), [second]);
    await store.database.write((tx) => enqueueSearch(tx, [{ accountId, bodyId: 0, gone: true }]));
    await settle(search, user);
    assert.deepEqual(await found(search, user, 'word'), []);
  });

  test('forgets a large account step by step, also where it ends between two, and indexes the mail of others meanwhile', async (t) => {
    const { store, user } = await openWithUser(engine);
    const bob = await store.makeUser();
    const { database, bodies, directory } = store;
    const { accountId } = user;
    const mails = createSearchSource(database);
    const bodyId = await add(store, user, mail('word', 'x'));
    const [message] = await mails.find(database.read, [{ accountId, bodyId }]);
    assert.ok(message);
    const copies: typeof mails = {
      find: async (_, wanted) => wanted.map((one) => ({ ...message, ...one })),
      enqueueAll: async () => {},
    };
    const options = { database, bodies, source: copies, log: pino({ level: 'silent' }) };
    const open = async () => {
      const opened =
        engine === 'sqlite'
          ? new SqliteIndex(options, join(directory, 'search.db'), () => {})
          : new PostgresIndex(options);
      await opened.open();
      return opened;
    };
    let index = await open();
    const queue = (owner: MailUser, bodyIds: readonly number[], gone = false) =>
      database.write((tx) =>
        enqueueSearch(
          tx,
          bodyIds.map((one) => ({ accountId: owner.accountId, bodyId: one, gone })),
        ),
      );
    const count = async (owner: MailUser) =>
      (await index.find({ ...owner, terms: readQuery({ text: 'word' }), limit: 2_000 })).length;
    const most = 2 * FORGET_AT_A_TIME + 1;
    await queue(
      user,
      Array.from({ length: most }, (_, at) => bodyId + at),
    );
    while ((await index.takeBatch()) > 0);
    assert.equal(await count(user), most);
    await queue(user, [0], true);
    await queue(bob, [bodyId]);
    await index.takeBatch();
    assert.deepEqual([await count(user), await count(bob)], [FORGET_AT_A_TIME + 1, 1]);
    const write = t.mock.method(database, 'write', () => Promise.reject(new Error('it ends')));
    await assert.rejects(index.takeBatch(), /it ends/);
    write.mock.restore();
    await index.close();
    index = await open();
    while ((await index.takeBatch()) > 0);
    assert.deepEqual([await count(user), await count(bob)], [0, 1]);
    await index.close();
  });

  if (engine === 'postgres') {
    const waitsForALock = async ({ database }: TestMailstore) => {
      const { rows } = await sql`select 1 from pg_stat_activity
        where datname = current_database() and wait_event_type = 'Lock'`.execute(database.read);
      return rows.length > 0;
    };

    test('forgets a message whose last two copies are removed at the same time', async () => {
      const { store, user } = await openWithUser(engine);
      const search = startSearch(store);
      await add(store, user, mail('twice', 'hello'));
      await store.mailstore.copy(user, { mailbox: 'INBOX', uids: [1] }, 'Archive');
      await settle(search, user);
      let second: Promise<unknown> | undefined;
      await store.database.write(async (tx) => {
        await store.mailstore.editor.expungeIn(tx, user, { mailbox: 'INBOX', uids: [1] });
        second = store.mailstore.expunge(user, { mailbox: 'Archive', uids: [1] });
        while (!(await waitsForALock(store))) await pause(10);
      });
      await second;
      await settle(search, user);
      assert.deepEqual(await found(search, user, 'twice'), []);
    });

    test('holds up no events while a source takes long to read', async () => {
      const { store, user } = await openWithUser(engine);
      const { database, bodies } = store;
      const source = createSearchSource(database);
      const [asked, answered] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      const slow: typeof source = {
        ...source,
        async find(...wanted) {
          asked.resolve();
          await answered.promise;
          return source.find(...wanted);
        },
      };
      const log = pino({ level: 'silent' });
      const index = new PostgresIndex({ database, bodies, log, source: slow });
      await index.open();
      await add(store, user, mail('slow', 'hello'));
      const taking = index.takeBatch();
      await asked.promise;
      const { rows } = await sql`select 1 from pg_stat_activity
        where datname = current_database() and backend_xid is not null`.execute(database.read);
      answered.resolve();
      assert.equal(await taking, 1);
      assert.deepEqual(rows, []);
    });

    test('is filled by the next start where of two nodes that fill it the later one dies', async () => {
      const { store, user } = await openWithUser(engine);
      const id = await add(store, user, mail('kept', 'hello'));
      const { database, bodies } = store;
      const source = createSearchSource(database);
      const log = pino({ level: 'silent' });
      const dies = async () => {
        throw new Error('it was killed');
      };
      const later = new PostgresIndex({
        ...{ database, bodies, log },
        source: { ...source, enqueueAll: dies },
      });
      const first = new PostgresIndex({
        ...{ database, bodies, log },
        source: {
          ...source,
          async enqueueAll() {
            await source.enqueueAll();
            await assert.rejects(later.open(), /it was killed/);
          },
        },
      });
      await first.open();
      const search = await startSettled(store, user);
      assert.deepEqual(await found(search, user, 'kept'), [id]);
    });

    test('is behind on every node while one of them empties and fills it', async () => {
      const store = await openTestMailstore(engine);
      const { accountId } = await store.makeUser();
      const { database, bodies } = store;
      const source = createSearchSource(database);
      const log = pino({ level: 'silent' });
      const one = new PostgresIndex({ database, bodies, log, source });
      await one.open();
      assert.equal(await one.isBehind(accountId), false);
      await settingStore(database, 'search_terms').replace(String(TERMS_VERSION), 'earlier');
      const asked: boolean[] = [];
      const enqueueAll = async () => void asked.push(await one.isBehind(accountId));
      await new PostgresIndex({ database, bodies, log, source: { ...source, enqueueAll } }).open();
      assert.deepEqual(asked, [true]);
      assert.equal(await one.isBehind(accountId), false);
    });

    test('forgets a message that is removed while another node indexes it', async () => {
      const { store, user } = await openWithUser(engine);
      const source = createSearchSource(store.database);
      const [read, removed] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
      const slow: typeof source = {
        ...source,
        async find(...wanted) {
          const message = await source.find(...wanted);
          read.resolve();
          await removed.promise;
          return message;
        },
      };
      const { database, bodies } = store;
      const log = pino({ level: 'silent' });
      const [one, other] = [slow, source].map(
        (from) => new PostgresIndex({ database, bodies, log, source: from }),
      );
      await other?.open();
      await add(store, user, mail('meanwhile', 'hello'));
      const indexing = one?.takeBatch();
      await read.promise;
      await store.mailstore.expunge(user, { mailbox: 'INBOX', uids: [1] });
      await other?.takeBatch();
      removed.resolve();
      await indexing;
      await other?.takeBatch();
      const search = await startSettled(store, user);
      assert.deepEqual(await found(search, user, 'meanwhile'), []);
    });
  }

  test('a message that is queued twice is found once', async () => {
    const { store, user } = await openWithUser(engine);
    const id = await add(store, user, mail('twice', 'x'));
    const news = { accountId: user.accountId, bodyId: id, gone: false };
    await store.database.write((tx) => enqueueSearch(tx, [news, news]));
    const search = await startSettled(store, user);
    assert.deepEqual(await found(search, user, 'twice'), [id]);
  });

  test('continues after a restart, and removes processed rows from the queue', async () => {
    const { store, user } = await openWithUser(engine);
    const first = await add(store, user, mail('one', 'x'));
    const search = await startSettled(store, user);
    await search.stop();
    const left = await store.database.read.selectFrom('search_queue').selectAll().execute();
    assert.deepEqual(left, []);
    const second = await add(store, user, mail('one', 'y'));
    const again = await startSettled(store, user);
    assert.deepEqual(await found(again, user, 'one'), [second, first]);
  });

  test('a filter that hardly any of many hits passes gives each message once', async () => {
    const { store, user } = await openWithUser(engine);
    const hits = 310;
    for (let at = 0; at < hits; at++) await add(store, user, mail('same', `text ${at}`), at);
    const rare = [2, 9, 250, 305];
    await store.mailstore.setFlags(user, { mailbox: 'INBOX', uids: rare }, { add: ['\\Flagged'] });
    const search = await startSettled(store, user);
    const { database, bodies } = store;
    const mailstore = new EmbeddedMailstore({ database, bodies, search, idSecret: 'secret' });
    for (const texts of [{ text: 'same' }, {}]) {
      const uids: number[] = [];
      let cursor: string | undefined;
      do {
        const request = { texts, flags: ['\\Flagged'], hasAttachment: false, limit: 3 };
        const page = await mailstore.search(user, { ...request, ...(cursor && { cursor }) });
        uids.push(...page.matches.map(({ uid }) => uid));
        cursor = page.cursor;
      } while (cursor);
      assert.deepEqual(uids, rare.toReversed());
    }
  });

  test('an index whose creation fails half way is created again', async () => {
    const { store, user } = await openWithUser(engine);
    const id = await add(store, user, mail('kept', 'x'));
    const first = await startSettled(store, user);
    await first.stop();
    if (engine === 'sqlite') await rm(join(store.directory, 'search.db'));
    else {
      const older = { value: 'older' };
      await store.database.write((tx) =>
        tx.updateTable('settings').set(older).where('name', '=', 'search_terms').execute(),
      );
    }
    const source = createSearchSource(store.database);
    let failures = 0;
    const enqueueAll = () => {
      failures += 1;
      return failures === 1 ? Promise.reject(new Error('died')) : source.enqueueAll();
    };
    const search = startSearch(store, { retryMs: 10, source: { ...source, enqueueAll } });
    while (failures < 2) await new Promise((resolve) => setTimeout(resolve, 5));
    await settle(search, user);
    assert.deepEqual(await found(search, user, 'kept'), [id]);
  });

  test('a message that cannot be read does not stop the others', async () => {
    const { store, user } = await openWithUser(engine);
    const bad = await add(store, user, mail('bad', 'x'));
    const good = await add(store, user, mail('good', 'x'));
    const source = createSearchSource(store.database);
    const unreadable: unknown[] = [];
    const search = startSearch(store, {
      retryMs: 10,
      log: { info: () => {}, error: (fields: object) => void unreadable.push(fields) },
      source: {
        ...source,
        async find(...wanted) {
          const messages = await source.find(...wanted);
          // A row that something else wrote may look like this.
          const envelope = '{"subject":5}';
          return messages.map((one) => (one.bodyId === bad ? { ...one, envelope } : one));
        },
      },
    });
    await settle(search, user);
    assert.deepEqual(await found(search, user, 'good'), [good]);
    // Only one: a new index skips rows from before it queued all mail itself.
    assert.deepEqual(
      unreadable.map((fields) => (fields as { bodyId?: number }).bodyId),
      [bad],
    );
  });

  test('a message whose source cannot be read for a while is found later', async () => {
    const { store, user } = await openWithUser(engine);
    const id = await add(store, user, mail('later', 'x'));
    let failures = 0;
    const read: typeof store.bodies.read = (...args) => {
      failures += 1;
      if (failures === 1) throw new Refusal('unavailable', 'away');
      if (failures === 2) throw Object.assign(new Error('too many open files'), { code: 'EMFILE' });
      return store.bodies.read(...args);
    };
    const lines: string[] = [];
    const tell = (...args: unknown[]) => void lines.push(String(args.at(-1)));
    const log = { info: tell, error: tell };
    const search = await startSettled(store, user, { retryMs: 10, bodies: { read }, log });
    assert.deepEqual(await found(search, user, 'later'), [id]);
    // Once each, however often it was tried.
    assert.equal(lines.length, 2, lines.join('; '));
    assert.match(lines[0] ?? '', /^the search index could not be written/);
    assert.match(lines[1] ?? '', /^the search index is written again/);
  });

  test('a message whose body is missing for a while is found later, also after a restart', async () => {
    const { store, user } = await openWithUser(engine);
    // By the clock that all nodes share: that of this machine may be hours behind.
    const now = () => Date.now() + 7_200_000;
    const ids = [
      await add(store, user, mail('brought', 'x'), now()),
      await add(store, user, mail('brought', 'y')),
      await add(store, user, mail('brought', 'z'), now() + 1e12),
    ];
    let isMissing = true;
    const read: typeof store.bodies.read = (...args) => {
      if (isMissing) throw new Refusal('body_unavailable', 'missing');
      return store.bodies.read(...args);
    };
    const { read: db } = store.database;
    const unread = () => db.selectFrom('search_unread').selectAll().orderBy('body_id').execute();
    const search = startSearch(store, { retryMs: 10, bodies: { read }, now });
    while ((await unread()).length < ids.length) await pause(5);
    await settle(search, user);
    assert.deepEqual(await found(search, user, 'brought'), []);
    const waits = (await unread()).map(({ next_at }) => (next_at - now()) / 3_600_000);
    assert.deepEqual(
      waits.map((hours) => Math.ceil(hours)),
      [1, 24, 24],
    );
    isMissing = false;
    await store.database.write((tx) =>
      tx
        .updateTable('search_unread')
        .set({ next_at: 0 })
        .where('body_id', '=', ids[0] ?? 0)
        .execute(),
    );
    while ((await unread()).length > 2) await pause(5);
    await settle(search, user);
    assert.deepEqual(await found(search, user, 'brought'), [ids[0]]);
    await search.stop();
    const again = startSearch(store, { bodies: { read }, now });
    while ((await unread()).length > 0) await pause(5);
    await settle(again, user);
    assert.deepEqual((await found(again, user, 'brought')).toSorted(), ids);
  });

  test('a message of many parts is read in few pieces', async () => {
    const { store, user } = await openWithUser(engine);
    const nested = (at: number) =>
      `--o\r\nContent-Type: message/rfc822\r\n\r\nSubject: subject${at}\r\n\r\nnested${at}\r\n`;
    const parts = Array.from({ length: 300 }, (_, at) => `--o\r\n\r\nword${at}\r\n${nested(at)}`);
    const multipart = 'Content-Type: multipart/mixed; boundary=o\r\n';
    const id = await add(store, user, mail('many', `${parts.join('')}--o--`, multipart));
    let reads = 0;
    const read: typeof store.bodies.read = (...args) => {
      reads++;
      return store.bodies.read(...args);
    };
    const search = await startSettled(store, user, { bodies: { read } });
    for (const words of ['word0 word299', 'subject7 nested7', 'subject299 nested250'])
      assert.deepEqual(await found(search, user, words), [id], words);
    assert.ok(reads < 20, `${reads} reads`);
  });

  test('a message whose source takes long to read delays its index, and does not end it', {
    skip: engine === 'sqlite',
  }, async (t) => {
    const { store, user } = await openWithUser(engine);
    const id = await add(store, user, mail('slow', 'x'));
    // The server ends a transaction that is idle for longer.
    const database = await openPostgres({ url: store.location, timeoutMs: 1_000 });
    t.after(() => database.close());
    let reads = 0;
    const search = startSearch(store, {
      database,
      retryMs: 10,
      bodies: {
        async *read(...args) {
          reads++;
          await pause(1_500);
          yield* store.bodies.read(...args);
        },
      },
    });
    await settle(search, user);
    assert.deepEqual(await found(search, user, 'slow'), [id]);
    assert.equal(reads, 1);
  });

  test('is the same where the terms of a message were queued with it', {
    skip: engine === 'sqlite',
  }, async () => {
    const { store, user } = await openWithUser(engine);
    // A new index would queue all mail itself.
    const filled = await startSettled(store, user);
    await filled.stop();
    const inner = 'From: Zoe <zoe@far.test>\r\nSubject: Rhubarb\r\n\r\nCustard \u4f60\u597d 0_0 0';
    const source = mail(
      '0 Gr\u00fc\u00dfe 0',
      `--o\r\n\r\nSee below.\r\n--o\r\nContent-Type: message/rfc822\r\n\r\n${inner}\r\n--o--`,
      'Content-Type: multipart/mixed; boundary=o\r\n',
    );
    const read = await add(store, user, source, 1_000);
    const told = await add(store, user, source, 2_000);
    const removed = await add(store, user, source, 3_000);
    const { parsed, body } = await store.stage(source);
    const terms = await readTerms(parsed, body.content);
    assert.ok(terms);
    const { database } = store;
    await database.read
      .updateTable('search_queue')
      .set({ terms: ownTerms(terms, user.accountId), date: 2_000 })
      .where('body_id', 'in', [told, removed])
      .execute();
    const news = { accountId: user.accountId, bodyId: removed, gone: true };
    await database.write((tx) => enqueueSearch(tx, [news]));
    const sources: number[] = [];
    const search = startSearch(store, {
      source: {
        ...createSearchSource(database),
        find: (queries, wanted) => {
          sources.push(...wanted.map(({ bodyId }) => bodyId));
          return createSearchSource(database).find(queries, wanted);
        },
      },
    });
    await settle(search, user);
    assert.deepEqual(await found(search, user, 'rhubarb custard'), [told, read]);
    assert.deepEqual(sources, [read]);
    const rows = await sql<{ terms: string; date: number }>`
      select terms::text, date from search_documents order by date`.execute(database.read);
    const [first, second] = rows.rows;
    assert.deepEqual(second, { ...first, date: 2_000 });
  });

  test('hostile words are words', async () => {
    const { store, user } = await openWithUser(engine);
    await add(store, user, mail('plain', 'x'));
    const search = await startSettled(store, user);
    for (const text of [
      '"plain',
      "plain'",
      'plain OR x',
      'plain) NEAR(',
      'plain:*&!|',
      'col:plain',
      'a\\b plain',
      'plain\0',
    ]) {
      assert.ok(Array.isArray(await found(search, user, text)), text);
    }
  });
});

/** Changes the file of an index that is closed. */
function edit(store: TestMailstore, change: (db: DatabaseSync) => void): void {
  const db = new DatabaseSync(join(store.directory, 'search.db'));
  change(db);
  db.close();
}

const PAGE_SIZE = 8192;

/** What may happen to `search.db` between two runs. */
const accidents: [title: string, befall: (store: TestMailstore) => unknown][] = [
  ['of another store', ({ database }) => settingStore(database, 'store_id').create('another')],
  ['of a newer version', (store) => edit(store, (db) => db.exec("update state set value = '9 9'"))],
  ['with other tables', (store) => edit(store, (db) => db.exec('drop table state'))],
  ['that is no database', ({ directory }) => writeFile(join(directory, 'search.db'), 'none')],
  ['that is gone', ({ directory }) => rm(join(directory, 'search.db'))],
  [
    // The mail's database was restored from a copy: it gives ids again that the index has passed.
    'younger than its mail',
    (store) =>
      edit(store, (db) => db.exec("update state set value = '99' where name = 'position'")),
  ],
  [
    // The index was restored from a copy: rows that it has not seen were removed from the queue.
    'older than its mail',
    (store) =>
      edit(store, (db) => {
        db.exec("update state set value = '0' where name = 'position'");
        db.exec("delete from documents; insert into terms(terms) values('delete-all')");
      }),
  ],
];
for (const [title, befall] of accidents) {
  test(`an index ${title} is built again from the mail`, async () => {
    const { store, user } = await openWithUser('sqlite');
    const id = await add(store, user, mail('kept', 'x'));
    const first = await startSettled(store, user);
    await first.stop();
    await befall(store);
    const again = await startSettled(store, user);
    const later = await add(store, user, mail('kept', 'y'), 1);
    await settle(again, user);
    assert.deepEqual(await found(again, user, 'kept'), [later, id]);
  });
}

test('a damaged index is built again, also while no mail comes', async () => {
  const { store, user } = await openWithUser('sqlite');
  const id = await add(store, user, mail('kept', 'x'));
  const first = await startSettled(store, user);
  await first.stop();
  let page = 0;
  edit(store, (db) => {
    const { rootpage } =
      db.prepare("select rootpage from sqlite_schema where name = 'terms_data'").get() ?? {};
    page = Number(rootpage);
  });
  const file = await open(join(store.directory, 'search.db'), 'r+');
  await file.write(Buffer.alloc(PAGE_SIZE, 0xff), 0, PAGE_SIZE, (page - 1) * PAGE_SIZE);
  await file.close();
  const search = await startSettled(store, user, { retryMs: 10 });
  await assert.rejects(found(search, user, 'kept'), { code: 'unavailable' });
  await settle(search, user);
  assert.deepEqual(await found(search, user, 'kept'), [id]);
});

test('an index that cannot be written is searched as before, and continues later, also where the clock is set back', async (t) => {
  const { store, user } = await openWithUser('sqlite');
  const id = await add(store, user, mail('kept', 'x'));
  const failed = Promise.withResolvers<void>();
  let shown = 0;
  const log = {
    info: () => {},
    error() {
      // An hour with each look: the retry must not wait until the clock shows its time again.
      if (shown === 0) {
        shown = Date.now();
        t.mock.method(Date, 'now', () => {
          shown -= 3_600_000;
          return shown;
        });
      }
      failed.resolve();
    },
  };
  const search = await startSettled(store, user, { retryMs: 10, log });
  // The index may be on its way to the disk.
  const other = new DatabaseSync(join(store.directory, 'search.db'), { timeout: 5_000 });
  other.exec('begin immediate');
  const later = await add(store, user, mail('kept', 'y'), 1);
  changes.publish({ kind: 'mailboxes', accountId: user.accountId });
  await failed.promise;
  assert.deepEqual(await found(search, user, 'kept'), [id]);
  other.close();
  await settle(search, user);
  assert.deepEqual(await found(search, user, 'kept'), [later, id]);
});

test('an index that cannot be opened right now is kept', async () => {
  const { store, user } = await openWithUser('sqlite');
  const id = await add(store, user, mail('kept', 'x'));
  const first = await startSettled(store, user);
  await first.stop();
  const other = new DatabaseSync(join(store.directory, 'search.db'));
  other.exec('pragma locking_mode = exclusive; begin exclusive');
  const failed = Promise.withResolvers<void>();
  const log = { info: () => assert.fail('the index was dropped'), error: () => failed.resolve() };
  const search = startSearch(store, { retryMs: 10, log });
  await failed.promise;
  other.close();
  await settle(search, user);
  assert.deepEqual(await found(search, user, 'kept'), [id]);
});

test('limits of a query name the field', () => {
  const refused = (texts: Parameters<typeof readQuery>[0]) => {
    try {
      readQuery(texts);
    } catch (error) {
      assert.ok(error instanceof Refusal);
      return [error.code, error.errors?.[0]?.field];
    }
    return undefined;
  };
  assert.deepEqual(refused({ text: 'x'.repeat(1_001) }), ['search_too_long', 'text']);
  assert.deepEqual(refused({ subject: '***' }), ['nothing_to_search', 'subject']);
  assert.deepEqual(refused({ body: '' }), ['nothing_to_search', 'body']);
  assert.deepEqual(refused({ from: 'a*' }), ['prefix_too_short', 'from']);
  assert.deepEqual(refused({ text: 'ab* cd* ef* gh* ij*' }), ['too_many_prefixes', 'text']);
  const words = Array.from({ length: 65 }, (_, n) => `w${n}`).join(' ');
  assert.deepEqual(refused({ text: words }), ['too_many_words', 'text']);
  assert.equal(refused({ text: 'ab* word' }), undefined);
});
