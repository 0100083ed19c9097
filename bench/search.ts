/**
 * Searching in one large account among others: how fast its mail is indexed, how long searches take as an
 * app sees them, by HTTP, and what the index costs the mail that comes in meanwhile. `--postgres` measures
 * indexing and searches there.
 */
import { mkdirSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout as delay } from 'node:timers/promises';
import { Client } from 'pg';
import { RARE } from './support/corpus.ts';
import {
  absolute,
  atLeast,
  type Benchmark,
  type BenchmarkOptions,
  type Figure,
  interleave,
  median,
} from './support/figures.ts';
import { makePlace } from './support/folders.ts';
import type { SmtpLoad, SmtpSent } from './support/load-smtp.ts';
import { message20K } from './support/messages.ts';
import type { Seed, SeededAccount } from './support/seed.ts';
import {
  makeToken,
  processorTicks,
  type RunningService,
  type StartOptions,
  startService,
} from './support/service.ts';
import { startWorker } from './support/worker.ts';

const SMALL_ACCOUNTS = 20;
/** Of the messages of the large account. */
const SMALL_SHARE = 0.01;
const RUNS = 9;
const INGEST = { connections: 20, messages: 3_000, rounds: 5, target: 0.95, warmUp: 3_000 };
const PING_MS = 5;

interface Targets {
  readonly indexed: number;
  /** Of the index, in octets for each octet of mail. */
  readonly size: number;
  readonly rare: number;
  readonly words: number;
  readonly common: number;
  readonly prefix: number;
  readonly nobodyPasses: number;
  readonly small: number;
}

const TARGETS: Record<'sqlite' | 'postgres', Targets> = {
  sqlite: {
    indexed: 800,
    size: 0.55,
    rare: 5,
    words: 20,
    common: 60,
    prefix: 200,
    nobodyPasses: 120,
    small: 5,
  },
  postgres: {
    indexed: 200,
    size: 2.6,
    rare: 10,
    words: 150,
    common: 150,
    prefix: 150,
    nobodyPasses: 150,
    small: 10,
  },
};
/** Milliseconds by which the event loop may be later with the indexer at work. */
const LATER_MS = 15;

/** Searches in the large account; at least so many matches, or else what is measured is nothing. */
const SEARCHES: readonly (readonly [keyof Targets, object, number])[] = [
  ['rare', { text: RARE.word }, 1],
  ['rare', { text: 'absentia' }, 0],
  ['common', { text: 'the' }, 50],
  ['words', { text: 'the data' }, 50],
  ['words', { text: 'the you date one' }, 50],
  ['prefix', { text: 'da*' }, 50],
  ['prefix', { text: 'de* da*' }, 50],
  ['words', { text: '文' }, 50],
  ['words', { text: '文件' }, 50],
  ['words', { text: '文件系统' }, 50],
  ['words', { text: '파일' }, 50],
  ['common', { from: 'c3@shop.test' }, 50],
  ['common', { subject: 'the' }, 50],
  ['common', { text: 'the', hasAttachment: true }, 50],
  ['common', { text: 'the', since: '2023-06-01', before: '2024-01-01' }, 50],
  ['nobodyPasses', { text: 'the', flags: ['\\Flagged'] }, 0],
  ['nobodyPasses', { flags: ['\\Flagged'] }, 0],
  ['common', { hasAttachment: true }, 50],
  ['common', {}, 50],
];
const SMALL_SEARCHES = [{ text: 'absentia' }, { text: 'the' }, { text: 'da*' }, { text: '文件' }];

interface Found {
  readonly matches: readonly unknown[];
  readonly indexing?: true;
}

type Ask = (body: object) => Promise<Found>;

function askAs(port: number, token: string): Ask {
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
  return async (body) => {
    const response = await fetch(`http://127.0.0.1:${port}/mail/search`, {
      method: 'POST',
      headers,
      body: JSON.stringify(body),
    });
    if (!response.ok) throw new Error(`/mail/search: ${response.status} ${await response.text()}`);
    return (await response.json()) as Found;
  };
}

