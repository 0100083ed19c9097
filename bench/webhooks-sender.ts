/**
 * Worker: brings webhooks to a receiver, by the queue on a fresh data folder (queued, leased, signed,
 * sent, written off), or as a reference by plain requests with nothing around them.
 */
import { join } from 'node:path';
import { Agent } from 'undici';
import { type NewDelivery, Queue } from '../src/mail/queue/queue.ts';
import { createWebhookSender, webhookDestination } from '../src/mail/webhooks/webhooks.ts';
import { Bodies, BodyFolder } from '../src/mailboxes/bodies/bodies.ts';
import { openSqlite } from '../src/platform/database/database.ts';
import { createAddressFilter } from '../src/platform/net/net.ts';
import { insertDomainAndBody, quiet } from './queue-worker.ts';
import { makeFolder, removeFolder } from './support/folders.ts';
import { type MemoryUse, measureMemory } from './support/memory.ts';
import { answerTasks } from './support/worker.ts';

export interface FanOut {
  readonly how: 'queue' | 'plain';
  readonly url: string;
  readonly deliveries: number;
  /** Requests under way at a time. */
  readonly inFlight: number;
}

export interface FannedOut {
  readonly perSecond: number;
  /** When all is done. */
  readonly memory: MemoryUse;
}

const SECRET = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
const BODY = JSON.stringify({
  type: 'message.received',
  timestamp: '2026-01-01T00:00:00.000Z',
  data: { subject: 'Bench', text: 'Hello there. '.repeat(150), html: '<p>Hello</p>'.repeat(100) },
});
/** Messages that are accepted at the same time: their commits are shared. */
const ACCEPTED_AT_ONCE = 64;

async function byQueue({ url, deliveries, inFlight }: FanOut): Promise<number> {
  const folder = makeFolder();
  const database = await openSqlite({ path: join(folder, 'queue.sqlite') });
  const bodies = new Bodies({ database, store: new BodyFolder(join(folder, 'bodies')) });
  const ids = await insertDomainAndBody(database, bodies);
  const queue = new Queue({ database, log: quiet });
  const sender = createWebhookSender({
    filter: createAddressFilter(['127.0.0.0/8']),
    resolve: async () => ['127.0.0.1'],
  });
  const done = Promise.withResolvers<void>();
  let left = deliveries;
  queue.work({
    kind: 'webhook',
    payloads: { read: (json) => json },
    perDestination: inFlight,
    delays: [],
    attempt: (job, signal) =>
      sender.attempt({ url, secrets: [SECRET], id: job.publicId, body: job.payload }, signal),
    async onOutcome(_, __, { status }) {
      if (status === 'failed') done.reject(new Error('a delivery failed'));
      return () => {
        if (--left === 0) done.resolve();
      };
    },
  });
  const destination = webhookDestination(url);
  const delivery: NewDelivery = { ...ids, kind: 'webhook', destination, payload: BODY };
  const from = performance.now();
  for (let at = 0; at < deliveries; at += ACCEPTED_AT_ONCE) {
    const accepted = Array.from({ length: Math.min(ACCEPTED_AT_ONCE, deliveries - at) }, () =>
      database.write((tx) => queue.enqueue(tx, delivery)),
    );
    await Promise.all(accepted);
    queue.wake([delivery]);
  }
  await done.promise;
  const seconds = (performance.now() - from) / 1_000;
  await queue.stop(1_000);
  await sender.close();
  await database.close();
  removeFolder(folder);
  return deliveries / seconds;
}

async function plain({ url, deliveries, inFlight }: FanOut): Promise<number> {
  const agent = new Agent({ connections: inFlight, pipelining: 1 });
  const { origin, pathname } = new URL(url);
  let left = deliveries;
  const from = performance.now();
  const send = async () => {
    while (left-- > 0) {
      const headers = { 'content-type': 'application/json' };
      const path = pathname;
      const { body } = await agent.request({ origin, path, method: 'POST', headers, body: BODY });
      await body.dump();
    }
  };
  await Promise.all(Array.from({ length: inFlight }, send));
  const seconds = (performance.now() - from) / 1_000;
  await agent.close();
  return deliveries / seconds;
}

answerTasks(async (task: FanOut): Promise<FannedOut> => {
  const perSecond = await (task.how === 'queue' ? byQueue(task) : plain(task));
  return { perSecond, memory: await measureMemory() };
});
