/**
 * What one node carries on this machine: `node bench/sizing.ts`, on SQLite, and with TEST_DATABASE_URL on that PostgreSQL
 * server too. `--accounts 2000 --sockets 2000 --seconds 10` are the defaults. Prints the machine and one table as
 * Markdown, that of docs/guides/sizing.md. Clients and database run on the same machine: they take their part of its cores.
 */
import { readFileSync, writeFileSync } from 'node:fs';
import { availableParallelism, cpus, loadavg, totalmem } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { Client } from 'pg';
import { makePlace, type Place } from './support/folders.ts';
import type { Played } from './support/http-client.ts';
import type { HttpLoad } from './support/load-http.ts';
import type { SmtpLoad, SmtpSent } from './support/load-smtp.ts';
import type { SocketsTask } from './support/load-sockets.ts';
import { message20K } from './support/messages.ts';
import type { Seed, SeededAccount } from './support/seed.ts';
import {
  makeTokens,
  processorTicks,
  type RunningService,
  residentMemory,
  startService,
} from './support/service.ts';
import { syncRequest } from './support/sync-request.ts';
import { startWorker } from './support/worker.ts';

const { values: given } = parseArgs({
  options: {
    accounts: { type: 'string', default: '2000' },
    sockets: { type: 'string', default: '2000' },
    seconds: { type: 'string', default: '10' },
  },
});
const [accounts, sockets, seconds] = [given.accounts, given.sockets, given.seconds].map(Number);
if (!(accounts && sockets && seconds) || sockets > accounts * 20) {
  process.stderr.write('usage: node bench/sizing.ts [--accounts N] [--sockets N] [--seconds N]\n');
  process.exit(2);
}
/** Whose apps sync, and who get mail. */
const ACTIVE = 200;
const CONNECTIONS = 20;
const MAILS_FIRST = 500;
const MEGABYTE = 2 ** 20;

/** What was measured, by the name of its row. */
type Column = Map<string, string>;

/** Milliseconds of processor time so far: of the node, and of the PostgreSQL processes of this machine. */
async function processorTime(service: RunningService, admin: Client | undefined) {
  const pids = await admin?.query<{ pid: number }>(
    "select pid from pg_stat_activity where backend_type <> 'client backend' or datname like 'bench_%'",
  );
  let database = 0;
  for (const { pid } of pids?.rows ?? []) {
    try {
      database += processorTicks(pid) * 10;
    } catch {
      // It ended, or runs on another machine.
    }
  }
  return { node: processorTicks(service.pid) * 10, database };
}

async function measure(place: Place, admin: Client | undefined): Promise<Column> {
  const column: Column = new Map();
  const seeder = startWorker<Seed, SeededAccount[]>('seed.ts');
  const seeds = Array.from({ length: accounts ?? 0 }, (_, at) => ({
    messages: at < ACTIVE ? 20 : 1,
  }));
  const seeded = await seeder.ask({ ...place, accounts: seeds });
  await seeder.stop();
  const env = { HTTP_MAX_PER_IP: '65535', SMTP_MAX_PER_IP: '1000' };
  const service = await startService(place.dataDir, [], { env, databaseUrl: place.databaseUrl });
  const memory = () => `${(residentMemory(service.pid) / MEGABYTE).toFixed(0)} MB`;
  const eachTook = async (name: string, work: () => Promise<number>) => {
    const before = await processorTime(service, admin);
    const count = await work();
    const after = await processorTime(service, admin);
    column.set(
      `${name}: processor of the node`,
      `${((after.node - before.node) / count).toFixed(2)} ms`,
    );
    if (admin) {
      const took = (after.database - before.database) / count;
      column.set(`${name}: processor of PostgreSQL`, `${took.toFixed(2)} ms`);
    }
  };
  try {
    column.set(`memory with ${accounts} accounts, at rest`, memory());
    const active = seeded.slice(0, ACTIVE);
    await measureMail(service, active, place.dataDir, column, eachTook);
    await measureSyncs(service, active, column, eachTook);
    column.set('memory after that', memory());
    const clients = startWorker<SocketsTask, number>('load-sockets.ts');
    try {
      const bearers = await makeTokens(service.port, seeded.slice(0, sockets));
      const tokens = Array.from({ length: sockets ?? 0 }, (_, at) => bearers[at % bearers.length]);
      await clients.ask({ do: 'open', port: service.port, tokens, greetings: 1 });
      await delay(5_000);
      column.set(`memory with ${sockets} sockets`, memory());
    } finally {
      await clients.stop();
    }
    return column;
  } finally {
    await service.stop();
  }
}

