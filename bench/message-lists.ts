/**
 * How long the operators' list of messages takes for each filter, with 1,000,000 messages of 30 days and 100,000 of them
 * waiting. Makes such a database, asks each filter for its first page and for the tenth, and prints the median and the
 * slowest. A median of more than 150 ms is too slow.
 *
 * `node bench/message-lists.ts [MESSAGES] [postgres://...]`; the database of that URL is emptied.
 */

import { randomUUID } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { sql } from 'kysely';
import { Queue } from '../src/mail/queue/queue.ts';
import { newMailId } from '../src/mail/trace/trace.ts';
import {
  type Database,
  type NewRow,
  openPostgres,
  openSqlite,
} from '../src/platform/database/database.ts';
import { findMessages, type MessageFilter } from '../src/servers/operator/find-messages.ts';
import { insertDomain } from './support/domain.ts';

const [, , count = '1000000', url] = process.argv;
const MESSAGES = Number(count);
const DAY = 86_400_000;
const NOW = Date.now();
const DOMAINS = 30;
const TARGET_MS = 150;
const ROWS_AT_A_TIME = 1_000;

/** Repeatable. */
let state = 1;
function random(below: number): number {
  state = (state * 48_271) % 2_147_483_647;
  return state % below;
}

type TraceRow = NewRow<'trace'>;
type DeliveryRow = NewRow<'deliveries'>;

async function seed(database: Database): Promise<void> {
  const bodyId = await database.write(async (tx) => {
    for (let number = 0; number < DOMAINS; number++) {
      await insertDomain(tx, `d${number}.test`);
    }
    const body = { size: 1, content: Buffer.from('x'), file: null };
    const row = await tx.insertInto('bodies').values(body).returning('id').executeTakeFirst();
    return row?.id ?? 0;
  });
  let traces: TraceRow[] = [];
  let deliveries: DeliveryRow[] = [];
  let deliveryId = 0;
  const flush = async () => {
    await database.write(async (tx) => {
      if (deliveries.length > 0) await tx.insertInto('deliveries').values(deliveries).execute();
      for (let at = 0; at < traces.length; at += ROWS_AT_A_TIME) {
        await tx
          .insertInto('trace')
          .values(traces.slice(at, at + ROWS_AT_A_TIME))
          .execute();
      }
    });
    traces = [];
    deliveries = [];
  };
  for (let number = 0; number < MESSAGES; number++) {
    const at = NOW - 30 * DAY + Math.floor((30 * DAY * number) / MESSAGES);
    const domain = random(DOMAINS);
    const user = `u${random(10)}@d${domain}.test`;
    const stranger = `s${random(50_000)}@far${random(500)}.test`;
    const common = {
      at,
      message_id: `<${number}@far.test>`,
      delivery_id: null,
      webhook_id: null,
      status: null,
      detail: null,
      node: 'mail-1',
      client: null,
      domain: `d${domain}.test`,
    };
    const kind = random(100);
    if (kind < 70) {
      const more = JSON.stringify([{ event: 'stored', detail: 'INBOX, UID 7' }]);
      const client = `192.0.2.${random(250)}`;
      const mail_id = newMailId(at);
      const row = { mail_id, event: 'received', sender: stranger, recipient: user, client, more };
      traces.push({ ...common, ...row, status: '250', detail: 'ESMTP from far.test, 2000 bytes' });
    } else if (kind < 75) {
      const row = { mail_id: newMailId(at), sender: stranger, recipient: user };
      const said = { status: '550 5.1.1', detail: 'unknown_recipient: no such user here' };
      traces.push({ ...common, ...row, ...said, event: kind < 74 ? 'refused' : 'deferred' });
    } else {
      const mail_id = randomUUID();
      const id = ++deliveryId;
      const waits = number % 10 === 0 || kind > 93;
      const ends = !waits && kind === 75 ? 'failed' : 'delivered';
      const row = { mail_id, sender: user, recipient: stranger, delivery_id: id };
      traces.push({ ...common, ...row, event: 'submitted' });
      const later = { ...common, mail_id, recipient: stranger, delivery_id: id, domain: null };
      const attempt = { ...later, sender: null, message_id: null, event: 'send_attempt' };
      const tries = waits ? random(6) : 1;
      for (let one = 0; one < tries; one++) {
        const said = waits
          ? { status: 'deferred', detail: '451 4.7.1 Greylisted' }
          : { status: ends, detail: ends === 'failed' ? '550 5.1.1 No such user' : null };
        traces.push({ ...attempt, ...said, at: at + one * 60_000 });
      }
      if (ends === 'failed') {
        traces.push({ ...attempt, event: 'bounced', detail: '550 5.1.1 No such user' });
      }
      deliveries.push({
        kind: 'send',
        domain_id: domain + 1,
        destination: stranger.slice(stranger.indexOf('@') + 1),
        sender: `${domain + 1}/1/u`,
        body_id: bodyId,
        public_id: randomUUID(),
        status: waits ? (random(50) === 0 ? 'held' : 'queued') : ends,
        attempts: tries,
        next_attempt_at: NOW + random(3_600_000),
        attempted_at: null,
        late_at: null,
        lease_owner: null,
        last_error: waits ? '{"status":451,"text":"4.7.1 Greylisted"}' : null,
        created_at: at,
        updated_at: at,
        finished_at: waits ? null : at,
        mail_id,
        recipient: stranger,
      });
    }
    if (traces.length >= 5_000 || deliveries.length >= ROWS_AT_A_TIME) await flush();
  }
  await flush();
  if (database.engine === 'postgres') await database.write((tx) => sql`analyze`.execute(tx));
}

