import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { constants, DatabaseSync } from 'node:sqlite';
import { suite, test } from 'node:test';
import { sql } from 'kysely';
import { Client } from 'pg';
import { atEnd } from '../../../test/support/at-end.ts';
import { onEachEngine, openTestDatabase } from '../../../test/support/databases.ts';
import { beginAs } from '../../../test/support/older-schema.ts';
import {
  type Database,
  type Engine,
  openPostgres,
  openSqlite,
  refuseUnfit,
  schemaVersions,
} from './database.ts';
import { LATER, migrate, newestSchema, UnfitDatabase } from './migrate.ts';
import { beforeSecond, laterThanSecond } from './migrations/0002.ts';
import { beforeThird } from './migrations/0003.ts';
import { beforeSixth } from './migrations/0006.ts';
import { beforeSeventh } from './migrations/0007.ts';
import { kyselyOn } from './sqlite/driver.ts';

/** The error of a start on a database that these statements changed; undefined where it starts. */
async function startAfter(engine: Engine, ...statements: string[]): Promise<unknown> {
  const { database } = await openTestDatabase(engine);
  await database.write(async (tx) => {
    for (const statement of statements) await sql.raw(statement).execute(tx);
  });
  try {
    await migrate(database.read, database.engine);
    return undefined;
  } catch (error) {
    assert.ok(error instanceof UnfitDatabase, String(error));
    return error.message;
  }
}

/** Replaces all tables by those of release 0.2.0, with one message. */
async function beginAsFirstRelease(database: Database): Promise<void> {
  await beginAs('0001', database, [
    'insert into bodies (id, size) values (1, 2)',
    "insert into mailboxes (id, account_id, name, uidvalidity) values (1, 1, 'INBOX', 7)",
    `insert into messages values (1, 1, 2, 2, '', 2, 0, 1, '{}', '{}')`,
  ]);
}

