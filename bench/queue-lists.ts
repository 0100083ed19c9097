/**
 * How long the operator's lists of the queue take with 100,000 waiting deliveries and 200,000 ended ones.
 *
 *     node bench/queue-lists.ts            SQLite
 *     TEST_DATABASE_URL=postgres://... node bench/queue-lists.ts
 *
 * Three shapes: one dead receiver, 40 receivers, and a receiver for each delivery, as where our own network is away.
 */
import { performance } from 'node:perf_hooks';
import { sql } from 'kysely';
import { listGroups, listOpen } from '../src/mail/queue/groups.ts';
import { findFailingReceivers, findHeld } from '../src/mail/queue/needs-attention.ts';
import { listReceivers, summarize } from '../src/mail/queue/receivers.ts';
import type { Database, NewRow } from '../src/platform/database/database.ts';
import { openTestDatabase } from '../test/support/databases.ts';

const WAITING = 100_000;
const ENDED = 200_000;
const DOMAINS = 10;
const AT_A_TIME = 500;
const RUNS = 5;
const engine = process.env.TEST_DATABASE_URL ? 'postgres' : 'sqlite';

const shapes: Readonly<Record<string, (number: number) => string>> = {
  'one receiver': () => 'https://dead.test',
  '40 receivers': (number) => `host${number % 40}.test`,
  'a receiver each': (number) => `host${number}.test`,
};

async function seed(database: Database, destination: (number: number) => string): Promise<void> {
  const now = Date.now();
  const { id: bodyId } = await database.write((tx) =>
    tx
      .insertInto('bodies')
      .values({ size: 1, content: Buffer.from('x'), file: null })
      .returning('id')
      .executeTakeFirstOrThrow(),
  );
  for (let at = 0; at < WAITING + ENDED; at += AT_A_TIME) {
    const rows = Array.from({ length: AT_A_TIME }, (_, index): NewRow<'deliveries'> => {
      const number = at + index;
      const domainId = 1 + (number % DOMAINS);
      const isEnded = number < ENDED;
      const isTried = number % 3 > 0;
      return {
        kind: number % 4 > 0 ? 'send' : 'webhook',
        domain_id: domainId,
        destination: destination(number),
        sender: `${domainId}/${number % 50}/user`,
        body_id: bodyId,
        public_id: `p${number}`,
        status: isEnded
          ? number % 4 === 0
            ? 'failed'
            : 'delivered'
          : number % 50 === 0
            ? 'held'
            : 'queued',
        attempts: isTried ? 3 : 0,
        next_attempt_at: now + 3_600_000 + number,
        last_error:
          isTried || isEnded
            ? '{"status":451,"text":"Greylisted, try again in 300 seconds"}'
            : null,
        reason: isTried || isEnded ? `451 Greylisted ${number % 7}, try again in … seconds` : null,
        mail_from: `account${number % 50}@domain${number % 10}.test`,
        recipient: `someone${number}@far.test`,
        subject: 'An invitation to the summer party',
        mail_id: `019c1a2b-3c4d-7e5f-8a9b-${number}`,
        created_at: now - 86_400_000 + number,
        updated_at: now,
        finished_at: isEnded ? now : null,
      };
    });
    await database.write((tx) => tx.insertInto('deliveries').values(rows).execute());
  }
  if (engine === 'postgres') await sql`vacuum analyze deliveries`.execute(database.read);
}

async function measure(name: string, work: () => Promise<unknown>): Promise<void> {
  const times: number[] = [];
  const used = process.cpuUsage();
  for (let run = 0; run < RUNS; run++) {
    const start = performance.now();
    await work();
    times.push(performance.now() - start);
  }
  const { user, system } = process.cpuUsage(used);
  const own = (user + system) / RUNS / 1_000;
  times.sort((a, b) => a - b);
  const [least = 0] = times;
  const median = times[Math.floor(RUNS / 2)] ?? 0;
  process.stdout.write(
    `  ${name.padEnd(34)} ${median.toFixed(0)} ms (least ${least.toFixed(0)}, processor ${own.toFixed(0)})\n`,
  );
}

for (const [shape, destination] of Object.entries(shapes)) {
  if (process.argv[2] && !shape.startsWith(process.argv[2])) continue;
  const { database } = await openTestDatabase(engine);
  await seed(database, destination);
  process.stdout.write(`${engine}, ${shape}\n`);
  const page = { after: undefined, before: undefined, limit: 50 };
  const one = { destination: destination(ENDED) };
  await measure('receivers', () => listReceivers(database, {}, page));
  await measure('receivers of an account', () =>
    listReceivers(database, { senders: ['1/7/user', '8/7/user'], domainIds: [1, 8] }, page),
  );
  await measure('receivers of a domain', () => listReceivers(database, { domainIds: [3] }, page));
  await measure('receivers of a reason', () =>
    listReceivers(database, { reason: 'greylisted 3' }, page),
  );
  await measure('receivers of a sender', () =>
    listReceivers(database, { mailFrom: 'account7@domain7.test' }, page),
  );
  await measure('receivers that failed', () =>
    listReceivers(database, { states: ['failed'] }, page),
  );
  await measure('summary of a receiver', () => summarize(database, one));
  await measure('summary of all', () => summarize(database, {}));
  const now = Date.now();
  const limits = { receivers: 50, waiting: 10, since: now - 1_800_000 };
  await measure('attention: failing receivers', () => findFailingReceivers(database, limits));
  await measure('attention: held for long', () => findHeld(database, now - 1_800_000));
  await measure('groups', () => listGroups(database, {}, page));
  await measure('deliveries', () => listOpen(database, {}, page));
  await measure('deliveries of a receiver', () => listOpen(database, one, page));
  await measure('deliveries of a domain', () => listOpen(database, { domainIds: [3] }, page));
  await measure('deliveries of an account', () =>
    listOpen(database, { domainIds: [3], senders: ['3/2/user'] }, page),
  );
}
process.exit(0);