async function untilIndexed(asks: readonly Ask[]): Promise<void> {
  for (const ask of asks) while ((await ask({ text: 'absentia' })).indexing) await delay(200);
}

/** Asks for something small again and again; answers the milliseconds that 99 of 100 took at most. */
async function ping<T>(port: number, during: Promise<T>): Promise<number> {
  const took: number[] = [];
  let over = false;
  const end = () => {
    over = true;
  };
  during.then(end, end);
  while (!over) {
    const from = performance.now();
    await (await fetch(`http://127.0.0.1:${port}/healthz`)).text();
    took.push(performance.now() - from);
    await delay(PING_MS);
  }
  await during;
  return took.sort((a, b) => a - b)[Math.floor(took.length * 0.99)] ?? 0;
}

async function measureSearches(ask: Ask, askSmall: Ask, targets: Targets): Promise<Figure[]> {
  const figures: Figure[] = [];
  const measure = async (where: string, run: Ask, body: object, target: number, least: number) => {
    const { matches } = await run(body);
    if (matches.length < least) throw new Error(`${JSON.stringify(body)} found ${matches.length}`);
    const took: number[] = [];
    for (let round = 0; round < RUNS; round++) {
      const from = performance.now();
      await run(body);
      took.push(performance.now() - from);
    }
    const name = `search ${JSON.stringify(body)}, ${where}`;
    figures.push(absolute(name, took, { unit: 'ms', target, isMost: true }));
  };
  for (const [kind, body, least] of SEARCHES) {
    await measure('large account', ask, body, targets[kind], least);
  }
  for (const body of SMALL_SEARCHES) await measure('small', askSmall, body, targets.small, 0);
  return figures;
}

/** Octets of the index for each octet of mail. */
async function sizeOfIndex(dataDir: string, url: string | undefined): Promise<number> {
  const mail = 'select sum(size) as mail from bodies';
  if (url === undefined) {
    const db = new DatabaseSync(join(dataDir, 'postroom.sqlite'), { readOnly: true });
    const octets = Number(db.prepare(mail).get()?.mail);
    db.close();
    return statSync(join(dataDir, 'search.db')).size / octets;
  }
  const client = new Client({ connectionString: url });
  await client.connect();
  const { rows } = await client.query(
    `select pg_total_relation_size('search_documents') / (${mail}) as ratio`,
  );
  await client.end();
  return Number(rows[0].ratio);
}

async function seed(task: Seed): Promise<SeededAccount[]> {
  const seeder = startWorker<Seed, SeededAccount[]>('seed.ts');
  try {
    return await seeder.ask(task);
  } finally {
    await seeder.stop();
  }
}

async function withService<T>(
  folder: string,
  options: StartOptions,
  use: (service: RunningService) => Promise<T>,
): Promise<T> {
  const service = await startService(folder, [], options);
  try {
    return await use(service);
  } finally {
    await service.stop();
  }
}

