/**
 * The index on SQLite: `search.db` beside the mail's database, a file of its own since writing it would block the
 * mail's only writer for up to 0.9 s.
 *
 * `terms` is FTS5 without the text (`content=''`) and without positions (`detail=none`): half the size of the text.
 * `documents` says which message a row belongs to. `state` has the last processed position of the queue, written in
 * the transaction of the changes themselves.
 */
import { DatabaseSync, type StatementSync } from 'node:sqlite';
import type { FindRequest, Hit } from './documents.ts';
import { indexedForms, type QueryTerm, TERMS_VERSION } from './terms.ts';

const SCHEMA = `
  create virtual table terms using fts5(
    t, content='', contentless_delete=1, detail=none, tokenize="ascii tokenchars '_'"
  );
  insert into terms(terms, rank) values('automerge', 8);
  create table documents (
    id integer primary key autoincrement,
    account_id integer not null,
    body_id integer not null,
    date integer not null,
    unique (account_id, body_id)
  );
  create table state (name text primary key, value text not null) without rowid;
`;

/**
 * Opens a new or existing file.
 *
 * With big integers: FTS5 notes removals in a table of its own, under ids above 2^53 where they are the first of a
 * segment. Node reads the last id that was inserted after any statement, and throws where it is too large for a number.
 */
export function openIndexFile(path: string): DatabaseSync {
  const db = new DatabaseSync(path, { readBigInts: true });
  try {
    prepareIndex(db);
  } catch (error) {
    db.close();
    throw error;
  }
  return db;
}

function prepareIndex(db: DatabaseSync): void {
  db.exec('pragma page_size = 8192');
  db.exec('pragma journal_mode = wal');
  // A power cut undoes the last changes together with their position: they are made again.
  db.exec('pragma synchronous = normal');
  db.exec('pragma cache_size = -32000');
  // Checkpoints are made only where the result is known afterwards (see the thread).
  db.exec('pragma wal_autocheckpoint = 0');
  const { count } = db.prepare('select count(*) as count from sqlite_schema').get() ?? {};
  if (count !== 0n) return;
  db.exec(`begin; ${SCHEMA} commit`);
}

/** By file, then by text, which SQLite would parse each time. */
const prepared = new WeakMap<DatabaseSync, Map<string, StatementSync>>();

function prepare(db: DatabaseSync, text: string): StatementSync {
  const known = prepared.get(db) ?? new Map<string, StatementSync>();
  prepared.set(db, known);
  const statement = known.get(text) ?? db.prepare(text);
  known.set(text, statement);
  return statement;
}

/** Whether the index belongs to this store and has terms of this version; a new one gets both. */
export function claimIndex(db: DatabaseSync, storeId: string): boolean {
  const identity = `${storeId} ${TERMS_VERSION}`;
  const known = readState(db, 'identity');
  if (known === undefined) writeState(db, 'identity', identity);
  return known === undefined || known === identity;
}

export function readState(db: DatabaseSync, name: string): string | undefined {
  const value = prepare(db, 'select value from state where name = ?').get(name)?.value;
  return value === undefined ? undefined : String(value);
}

export function writeState(db: DatabaseSync, name: string, value: string): void {
  prepare(
    db,
    'insert into state (name, value) values (?, ?) on conflict (name) do update set value = excluded.value',
  ).run(name, value);
}

export function addDocument(
  db: DatabaseSync,
  document: { readonly accountId: number; readonly bodyId: number; readonly date: number },
  terms: readonly string[],
): void {
  const added = prepare(
    db,
    'insert into documents (account_id, body_id, date) values (?, ?, ?) on conflict do nothing returning id',
  ).get(document.accountId, document.bodyId, document.date);
  if (!added) return;
  prepare(db, 'insert into terms (rowid, t) values (?, ?)').run(Number(added.id), terms.join(' '));
}

const REMOVE = 'delete from terms where rowid = ?';

export function removeDocument(db: DatabaseSync, accountId: number, bodyId: number): void {
  const gone = prepare(
    db,
    'delete from documents where account_id = ? and body_id = ? returning id',
  ).get(accountId, bodyId);
  if (gone) prepare(db, REMOVE).run(Number(gone.id));
}

/** @returns how many documents were removed; fewer than `most` when none is left */
export function forgetAccount(db: DatabaseSync, accountId: number, most: number): number {
  const gone = prepare(
    db,
    'delete from documents where id in (select id from documents where account_id = ? limit ?) returning id',
  ).all(accountId, most);
  const remove = prepare(db, REMOVE);
  for (const { id } of gone) remove.run(Number(id));
  return gone.length;
}

/** Newest first by date, not by id: old mail may have been imported later. */
export function findHits(db: DatabaseSync, { accountId, terms, after, limit }: FindRequest): Hit[] {
  const rows = prepare(
    db,
    `select d.id, d.body_id, d.date from terms cross join documents d on d.id = terms.rowid
       where terms match ? and (d.date, d.id) < (?, ?) order by d.date desc, d.id desc limit ?`,
  ).all(
    matchOf(accountId, terms),
    after?.date ?? Number.MAX_SAFE_INTEGER,
    after?.id ?? Number.MAX_SAFE_INTEGER,
    limit,
  );
  return rows.map(({ id, body_id, date }) => ({
    id: Number(id),
    bodyId: Number(body_id),
    date: Number(date),
  }));
}

/**
 * The expression for FTS5. Nothing that a user typed is read as its syntax: a term is in quotes, and has only letters,
 * digits, marks and pictographs.
 */
function matchOf(accountId: number, terms: readonly QueryTerm[]): string {
  const anyOf = (term: QueryTerm) =>
    indexedForms(accountId, term).map((form) => `"${form}"${term.prefix ? '*' : ''}`);
  return terms.map((term) => `(${anyOf(term).join(' OR ')})`).join(' AND ');
}
