/**
 * The soak: `node bench/soak.ts [minutes]` (15). 50 mails and 200 syncs a second and 500 sockets on a service that traces,
 * counts usage, keeps quotas and is scraped every second. Prints once a minute what has to stay flat.
 */
import { readdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { makePlace } from './support/folders.ts';
import type { SmtpLoad, SmtpSent } from './support/load-smtp.ts';
import type { SocketsTask } from './support/load-sockets.ts';
import { smallMessage } from './support/messages.ts';
import { findFreePort } from './support/ports.ts';
import type { Seed, SeededAccount } from './support/seed.ts';
import { makeToken, type RunningService, residentMemory, startService } from './support/service.ts';
import { startWorker } from './support/worker.ts';

const MAILS_A_SECOND = 50;
const SYNCS_A_SECOND = 200;
const SOCKETS = 500;
const MINUTE_MS = 60_000;
const minutes = Number(process.argv[2] ?? 15);

interface Client {
  readonly token: string;
  readonly account: SeededAccount;
  /** Of its last sync. */
  syncToken: string;
}

/** What was measured since the last line. */
const minute = { syncs: [] as number[], scrapes: [] as number[], failures: 0 };

async function sync(port: number, client: Client): Promise<void> {
  const begin = performance.now();
  const { uidvalidity } = client.account;
  const answer = await fetch(`http://127.0.0.1:${port}/mail/sync`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${client.token}` },
    body: JSON.stringify({ mailbox: 'INBOX', uidvalidity, token: client.syncToken }),
  });
  const body = (await answer.json()) as { token?: string };
  if (answer.ok && body.token !== undefined) client.syncToken = body.token;
  else minute.failures++;
  minute.syncs.push(performance.now() - begin);
}

/** Syncs under way at once: where the machine cannot do as many a second, they do not pile up. */
const SYNCS_AT_ONCE = 100;

/** Starts so many syncs a second, whether those before have ended or not, up to {@link SYNCS_AT_ONCE}. */
async function syncOn(port: number, clients: readonly Client[], end: number): Promise<void> {
  const begin = performance.now();
  let underWay = 0;
  for (let sent = 0; performance.now() < end; await delay(25)) {
    const due = ((performance.now() - begin) / 1_000) * SYNCS_A_SECOND;
    for (; sent < due; sent++) {
      const client = clients[sent % clients.length];
      if (!client || underWay === SYNCS_AT_ONCE) continue;
      underWay++;
      void sync(port, client)
        .catch(() => minute.failures++)
        .finally(() => underWay--);
    }
  }
}

/** The last answer of `/metrics`. */
let metrics = '';

async function scrapeOn(port: number, end: number): Promise<void> {
  while (performance.now() < end) {
    const begin = performance.now();
    metrics = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text();
    minute.scrapes.push(performance.now() - begin);
    await delay(Math.max(0, begin + 1_000 - performance.now()));
  }
}

const metric = (name: string) => Number(new RegExp(`^${name} (.+)$`, 'm').exec(metrics)?.[1]);
const MEGABYTE = 2 ** 20;

function percentile(values: readonly number[], share: number): string {
  const sorted = values.toSorted((a, b) => a - b);
  return (sorted[Math.floor(share * (sorted.length - 1))] ?? Number.NaN).toFixed(0);
}

function report(count: number, { pid }: RunningService, dataDir: string): void {
  const { syncs, scrapes, failures } = minute;
  const log = statSync(join(dataDir, 'postroom.sqlite-wal')).size / MEGABYTE;
  console.log(
    [
      `minute ${count}`,
      `RSS ${(residentMemory(pid) / MEGABYTE).toFixed(0)} MB`,
      `heap ${(metric('nodejs_heap_size_used_bytes') / MEGABYTE).toFixed(0)} MB`,
      `event loop p99 ${(1_000 * metric('nodejs_eventloop_lag_p99_seconds')).toFixed(0)} ms`,
      `WAL ${log.toFixed(1)} MB`,
      `descriptors ${readdirSync(`/proc/${pid}/fd`).length}`,
      `mails ${metric('postroom_receive_duration_seconds_count')}`,
      `syncs ${syncs.length}, p50 ${percentile(syncs, 0.5)} ms, p99 ${percentile(syncs, 0.99)} ms`,
      `scrapes ${scrapes.length}, p50 ${percentile(scrapes, 0.5)} ms, p99 ${percentile(scrapes, 0.99)} ms`,
      `failures ${failures}`,
    ].join('; '),
  );
  Object.assign(minute, { syncs: [], scrapes: [], failures: 0 });
}

async function soak(
  service: RunningService,
  metricsPort: number,
  accounts: readonly SeededAccount[],
  dataDir: string,
): Promise<void> {
  const clients: Client[] = [];
  for (const account of accounts) {
    const token = await makeToken(service.port, account);
    clients.push({ token, account, syncToken: account.token });
  }
  const sockets = startWorker<SocketsTask, number>('load-sockets.ts');
  const mail = startWorker<SmtpLoad, SmtpSent>('load-smtp.ts');
  const path = join(dataDir, 'message');
  writeFileSync(path, smallMessage('soak'));
  try {
    const tokens = clients.map(({ token }) => token);
    await sockets.ask({ do: 'open', port: service.port, tokens, greetings: 1 });
    const [first = '', ...others] = accounts.map(({ address }) => address);
    const sending = mail.ask({
      ...{ port: service.smtpPort, connections: 4, path, perSecond: MAILS_A_SECOND },
      messages: MAILS_A_SECOND * 60 * minutes,
      recipients: [first, ...others],
    });
    const end = performance.now() + minutes * MINUTE_MS;
    const running = [syncOn(service.port, clients, end), scrapeOn(metricsPort, end)];
    for (let count = 1; count <= minutes; count++) {
      await delay(MINUTE_MS);
      report(count, service, dataDir);
    }
    await Promise.all([...running, sending]);
  } finally {
    await Promise.all([sockets.stop(), mail.stop()]);
  }
}

const place = await makePlace(undefined);
try {
  const seeder = startWorker<Seed, SeededAccount[]>('seed.ts');
  const seeds = Array.from({ length: SOCKETS }, () => ({ messages: 20 }));
  const accounts = await seeder.ask({ ...place, accounts: seeds });
  await seeder.stop();
  const metricsPort = await findFreePort();
  const env = { METRICS_PORT: String(metricsPort), QUOTA_BYTES: '1000000000' };
  const service = await startService(place.dataDir, [], { env });
  try {
    await soak(service, metricsPort, accounts, place.dataDir);
  } finally {
    await service.stop();
  }
} finally {
  await place.remove();
}
