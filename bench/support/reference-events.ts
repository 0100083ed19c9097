/** Worker, reference: the signature and the parsing of batches alone. Answers events per second. */
import { signBatch, writeBatch } from './event-batches.ts';
import { answerTasks } from './worker.ts';

export interface BatchesToRead {
  readonly users: readonly string[];
  readonly batches: number;
  readonly lines: number;
}

answerTasks(async ({ users, batches, lines }: BatchesToRead) => {
  const bodies = Array.from({ length: batches }, (_, round) =>
    Buffer.from(writeBatch(users, lines, round)),
  );
  let events = 0;
  const from = performance.now();
  for (const body of bodies) {
    if (signBatch(body).length !== 64) throw new Error('not a signature');
    for (const line of body.toString().split('\n')) {
      if (line !== '' && 'event_id' in JSON.parse(line)) events++;
    }
  }
  return (events / (performance.now() - from)) * 1000;
});