/** Fills a large account and some small ones; the service then makes its index of them. */
async function measureIndex(dataDir: string, url: string | undefined, messages: number) {
  const [targets, engine] = url ? [TARGETS.postgres, 'PostgreSQL'] : [TARGETS.sqlite, 'SQLite'];
  const few = Math.ceil(messages * SMALL_SHARE);
  console.log(`Filling a mailbox of ${messages} messages, and ${SMALL_ACCOUNTS} of ${few} ...`);
  const accounts = Array.from({ length: SMALL_ACCOUNTS + 1 }, (_, index) => ({
    messages: index === 0 ? messages : few,
    corpusFrom: index === 0 ? 0 : messages + index * few,
  }));
  const seeded = await seed({ dataDir, databaseUrl: url, accounts });
  const options = { untilRest: false, databaseUrl: url };
  const figures = await withService(dataDir, options, async ({ port, pid }) => {
    const from = performance.now();
    const [ticks, total] = [processorTicks(pid), messages + SMALL_ACCOUNTS * few];
    const tokens = await Promise.all(seeded.map((account) => makeToken(port, account)));
    const asks = tokens.map((token) => askAs(port, token));
    const [ask, askSmall] = [asks[0], asks[1]];
    if (!ask || !askSmall) throw new Error('an account is missing');
    const busy = await ping(port, untilIndexed(asks));
    const rate = (total * 1000) / (performance.now() - from);
    const cpu = ((processorTicks(pid) - ticks) * 10) / total;
    console.log(`(indexing took ${cpu.toFixed(2)} ms of processor time a message)`);
    const idle = await ping(port, delay(2_000));
    const most = { unit: 'ms', target: LATER_MS, isMost: true };
    return [
      absolute(`messages indexed, ${engine}`, [rate], {
        unit: '/s',
        target: targets.indexed,
        isMost: false,
      }),
      absolute('answer of /healthz later while indexing (p99)', [busy - idle], most),
      ...(await measureSearches(ask, askSmall, targets)),
    ];
  });
  // The index is closed: all of it is in its file.
  const size = await sizeOfIndex(dataDir, url);
  const octet = { unit: 'of the mail', target: targets.size, isMost: true };
  return [...figures, absolute(`size of the index, ${engine}`, [size], octet)];
}

/** Mail by SMTP with the indexer at work, against a service that cannot open its index. */
async function measureIngest(folder: string): Promise<Figure[]> {
  const [on, off] = [join(folder, 'on'), join(folder, 'off')];
  const path = join(folder, 'message');
  writeFileSync(path, message20K());
  const [account] = await seed({ dataDir: on, accounts: [{}] });
  await seed({ dataDir: off, accounts: [{}] });
  if (!account) throw new Error('the account is missing');
  // In the place of the index: what is queued for it waits.
  mkdirSync(join(off, 'search.db'));
  const generator = startWorker<SmtpLoad, SmtpSent>('load-smtp.ts');
  const { connections, messages, rounds, target, warmUp } = INGEST;
  const pings: Record<'with' | 'without', number[]> = { with: [], without: [] };
  const send = async ({ smtpPort: port }: RunningService, count = messages) => {
    const recipients: SmtpLoad['recipients'] = [account.address];
    const { seconds } = await generator.ask({
      port,
      connections,
      messages: count,
      recipients,
      path,
    });
    return count / seconds;
  };
  const measured = async (service: RunningService, name: 'with' | 'without') => {
    const sending = send(service);
    pings[name].push(await ping(service.port, sending));
    return sending;
  };
  try {
    return await withService(off, {}, (without) =>
      withService(on, {}, async (service) => {
        const ask = askAs(service.port, await makeToken(service.port, account));
        for (const one of [without, service]) await send(one, warmUp);
        await untilIndexed([ask]);
        const rates = await interleave(rounds, {
          without: () => measured(without, 'without'),
          with: async () => {
            const rate = await measured(service, 'with');
            await untilIndexed([ask]);
            return rate;
          },
        });
        const later = pings.with.map((ms, round) => ms - (pings.without[round] ?? 0));
        const name = `SMTP, 20 KB, ${connections} connections, indexer on against off`;
        return [
          atLeast(name, 'msg/s', rates.with, rates.without, target),
          absolute('answer of /healthz later with the indexer on (p99)', [median(later)], {
            unit: 'ms',
            target: LATER_MS,
            isMost: true,
          }),
        ];
      }),
    );
  } finally {
    await generator.stop();
  }
}

export const search: Benchmark = {
  name: 'search',
  async run({ postgres, messages }: BenchmarkOptions) {
    const place = await makePlace(postgres);
    const { dataDir, databaseUrl } = place;
    try {
      const figures = await measureIndex(join(dataDir, 'large'), databaseUrl, messages);
      return postgres === undefined ? [...figures, ...(await measureIngest(dataDir))] : figures;
    } finally {
      await place.remove();
    }
  },
};
