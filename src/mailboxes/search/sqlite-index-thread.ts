/**
 * The thread of the index: it owns `search.db`. It makes terms, writes them, and answers queries between two batches.
 */
import { rmSync } from 'node:fs';
import type { DatabaseSync } from 'node:sqlite';
import { workerData } from 'node:worker_threads';
import { answerRequests } from '../../platform/threads/threads.ts';
import {
  type FindRequest,
  FORGET_AT_A_TIME,
  type SearchChange,
  tryTerms,
  type Unreadable,
} from './documents.ts';
import type { Applied, Opened, ThreadRequest, ThreadStart } from './sqlite-index.ts';
import {
  addDocument,
  claimIndex,
  findHits,
  forgetAccount,
  openIndexFile,
  readState,
  removeDocument,
  writeState,
} from './sqlite-statements.ts';

const {
  path,
  mail: { storeId, queue },
} = workerData as ThreadStart;

/** Opens the existing index, or a new one where it cannot be used. */
function openIndex(): { db: DatabaseSync; dropped?: string } {
  let dropped = 'it belongs to another database or another time of it, or another version made it';
  try {
    const { db, fits } = openFile();
    if (fits) return { db };
    db.close();
  } catch (error) {
    // An intact index must not be deleted because of, for example, a full disk.
    if (!isDamage(error) && codeOf(error) !== SQLITE_ERROR) throw error;
    dropped = String(error);
  }
  removeFiles();
  return { db: openFile().db, dropped };
}

function openFile(): { db: DatabaseSync; fits: boolean } {
  const db = openIndexFile(path);
  try {
    return { db, fits: claimIndex(db, storeId) && isInStep(db) };
  } catch (error) {
    db.close();
    throw error;
  }
}

function removeFiles(): void {
  for (const end of ['', '-wal', '-shm']) rmSync(path + end, { force: true });
}

/** Result codes of SQLite (its rescode.html); when the file is opened, the first means other tables. */
const SQLITE_ERROR = 1;
const SQLITE_CORRUPT = 11;
const SQLITE_NOTADB = 26;

/** The primary result code; undefined where the error is not SQLite's. */
function codeOf(error: unknown): number | undefined {
  if (!(error instanceof Error) || !('errcode' in error)) return undefined;
  return Number(error.errcode) & 0xff;
}

function isDamage(error: unknown): boolean {
  const code = codeOf(error);
  return code === SQLITE_CORRUPT || code === SQLITE_NOTADB;
}

/**
 * Whether the index and the mail's database belong to the same time. If one of them is an older copy, rows are missing
 * that this index never saw, or ids come again that it has passed.
 */
function isInStep(db: DatabaseSync): boolean {
  const position = positionIn(db);
  return !isFilled(db) || (queue.before <= position && position <= queue.last);
}

function positionIn(db: DatabaseSync): number {
  return Number(readState(db, 'position') ?? 0);
}

function isFilled(db: DatabaseSync): boolean {
  return readState(db, 'filled') === 'yes';
}

const { db, dropped } = openIndex();

/**
 * One transaction, which also writes the position: a crash repeats changes, and misses none. Of deleted accounts only some
 * documents are removed: the position stays before an account that has more.
 */
function apply(changes: readonly SearchChange[], last: number): Applied {
  return inTransaction(() => {
    const unreadable: Unreadable[] = [];
    const unfinished: number[] = [];
    let most = FORGET_AT_A_TIME;
    let position = last;
    for (const change of changes) {
      if (change.kind === 'add') {
        const { terms, unreadable: failed } = tryTerms(change.document);
        addDocument(db, change.document, terms);
        if (failed) unreadable.push(failed);
      } else if (change.kind === 'remove') {
        removeDocument(db, change.accountId, change.bodyId);
      } else {
        most -= forgetAccount(db, change.accountId, most);
        if (most > 0) continue;
        unfinished.push(change.accountId);
        position = Math.min(position, change.row - 1);
      }
    }
    writeState(db, 'position', String(position));
    return { unfinished, unreadable };
  });
}

function inTransaction<T>(work: () => T): T {
  db.exec('begin immediate');
  try {
    const result = work();
    db.exec('commit');
    return result;
  } catch (error) {
    // On a full disk SQLite may have ended it itself.
    if (db.isTransaction) db.exec('rollback');
    throw error;
  }
}

/** Syncs the whole log into the file. Changes from before this are never repeated. */
function sync(): number {
  const position = positionIn(db);
  const { busy } = db.prepare('pragma wal_checkpoint(truncate)').get() ?? {};
  if (busy !== 0n) throw new Error('the index could not be checkpointed');
  return position;
}

function answer(request: ThreadRequest): unknown {
  switch (request.kind) {
    case 'open':
      return {
        position: positionIn(db),
        filled: isFilled(db),
        ...(dropped !== undefined && { dropped }),
      } satisfies Opened;
    case 'apply':
      return apply(request.changes, request.position);
    case 'find':
      return findHits(db, request.find satisfies FindRequest);
    case 'filled':
      return inTransaction(() => {
        writeState(db, 'position', String(request.position));
        writeState(db, 'filled', 'yes');
      });
    case 'sync':
      return sync();
    case 'close':
      sync();
      return db.close();
  }
}

/** A part of a damaged file may be intact, but the whole is given up. The next thread makes a new one. */
function endsIt(error: unknown): boolean {
  if (!isDamage(error) || !db.isOpen) return false;
  db.close();
  removeFiles();
  return true;
}

answerRequests(answer, undefined, endsIt);
