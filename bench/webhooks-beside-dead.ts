/**
 * Worker: a queue full of webhooks for receivers that are dead, and now and then one for a live
 * receiver. Answers with how long those took from their commit to their end.
 */
import { once } from 'node:events';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { type NewDelivery, Queue } from '../src/mail/queue/queue.ts';
import {
  createWebhookSender,
  webhookDelays,
  webhookDestination,
} from '../src/mail/webhooks/webhooks.ts';
import { Bodies, BodyFolder } from '../src/mailboxes/bodies/bodies.ts';
import { openSqlite } from '../src/platform/database/database.ts';
import { createAddressFilter } from '../src/platform/net/net.ts';
import { insertDomainAndBody, quiet } from './queue-worker.ts';
import { makeFolder, removeFolder } from './support/folders.ts';
import { findFreePort, portOf } from './support/ports.ts';
import { answerTasks } from './support/worker.ts';

export interface BesideDead {
  /** Where the live ones go. */
  readonly url: string;
  readonly live: number;
  /** Webhooks that wait for receivers that take the connection and stay silent, or refuse it. */
  readonly dead: number;
  readonly manner: 'silent' | 'refusing';
}

const LIVE_EVERY_MS = 10;
const DEAD_TIMEOUT_MS = 1_000;
const AT_ONCE = 500;

answerTasks(async ({ url, live, dead, manner }: BesideDead): Promise<number[]> => {
  const folder = makeFolder();
  const database = await openSqlite({ path: join(folder, 'queue.sqlite') });
  const bodies = new Bodies({ database, store: new BodyFolder(join(folder, 'bodies')) });
  const ids = await insertDomainAndBody(database, bodies);
  const queue = new Queue({ database, log: quiet });
  const silent = createServer((socket) => socket.resume());
  const port = manner === 'silent' ? await portOf(silent) : await findFreePort();
  const sender = createWebhookSender({
    filter: createAddressFilter(['127.0.0.0/8']),
    resolve: async () => ['127.0.0.1'],
    timeoutMs: DEAD_TIMEOUT_MS,
  });
  const delivery = (to: string): NewDelivery => ({
    ...ids,
    kind: 'webhook',
    destination: webhookDestination(to),
    payload: JSON.stringify({ url: to }),
  });
  for (let at = 0; at < dead; at += AT_ONCE) {
    await database.write(async (tx) => {
      for (let n = 0; n < AT_ONCE; n++)
        await queue.enqueue(tx, delivery(`http://127.0.0.1:${port}/`));
    });
  }
  const committedAt = new Map<number, number>();
  const took: number[] = [];
  queue.work({
    kind: 'webhook',
    payloads: { read: (json) => json },
    delays: webhookDelays,
    attempt: ({ payload, publicId }, signal) =>
      sender.attempt({ url: String(JSON.parse(payload).url), id: publicId, body: payload }, signal),
    onOutcome:
      async (_, { id }) =>
      () => {
        const at = committedAt.get(id);
        if (at !== undefined) took.push(performance.now() - at);
      },
  });
  // The dead ones have all that they can get.
  await delay(DEAD_TIMEOUT_MS / 2);
  const one = delivery(url);
  for (let n = 0; n < live; n++) {
    const id = await database.write((tx) => queue.enqueue(tx, one));
    committedAt.set(id, performance.now());
    queue.wake([one]);
    await delay(LIVE_EVERY_MS);
  }
  while (took.length < live) await delay(LIVE_EVERY_MS);
  await queue.stop(0);
  await sender.close();
  silent.close();
  if (manner === 'silent') await once(silent, 'close');
  await database.close();
  removeFolder(folder);
  return took;
});
