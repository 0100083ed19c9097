/** The thread of checkpoints.ts: it moves the log into the database file on request. */
import { DatabaseSync } from 'node:sqlite';
import { workerData } from 'node:worker_threads';
import { answerRequests } from '../../threads/threads.ts';
import type { CheckpointAnswer, CheckpointRequest } from './checkpoints.ts';

const db = new DatabaseSync(String(workerData));
db.exec('pragma wal_autocheckpoint = 0');
// FULL is the default as well: both files are synced before a page counts as moved.
db.exec('pragma synchronous = full');
// Passive: it waits for no other connection, and none waits for it.
const checkpoint = db.prepare('pragma wal_checkpoint(passive)');

function answer(request: CheckpointRequest): CheckpointAnswer {
  try {
    if (request === 'move') checkpoint.get();
    else db.close();
    return {};
  } catch (error) {
    const errcode = error instanceof Error && 'errcode' in error ? Number(error.errcode) : 0;
    return { failure: { message: String(error), errcode } };
  }
}

answerRequests(answer);
