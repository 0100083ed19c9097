/** What the thread of checkpoints.ts runs: moves the log into the database file when it is asked to. */
import { DatabaseSync } from 'node:sqlite';
import { parentPort, workerData } from 'node:worker_threads';
import type { CheckpointAnswer } from './checkpoints.ts';

const port = parentPort;
if (!port) throw new Error('this file is run as a thread');
const db = new DatabaseSync(String(workerData));
// Passive: it waits for nobody, and nobody for it.
const checkpoint = db.prepare('pragma wal_checkpoint(passive)');
port.on('message', () => {
  let failure: string | undefined;
  try {
    checkpoint.get();
  } catch (error) {
    // A full disk, say: the log keeps what it has, and the next try comes when it has grown.
    failure = String(error);
  }
  port.postMessage({ failure } satisfies CheckpointAnswer);
});