onEachEngine('a database', (engine) => {
  const next = newestSchema(engine) + 1;
  const name = `${next}`.padStart(4, '0');
  const newer = `insert into kysely_migration (name, timestamp) values ('${name}', 'then')`;
  const forNewer = `update settings set value = '${next}' where name = 'oldest_version'`;

  test('of a newer release that lets this one use it is accepted', async () => {
    const added = [
      'alter table routes add column colour text',
      'create table colours (name text)',
      'drop index deliveries_late',
    ];
    assert.equal(await startAfter(engine, newer, ...added), undefined);
    const said = await startAfter(engine, newer, 'alter table accounts drop column tokens_from');
    assert.match(String(said), /accounts\.tokens_from is missing/);
  });

  test('of a newer release that this one may not use is refused, with what to do', async () => {
    const said = await startAfter(engine, newer, forNewer);
    assert.equal(
      said,
      `the database has schema version ${next}, but this program knows only versions up to ${next - 1}: start the newer program, or restore a backup`,
    );
  });

  test('from before the first release is refused', async () => {
    const said = await startAfter(
      engine,
      "update kysely_migration set name = '0001_first' where name = '0001'",
    );
    assert.match(String(said), /^the database was made before the first release, 0\.2\.0/);
  });

  for (const [statement, difference] of [
    ['alter table accounts drop column tokens_from', 'accounts.tokens_from is missing'],
    ['alter table routes add column colour text', 'routes.colour is not known'],
    ['drop table delivery_payloads', 'table delivery_payloads is missing'],
    ['drop index deliveries_by_public_id', 'index deliveries_by_public_id is missing'],
    ['create view reports as select 1 as one', 'view reports is not known'],
  ] as const) {
    test(`whose schema differs is refused: ${difference}`, async () => {
      const said = await startAfter(engine, statement);
      assert.ok(String(said).includes(`program makes (${difference}):`), String(said));
    });
  }

  test('with a trigger that is named like a table is refused', async () => {
    const statements =
      engine === 'sqlite'
        ? ['create trigger accounts after insert on domains begin select 1; end']
        : [
            'create function nothing() returns trigger language plpgsql as $$ begin return new; end $$',
            'create trigger accounts after insert on domains for each row execute function nothing()',
          ];
    const said = await startAfter(engine, ...statements);
    assert.match(String(said), /trigger accounts is not known/);
  });

  test('with a column of another type is refused', async () => {
    const said = await startAfter(
      engine,
      'alter table routes drop column webhook_url',
      'alter table routes add column webhook_url text not null default 1',
    );
    assert.match(
      String(said),
      /routes\.webhook_url is "text not null default .*" and should be "text"/,
    );
  });

  test('of the first release is migrated, and keeps its data', async () => {
    const { database: before, location } = await openTestDatabase(engine);
    await beginAsFirstRelease(before);
    const database = await (engine === 'sqlite'
      ? openSqlite({ path: location })
      : openPostgres({ url: location, poolSize: 2 }));
    atEnd(() => database.close());
    const kept = await database.read.selectFrom('messages').selectAll().execute();
    const { mailbox_id, uid, body_id, preview, thread_id } = kept[0] ?? {};
    assert.deepEqual(
      [kept.length, mailbox_id, uid, body_id, preview, thread_id],
      [1, 1, 1, 1, null, null],
    );
  });

  test('of version 22 keeps its mail, and none of the answers of IMAP to it', async () => {
    const { database: before, location } = await openTestDatabase(engine);
    await beginAs('0022', before, [
      'insert into bodies (id, size) values (1, 2)',
      "insert into imap_texts (body_id, envelope, structure, search) values (1, 'e', 's', '{}')",
    ]);
    const database = await (engine === 'sqlite'
      ? openSqlite({ path: location })
      : openPostgres({ url: location, poolSize: 2 }));
    atEnd(() => database.close());
    const { read } = database;
    assert.deepEqual(await read.selectFrom('imap_texts').selectAll().execute(), []);
    assert.equal((await read.selectFrom('bodies').select('id').execute()).length, 1);
  });

  test('of version 4 keeps the keys of requests, which are removed after their accounts, and not with them', async () => {
    const { database: before, location } = await openTestDatabase(engine);
    await beginAs('0004', before, [
      `insert into domains (id, user_id, name, status, dkim_selector, dkim_private_key, created_at, next_check_at)
        values (1, 'u', 'acme.test', 'active', 's', 'k', 0, 0)`,
      ...['ada', 'ben'].map(
        (name, index) =>
          `insert into accounts (id, domain_id, user_id, domain_name, local_part, display_name, status, password_hash,
            credential_version, created_at, tokens_from)
            values (${index + 1}, 1, 'u', 'acme.test', '${name}', '', 'active', '', 1, 0, 0)`,
      ),
      "insert into idempotency_keys values (7, 1, 'k', 'hash', 201, '{}', 5)",
      "insert into idempotency_keys values (9, 2, 'k', null, null, null, 6)",
    ]);
    const database = await (engine === 'sqlite'
      ? openSqlite({ path: location })
      : openPostgres({ url: location, poolSize: 2 }));
    atEnd(() => database.close());
    const read = () =>
      database.read.selectFrom('idempotency_keys').selectAll().orderBy('id').execute();
    const ofBen = {
      ...{ id: 9, account_id: 2, scope: null, key: 'k' },
      ...{ request_hash: null, status: null, answer: null, started_at: 6 },
    };
    const ofAda = {
      ...ofBen,
      id: 7,
      account_id: 1,
      request_hash: 'hash',
      status: 201,
      answer: '{}',
    };
    assert.deepEqual(await read(), [{ ...ofAda, started_at: 5 }, ofBen]);
    await database.write((tx) => tx.deleteFrom('accounts').where('id', '=', 1).execute());
    assert.equal((await read()).length, 2);
    const again = database.write((tx) =>
      tx
        .insertInto('idempotency_keys')
        .values({ account_id: 2, key: 'k', started_at: 0 })
        .execute(),
    );
    await assert.rejects(again, /unique/i);
  });

  test('of an older release whose schema differs is refused, and not migrated', async () => {
    const { database, location } = await openTestDatabase(engine);
    await beginAsFirstRelease(database);
    await database.write((tx) => sql`alter table routes add column colour text`.execute(tx));
    const said = await refuseUnfit(database).catch(String);
    assert.match(String(said), /differs from .* \(routes\.colour is not known\): restore a backup/);
    const opening =
      engine === 'sqlite' ? openSqlite({ path: location }) : openPostgres({ url: location });
    await assert.rejects(opening, { message: String(said).replace('UnfitDatabase: ', '') });
    assert.equal((await schemaVersions(database)).version, 1);
    await database.write((tx) => sql`alter table routes drop column colour`.execute(tx));
    assert.equal(await refuseUnfit(database), undefined);
  });

  test('with a table and an index of the operator is accepted', async () => {
    const said = await startAfter(
      engine,
      'create table notes (accounts text)',
      'create index notes_of_mine on accounts (display_name)',
    );
    assert.equal(said, undefined);
  });
});