const filters: Record<string, MessageFilter> = {
  everything: {},
  'the last hour': { since: NOW - 3_600_000 },
  'a day three weeks ago': { since: NOW - 21 * DAY, until: NOW - 20 * DAY },
  recipient: { recipient: 'u3@d7.test' },
  sender: { sender: 's77@far77.test' },
  'address of an account': { address: 'u3@d7.test' },
  'Message-ID': { messageId: `<${MESSAGES - 5}@far.test>` },
  domain: { domain: 'd7.test', domainIds: [8] },
  'domain that does not exist': { domain: 'nowhere.test', domainIds: [] },
  waiting: { statuses: ['waiting'] },
  deferred: { statuses: ['deferred'] },
  scheduled: { statuses: ['scheduled'] },
  held: { statuses: ['held'] },
  bounced: { statuses: ['bounced'] },
  refused: { statuses: ['refused'] },
  'deferred by us': { statuses: ['deferred_by_us'] },
  dropped: { statuses: ['dropped'] },
  failed: { statuses: ['failed'] },
  delivered: { statuses: ['delivered'] },
  partly: { statuses: ['partly'] },
  problems: { statuses: ['deferred', 'held', 'bounced', 'failed'] },
  'domain, deferred': { domain: 'd7.test', domainIds: [8], statuses: ['deferred'] },
  'domain, bounced': { domain: 'd7.test', domainIds: [8], statuses: ['bounced'] },
  'domain, refused': { domain: 'd7.test', domainIds: [8], statuses: ['refused'] },
  'recipient, bounced': { recipient: 'u3@d7.test', statuses: ['bounced'] },
  'client, which nothing matches': { client: '203.0.113.9' },
  'reason, which nothing matches': { reason: 'no such words' },
  'reason of deferred mail': { statuses: ['deferred'], reason: '451' },
  'deferred of a day three weeks ago': {
    statuses: ['deferred'],
    since: NOW - 21 * DAY,
    until: NOW - 20 * DAY,
  },
  outgoing: { direction: 'out' },
  'all but one domain': { not: { domain: 'd7.test' } },
  'all but the delivered': { not: { statuses: ['delivered'] } },
};

async function measure(database: Database): Promise<void> {
  const queue = new Queue({ database, log: { error: () => {}, warn: () => {} } });
  const parts = { database, queue, now: Date.now };
  for (const [name, filter] of Object.entries(filters)) {
    const took: number[] = [];
    let items = 0;
    let pages = 0;
    for (let round = 0; round < 5; round++) {
      let after: Awaited<ReturnType<typeof findMessages>>['next'];
      pages = 0;
      items = 0;
      do {
        const begun = performance.now();
        const page = await findMessages(parts, filter, { after, limit: 50 });
        // The first round fills caches.
        if (round > 0) took.push(performance.now() - begun);
        items += page.items.length;
        after = page.next;
      } while (after && ++pages < 10);
    }
    took.sort((a, b) => a - b);
    const [typical = 0, slowest = 0] = [took[Math.floor(took.length / 2)], took.at(-1)];
    const isSlow = typical > TARGET_MS ? '  TOO SLOW' : '';
    const figures = [typical, slowest].map((ms) => `${ms.toFixed(0).padStart(5)} ms`).join(', ');
    console.log(`${name.padEnd(36)} ${figures}  ${items} items${isSlow}`);
    if (isSlow) process.exitCode = 1;
  }
}

const directory = await mkdtemp(join(tmpdir(), 'postroom-bench-'));
const options = { path: process.env.BENCH_SQLITE ?? join(directory, 'bench.sqlite') };
const database = url
  ? await openPostgres({ url, poolSize: 5, timeoutMs: 600_000 })
  : await openSqlite(options);
try {
  const seeded = await database.read.selectFrom('trace').select('id').limit(1).execute();
  const begun = performance.now();
  if (seeded.length === 0) await seed(database);
  console.log(`made in ${((performance.now() - begun) / 1_000).toFixed(0)} s`);
  await measure(database);
} finally {
  await database.close();
  await rm(directory, { recursive: true });
}
