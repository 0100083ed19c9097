/**
 * What the thread of the index runs: it owns `search.db`. It makes terms, writes them, and answers
 * queries between two batches.
 */
import { rmSync } from 'node:fs';
import { DatabaseSync } from 'node:sqlite';
import { parentPort, workerData } from 'node:worker_threads';
import { documentTexts, type FindRequest, type SearchChange } from './documents.ts';
import type { Opened, ThreadAnswer, ThreadRequest, ThreadStart } from './sqlite-index.ts';
import {
  addDocument,
  claimIndex,
  findHits,
  forgetAccount,
  prepareIndex,
  readState,
  removeDocument,
  writeState,
} from './sqlite-statements.ts';
import { documentTerms } from './terms.ts';

/** Documents of an account that is gone, in one transaction: a larger one would hold up queries. */
const FORGET_AT_A_TIME = 500;

const { path, storeId } = workerData as ThreadStart;

/** Opens the index that is there, or a new one where it cannot be used. */
function openIndex(): { db: DatabaseSync; opened: Opened } {
  let reason: string;
  try {
    const { db, fits } = openFile();
    if (fits) return { db, opened: { position: positionIn(db), filled: isFilled(db) } };
    db.close();
    reason = 'it belongs to another database, or an earlier version made it';
  } catch (error) {
    reason = String(error);
  }
  for (const end of ['', '-wal', '-shm']) rmSync(path + end, { force: true });
  const { db } = openFile();
  return { db, opened: { position: 0, filled: false, dropped: reason } };
}

function openFile(): { db: DatabaseSync; fits: boolean } {
  const db = new DatabaseSync(path);
  try {
    prepareIndex(db);
    return { db, fits: claimIndex(db, storeId) };
  } catch (error) {
    db.close();
    throw error;
  }
}

function positionIn(db: DatabaseSync): number {
  return Number(readState(db, 'position') ?? 0);
}

function isFilled(db: DatabaseSync): boolean {
  return readState(db, 'filled') === 'yes';
}

const { db, opened } = openIndex();

/** The last transaction has the position in it: a crash repeats changes, and misses none. */
function apply(changes: readonly SearchChange[], position: number): void {
  const writes: (() => void)[] = [];
  const writeAll = () => {
    for (const write of writes.splice(0)) write();
  };
  for (const change of changes) {
    if (change.kind === 'add') {
      const { accountId, bodyId, date } = change.document;
      const terms = documentTerms(accountId, documentTexts(change.document));
      writes.push(() => addDocument(db, { accountId, bodyId, date }, terms));
    } else if (change.kind === 'remove') {
      writes.push(() => removeDocument(db, change.accountId, change.bodyId));
    } else {
      inTransaction(writeAll);
      while (inTransaction(() => forgetAccount(db, change.accountId, FORGET_AT_A_TIME)) > 0);
    }
  }
  inTransaction(() => {
    writeAll();
    writeState(db, 'position', String(position));
  });
}

function inTransaction<T>(work: () => T): T {
  db.exec('begin immediate');
  try {
    const result = work();
    db.exec('commit');
    return result;
  } catch (error) {
    db.exec('rollback');
    throw error;
  }
}

/** Brings all of the log to the file and the disk. What was applied before is never repeated then. */
function sync(): number {
  const position = positionIn(db);
  const { busy } = db.prepare('pragma wal_checkpoint(truncate)').get() ?? {};
  if (busy !== 0) throw new Error('the index could not be checkpointed');
  return position;
}

function answer(request: ThreadRequest): unknown {
  switch (request.kind) {
    case 'open':
      return opened;
    case 'apply':
      return apply(request.changes, request.position);
    case 'find':
      return findHits(db, request.find satisfies FindRequest);
    case 'filled':
      return inTransaction(() => writeState(db, 'filled', 'yes'));
    case 'sync':
      return sync();
    case 'close':
      sync();
      return db.close();
  }
}

const port = parentPort;
if (!port) throw new Error('this file is run as a thread');
port.on('message', (request: ThreadRequest & { readonly id: number }) => {
  const { id } = request;
  let said: ThreadAnswer;
  try {
    said = { id, value: answer(request) };
  } catch (error) {
    said = { id, failure: String(error) };
  }
  port.postMessage(said);
});