const skip = process.env.TEST_DATABASE_URL === undefined && 'TEST_DATABASE_URL is not set';

/** Another program's connection to a database. */
async function connectTo(connectionString: string): Promise<Client> {
  const client = new Client({ connectionString });
  await client.connect();
  atEnd(() => client.end());
  return client;
}

suite('a database on PostgreSQL', { skip }, () => {
  test('of the first release is migrated while the old program writes and a table is in use', async () => {
    const { database: before, location } = await openTestDatabase('postgres');
    await beginAsFirstRelease(before);
    const [reader, writer] = [await connectTo(location), await connectTo(location)];
    await reader.query('begin');
    await reader.query('select count(*) from messages');
    let written = 0;
    let isMigrated = false;
    const write = async () => {
      while (!isMigrated || written < 10) {
        const uid = 2 + written;
        const both = [
          `insert into messages (mailbox_id, uid, created_modseq, modseq, flags, size, internal_date, body_id, envelope,
            structure) values (1, ${uid}, ${uid}, ${uid}, '', 2, 0, 1, '{}', '{}')`,
          `insert into deliveries (kind, domain_id, destination, body_id, public_id, status, next_attempt_at, created_at,
            updated_at) values ('webhook', 1, 'somewhere', 1, 'id${uid}', 'queued', 0, 0, 0)`,
        ];
        // In either order: neither way may it wait for a table while the migration waits for the other.
        if (written % 2 === 1) both.reverse();
        for (const statement of ['begin', ...both, 'commit']) await writer.query(statement);
        written++;
      }
    };
    const steps: string[] = [];
    let rolledBack: Promise<unknown> | undefined;
    const onMigration = (line: string) => {
      steps.push(line);
      if (line.includes('a table was in use')) rolledBack ??= reader.query('rollback');
    };
    const migrating = openPostgres({ url: location, poolSize: 2, onMigration }).finally(() => {
      isMigrated = true;
    });
    const [database] = await Promise.all([migrating, write()]);
    atEnd(() => database.close());
    await rolledBack;
    assert.match(steps[0] ?? '', /^the schema was not changed: a table was in use for 2 s/);
    const made = steps.filter((line) => line.startsWith('making index'));
    const isFirst = made[0]?.includes('domains_by_status');
    assert.ok(isFirst && made.length === LATER.indexes.length, steps.join('\n'));
    const { rows } = await writer.query('select count(*) as rows from deliveries');
    assert.equal(Number(rows[0].rows), written);
  });

  test('is accepted at every step at which its migration may have been cut short', async () => {
    const { database } = await openTestDatabase('postgres');
    await beginAsFirstRelease(database);
    for (const statement of [...beforeSecond, ...beforeThird, ...beforeSixth, ...beforeSeventh]) {
      await sql.raw(statement).execute(database.read);
      assert.equal(await refuseUnfit(database), undefined, statement);
    }
    await migrate(database.read, 'postgres');
    // The second was cut short before its work after the transaction, by a program that did not know the next ones.
    await sql`delete from kysely_migration where name > '0002'`.execute(database.read);
    for (const name of [
      'deliveries_open',
      'deliveries_lanes',
      'domains_due',
      'dns_records_unsigned',
      'dns_records_failed',
    ]) {
      await sql`drop index ${sql.table(name)}`.execute(database.read);
    }
    const [, again] = Object.entries(laterThanSecond.checks)[0] ?? [];
    await sql`alter table deliveries drop constraint ${sql.ref(again ?? '')},
      add constraint ${sql.ref(again ?? '')} check (held_by in ('operator', 'suspension')) not valid`.execute(
      database.read,
    );
    assert.equal(await refuseUnfit(database), undefined);
    await sql`drop index deliveries_by_public_id`.execute(database.read);
    await assert.rejects(refuseUnfit(database), /index deliveries_by_public_id is missing/);
  });

  test('an index that a migration dropped is not made again, whether it was ever made or not', async () => {
    for (const version of ['0001', '0020']) {
      const { database } = await openTestDatabase('postgres');
      await beginAs(version, database, []);
      for (let times = 0; times < 2; times++) {
        await migrate(database.read, 'postgres', (line) =>
          assert.doesNotMatch(line, /deliveries_by_receiver/),
        );
      }
      const { rows } = await sql`select 1 from pg_indexes
        where schemaname = current_schema() and indexname = 'deliveries_by_receiver'`.execute(
        database.read,
      );
      assert.deepEqual(rows, []);
    }
  });

  test('of version 5 is accepted, and migrated, where the change of the sixth was cut short', async () => {
    const { database } = await openTestDatabase('postgres');
    await beginAs('0005', database, []);
    for (let times = 0; times < 2; times++) {
      for (const statement of beforeSixth) await sql.raw(statement).execute(database.read);
      assert.equal(await refuseUnfit(database), undefined);
    }
    await migrate(database.read, 'postgres');
    assert.equal((await schemaVersions(database)).version, newestSchema('postgres'));
  });

  test('gets an index again that a killed migration left unfinished', async () => {
    const { database, location } = await openTestDatabase('postgres');
    const [writer, killed] = [await connectTo(location), await connectTo(location)];
    await killed.query('drop index deliveries_open');
    // Making an index waits for writers of its table: if it is cut short then, it exists but is not valid.
    await writer.query('begin; lock table deliveries in row exclusive mode');
    await killed.query('set statement_timeout = 500');
    const made = killed.query('create index concurrently deliveries_open on deliveries (kind)');
    await assert.rejects(made, /statement timeout/);
    await writer.query('rollback');
    // The next start makes it: until then nothing is wrong with the database.
    assert.equal(await refuseUnfit(database), undefined);
    assert.equal(await migrate(database.read, 'postgres'), undefined);
    const { rows } = await writer.query(
      "select indisvalid from pg_index where indexrelid = 'deliveries_open'::regclass",
    );
    assert.deepEqual(rows, [{ indisvalid: true }]);
  });
});

