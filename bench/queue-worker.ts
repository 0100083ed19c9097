/**
 * Worker: a queue on a fresh data folder that holds so many deliveries all the time; half of them wait
 * for a dead receiver, the rest are due at ten live ones. Answers with what one delivery costs.
 */

import { join } from 'node:path';
import { type NewDelivery, Queue } from '../src/mail/queue/queue.ts';
import { Bodies, BodyFolder } from '../src/mailboxes/bodies/bodies.ts';
import { type Database, openSqlite } from '../src/platform/database/database.ts';
import { insertDomain, USER_ID } from './support/domain.ts';
import { makeFolder, removeFolder } from './support/folders.ts';
import { answerTasks } from './support/worker.ts';

export interface QueueLoad {
  /** Deliveries that are queued all the time. */
  readonly queued: number;
  /** Deliveries that are made and measured. */
  readonly deliveries: number;
}

export interface QueueCost {
  /** Milliseconds that one delivery took, of all that went on at once. */
  readonly ms: number;
  /** Milliseconds of processor time. */
  readonly cpuMs: number;
}

const LIVE = 10;
const AT_ONCE = 500;
const HOUR_MS = 3_600_000;
const PAYLOAD = JSON.stringify({ url: 'http://hooks.test/', body: 'x'.repeat(2_000) });

/** Inserts what the row of a delivery names. */
export async function insertDomainAndBody(database: Database, bodies: Bodies) {
  return database.write(async (tx) => {
    const domainId = await insertDomain(tx);
    const bodyId = await bodies.commit(tx, { size: 2, content: Buffer.from('hi') });
    return { userId: USER_ID, domainId, bodyId };
  });
}

export const quiet = { warn: () => {}, error: (fields: object) => console.error(fields) };

async function measure({ queued, deliveries }: QueueLoad): Promise<QueueCost> {
  const folder = makeFolder();
  const database = await openSqlite({ path: join(folder, 'queue.sqlite') });
  const bodies = new Bodies({ database, store: new BodyFolder(join(folder, 'bodies')) });
  const ids = await insertDomainAndBody(database, bodies);
  const queue = new Queue({ database, log: quiet });
  const delivery = (destination: string): NewDelivery => ({
    ...ids,
    kind: 'bench',
    destination,
    payload: PAYLOAD,
  });
  const live = (n: number) => delivery(`live${n % LIVE}`);
  const dead = { ...delivery('dead'), notBefore: Date.now() + HOUR_MS };
  for (let at = 0; at < queued; at += AT_ONCE) {
    await database.write(async (tx) => {
      for (let n = 0; n < AT_ONCE; n++) await queue.enqueue(tx, n % 2 === 0 ? dead : live(at + n));
    });
  }
  const warmUp = Math.floor(deliveries / 10);
  const done = Promise.withResolvers<QueueCost>();
  let count = 0;
  let from = performance.now();
  let cpuFrom = process.cpuUsage();
  queue.work({
    kind: 'bench',
    payloads: { read: (json) => json },
    delays: [],
    attempt: async () => ({ result: 'delivered' }),
    // Each that goes is followed by one that comes.
    async onOutcome(tx, job) {
      const next = delivery(job.destination);
      await queue.enqueue(tx, next);
      return () => {
        queue.wake([next]);
        count++;
        if (count === warmUp) {
          from = performance.now();
          cpuFrom = process.cpuUsage();
        }
        if (count !== warmUp + deliveries) return;
        const { user, system } = process.cpuUsage(cpuFrom);
        const ms = (performance.now() - from) / deliveries;
        done.resolve({ ms, cpuMs: (user + system) / 1_000 / deliveries });
      };
    },
  });
  const cost = await done.promise;
  await queue.stop(1_000);
  await database.close();
  removeFolder(folder);
  return cost;
}

answerTasks(measure);
