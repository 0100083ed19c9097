/** The thread of checkpoints.ts: it moves the log into the database file on request. */
import { DatabaseSync } from 'node:sqlite';
import { parentPort, workerData } from 'node:worker_threads';
import type { CheckpointAnswer, CheckpointRequest } from './checkpoints.ts';

const port = parentPort;
if (!port) throw new Error('this file is run as a thread');
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

port.on('message', (request: CheckpointRequest) => port.postMessage(answer(request)));