test('a migration on SQLite is done with all that belongs to it, or not at all', async () => {
  using db = new DatabaseSync(':memory:');
  const kysely = kyselyOn(db);
  const isNoted = () => db.prepare("select 1 from settings where name = 'oldest_version'").all();
  // As a kill would, between the last migration and the note of who may use it.
  db.setAuthorizer((action, table) =>
    action === constants.SQLITE_INSERT && table === 'settings'
      ? constants.SQLITE_DENY
      : constants.SQLITE_OK,
  );
  await assert.rejects(migrate(kysely, 'sqlite'), /not authorized/);
  db.setAuthorizer(null);
  assert.deepEqual(db.prepare('select name from sqlite_schema').all(), []);
  await migrate(kysely, 'sqlite');
  assert.equal(isNoted().length, 1);
});

/** Freezes migrations: `migrations/released.json` has the SHA-256 of each: `{"0001.ts": "..."}`. */
test('a migration that is on main is never edited', () => {
  const folder = new URL('./migrations/', import.meta.url);
  const read = (name: string) => readFileSync(new URL(name, folder), 'utf8');
  const recorded: Record<string, string> = JSON.parse(read('released.json'));
  for (const [name, digest] of Object.entries(recorded)) {
    const found = createHash('sha256').update(read(name)).digest('hex');
    assert.equal(found, digest, `people run ${name}: make a new migration instead`);
  }
  const files = readdirSync(folder).filter((name) => name.endsWith('.ts'));
  assert.deepEqual(Object.keys(recorded), files, 'record the digest of the new migration');
});

test('the version is that of the newest section of the changelog', () => {
  const read = (name: string) => readFileSync(new URL(`../../../${name}`, import.meta.url), 'utf8');
  const { version } = JSON.parse(read('package.json'));
  const [, section = ''] = /^## (\S+)/m.exec(read('CHANGELOG.md')) ?? [];
  if (section === 'Unreleased') assert.match(version, /^\d+\.\d+\.0-dev$/);
  else assert.equal(version, section);
});