type EachTook = (name: string, work: () => Promise<number>) => Promise<void>;

async function measureMail(
  { smtpPort: port }: RunningService,
  active: readonly SeededAccount[],
  folder: string,
  column: Column,
  eachTook: EachTook,
): Promise<void> {
  const path = join(folder, 'message');
  writeFileSync(path, message20K());
  const [first = '', ...others] = active.map(({ address }) => address);
  const generator = startWorker<SmtpLoad, SmtpSent>('load-smtp.ts');
  const load = { port, connections: CONNECTIONS, path, recipients: [first, ...others] as const };
  try {
    // Twice: the code is compiled meanwhile. From the rate of the second follows how many take so many seconds.
    await generator.ask({ ...load, messages: MAILS_FIRST });
    const sample = await generator.ask({ ...load, messages: MAILS_FIRST });
    const messages = Math.ceil((MAILS_FIRST / sample.seconds) * (seconds ?? 1));
    await eachTook('mail of 20 KB', async () => {
      const sent = await generator.ask({ ...load, messages });
      column.set('mails of 20 KB a second, 20 connections', (messages / sent.seconds).toFixed(0));
      return messages;
    });
  } finally {
    await generator.stop();
  }
}

async function measureSyncs(
  { port }: RunningService,
  active: readonly SeededAccount[],
  column: Column,
  eachTook: EachTook,
): Promise<void> {
  const tokens = await makeTokens(port, active);
  const requests = active.map(({ uidvalidity, token }, at) =>
    syncRequest(tokens[at] ?? '', uidvalidity, token),
  );
  const generator = startWorker<HttpLoad, Played>('load-http.ts');
  try {
    const load = { port, connections: CONNECTIONS, requests };
    await generator.ask({ ...load, seconds: 2 });
    await eachTook('sync', async () => {
      const played = await generator.ask({ ...load, seconds: seconds ?? 1 });
      column.set('syncs a second', (played.answers / played.seconds).toFixed(0));
      return played.answers;
    });
  } finally {
    await generator.stop();
  }
}

const server = process.env.TEST_DATABASE_URL;
const columns: [string, Column][] = [];
for (const [name, url] of [
  ['SQLite', undefined],
  ['PostgreSQL', server],
] as const) {
  if (name === 'PostgreSQL' && url === undefined) continue;
  const admin = url === undefined ? undefined : new Client({ connectionString: url });
  await admin?.connect();
  const place = await makePlace(url);
  try {
    columns.push([name, await measure(place, admin)]);
  } finally {
    await place.remove();
    await admin?.end();
  }
}

const memory = (totalmem() / MEGABYTE / 1024).toFixed(0);
const load = loadavg().map((one) => one.toFixed(1));
const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'));
console.log(
  `${cpus()[0]?.model}, ${availableParallelism()} cores, ${memory} GB; load ${load.join(' ')} at the end; Postroom ${version}, Node ${process.versions.node}\n`,
);
const names = new Set(columns.flatMap(([, column]) => [...column.keys()]));
console.log(`| | ${columns.map(([name]) => name).join(' | ')} |`);
console.log(`|---|${columns.map(() => '---|').join('')}`);
for (const name of names) {
  console.log(`| ${name} | ${columns.map(([, column]) => column.get(name) ?? '').join(' | ')} |`);
}
