/**
 * Three nodes against one, on one PostgreSQL, one Redis and one folder of bodies: what they do in all with three times
 * the clients, what an operation asks of the database, and how soon a change on one node reaches sockets on others.
 *
 * Nodes, database and clients share one machine. So three nodes have no more processor time than one, and cannot do
 * more: what shows is whether they lose anything to each other. All three run all the time; "one" is the first of them.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Client } from 'pg';
import { startRedis } from '../test/servers/redis.ts';
import { eventsRequest, writeBatch } from './support/event-batches.ts';
import {
  atLeast,
  atMost,
  type Benchmark,
  type BenchmarkOptions,
  type Figure,
  interleave,
  median,
} from './support/figures.ts';
import { makePlace } from './support/folders.ts';
import { type Played, writeRequest } from './support/http-client.ts';
import type { HttpLoad } from './support/load-http.ts';
import type { SmtpLoad, SmtpSent } from './support/load-smtp.ts';
import type { SocketsTask } from './support/load-sockets.ts';
import { CONNECTIONS } from './support/measure-http.ts';
import { message20K } from './support/messages.ts';
import type { AccountSeed, Seed, SeededAccount } from './support/seed.ts';
import { makeTokens, type RunningService, startService } from './support/service.ts';
import { syncRequest } from './support/sync-request.ts';
import { startWorker } from './support/worker.ts';

const NODES = 3;
const ROUNDS = 5;
/** Whose apps sync, and who get mail. */
const ACCOUNTS = 300;
const MESSAGES = 20;
const SYNC_SECONDS = 3;
/** At each node, for the counts of transactions. */
const SYNCS_COUNTED = 5_000;
const MAIL_CONNECTIONS = 20;
/** At each node. */
const MAILS = 1_000;
/** Of the first node alone, and over all of them. */
const SOCKETS = 10_000;
const REACH_ROUNDS = 50;
const REACH_MAX_MS = 50;
const PUSH_ROUNDS = 7;
const PUSH_TIMES_MAX = 3;
/** Counts of single connections may differ by this share. */
const SAME = 1.02;
/** PostgreSQL shows the count of a connection that rests within 10 s. */
const COUNTED_MS = 11_000;

type Nodes = readonly RunningService[];

/**
 * Does something with the first node alone and with all, in turn.
 *
 * @param work answers operations per second, in all
 */
async function beside<Node>(
  work: (some: readonly Node[]) => Promise<number>,
  all: readonly Node[],
) {
  const sides = { one: () => work(all.slice(0, 1)), three: () => work(all) };
  for (const warmUp of Object.values(sides)) await warmUp();
  return interleave(ROUNDS, sides);
}

/** Counts transactions of a database; a statement outside of one counts as one. */
class TransactionCounter {
  readonly #client: Client;
  /** Of nodes that have no clients, in a second. */
  readonly #resting: number;

  private constructor(client: Client, resting: number) {
    this.#client = client;
    this.#resting = resting;
  }

  static async start(client: Client): Promise<TransactionCounter> {
    await delay(COUNTED_MS);
    const counter = new TransactionCounter(client, 0);
    const [count, seconds] = await counter.#countIn(() => delay(COUNTED_MS));
    return new TransactionCounter(client, count / seconds);
  }

  /** Transactions of one operation. */
  async each(operations: number, work: () => Promise<unknown>): Promise<number> {
    const [count, seconds] = await this.#countIn(work);
    return (count - this.#resting * seconds) / operations;
  }

  async #countIn(work: () => Promise<unknown>): Promise<[count: number, seconds: number]> {
    const from = performance.now();
    const before = await this.#read();
    await work();
    await delay(COUNTED_MS);
    return [(await this.#read()) - before, (performance.now() - from) / 1_000];
  }

  async #read(): Promise<number> {
    const { rows } = await this.#client.query<{ count: string }>(
      'select xact_commit + xact_rollback as count from pg_stat_database where datname = current_database()',
    );
    return Number(rows[0]?.count);
  }
}

async function measureSyncs(
  nodes: Nodes,
  accounts: readonly SeededAccount[],
  counter: TransactionCounter,
): Promise<Figure[]> {
  const tokens = await makeTokens(nodes[0]?.port ?? 0, accounts);
  const requests = accounts.map(({ uidvalidity, token }, at) =>
    syncRequest(tokens[at] ?? '', uidvalidity, token),
  );
  const loaded = nodes.map(({ port }) => ({
    target: { port, connections: CONNECTIONS, requests },
    generator: startWorker<HttpLoad, Played>('load-http.ts'),
  }));
  const play = (some: typeof loaded, end: Pick<HttpLoad, 'seconds' | 'count'>) =>
    Promise.all(some.map(({ target, generator }) => generator.ask({ ...target, ...end })));
  try {
    const rates = await beside(async (some) => {
      const played = await play([...some], { seconds: SYNC_SECONDS });
      return played.reduce((sum, { answers, seconds }) => sum + answers / seconds, 0);
    }, loaded);
    const countOf = (some: typeof loaded) =>
      counter.each(some.length * SYNCS_COUNTED, () => play(some, { count: SYNCS_COUNTED }));
    const one = await countOf(loaded.slice(0, 1));
    const three = await countOf(loaded);
    return [
      atLeast('sync, no change, three nodes against one', 'req/s', rates.three, rates.one, 1),
      atMost('transactions of a sync, three nodes against one', '', [three], [one], SAME),
    ];
  } finally {
    await Promise.all(loaded.map(({ generator }) => generator.stop()));
  }
}

async function measureMail(
  nodes: Nodes,
  accounts: readonly SeededAccount[],
  folder: string,
  counter: TransactionCounter,
): Promise<Figure[]> {
  const path = join(folder, 'message');
  writeFileSync(path, message20K());
  const [first = '', ...others] = accounts.map(({ address }) => address);
  const recipients: SmtpLoad['recipients'] = [first, ...others];
  const loaded = nodes.map(({ smtpPort: port }) => ({
    load: { port, connections: MAIL_CONNECTIONS, messages: MAILS, recipients, path },
    generator: startWorker<SmtpLoad, SmtpSent>('load-smtp.ts'),
  }));
  const send = async (some: readonly (typeof loaded)[number][]) => {
    const sent = await Promise.all(some.map(({ load, generator }) => generator.ask(load)));
    return sent.reduce((sum, { seconds }) => sum + MAILS / seconds, 0);
  };
  try {
    const rates = await beside(send, loaded);
    const countOf = (some: typeof loaded) => counter.each(some.length * MAILS, () => send(some));
    const one = await countOf(loaded.slice(0, 1));
    const three = await countOf(loaded);
    return [
      atLeast('SMTP, 20 KB, three nodes against one', 'msg/s', rates.three, rates.one, 1),
      atMost('transactions of a message, three nodes against one', '', [three], [one], SAME),
    ];
  } finally {
    await Promise.all(loaded.map(({ generator }) => generator.stop()));
  }
}

/** How soon a change on the first node comes to a socket on the second one, beside a socket on the first. */
async function measureReach([first, second]: Nodes, [near, far]: readonly SeededAccount[]) {
  if (!(first && second && near && far)) throw new Error('too few nodes or accounts');
  const listen = async (account: SeededAccount, { port }: RunningService) => {
    const client = startWorker<SocketsTask, number>('load-sockets.ts');
    const [bearer = ''] = await makeTokens(port, [account]);
    await client.ask({ do: 'open', port, greetings: 1, tokens: [bearer] });
    const trigger = (request: string) => client.ask({ do: 'trigger', port: first.port, request });
    const headers = { 'content-type': 'application/json', authorization: `Bearer ${bearer}` };
    let round = 0;
    return {
      flag() {
        const change = { [round++ % 2 === 0 ? 'add' : 'remove']: ['\\Flagged'] };
        const body = JSON.stringify({ mailbox: 'INBOX', uids: [1], ...change });
        return trigger(writeRequest('POST', '/mail/flags', headers, body));
      },
      event: () => trigger(eventsRequest(writeBatch([account.address], 1, round++))),
      stop: () => client.stop(),
    };
  };
  const [here, there] = [await listen(near, first), await listen(far, second)];
  try {
    const [flags, events] = [
      await interleave(REACH_ROUNDS, { near: here.flag, far: there.flag }),
      await interleave(REACH_ROUNDS, { near: here.event, far: there.event }),
    ];
    const figure = (what: string, { near: own, far: other }: typeof flags): Figure => ({
      ...atMost(`${what} on one node, told by another, beside by itself`, 'ms', other, own, 0),
      target: `<= ${REACH_MAX_MS} ms`,
      met: median(other) <= REACH_MAX_MS,
    });
    return [figure('flag', flags), figure('mail server event', events)];
  } finally {
    await Promise.all([here.stop(), there.stop()]);
  }
}

/** @param accounts two for each socket: of the first node alone, and of all */
async function measurePush(nodes: Nodes, accounts: readonly SeededAccount[]): Promise<Figure[]> {
  const port = nodes[0]?.port ?? 0;
  const open = async (own: readonly SeededAccount[], some: Nodes) => {
    const clients = startWorker<SocketsTask, number>('load-sockets.ts');
    const tokens = await makeTokens(port, own);
    for (const [at, node] of some.entries()) {
      const share = tokens.filter((_, index) => index % some.length === at);
      await clients.ask({ do: 'open', port: node.port, greetings: 1, tokens: share });
    }
    const users = own.map(({ address }) => address);
    let round = 0;
    const push = () => {
      const request = eventsRequest(writeBatch(users, users.length, round++));
      return clients.ask({ do: 'trigger', port, request });
    };
    return { push, stop: () => clients.stop() };
  };
  const one = await open(accounts.slice(0, SOCKETS), nodes.slice(0, 1));
  const three = await open(accounts.slice(SOCKETS), nodes);
  try {
    const times = await interleave(PUSH_ROUNDS, { one: one.push, three: three.push });
    const name = `${SOCKETS} events to ${SOCKETS} sockets, last arrival, three nodes against one`;
    return [atMost(name, 'ms', times.three, times.one, PUSH_TIMES_MAX)];
  } finally {
    await Promise.all([one.stop(), three.stop()]);
  }
}

export const nodes: Benchmark = {
  name: 'nodes',
  async run({ postgres }: BenchmarkOptions) {
    // On SQLite there is one node.
    if (postgres === undefined) return [];
    const redis = await startRedis();
    const place = await makePlace(postgres);
    const { dataDir, databaseUrl } = place;
    const client = new Client({ connectionString: databaseUrl });
    const running: RunningService[] = [];
    try {
      await client.connect();
      console.log(`Making ${ACCOUNTS + 2 * SOCKETS} accounts ...`);
      const seeder = startWorker<Seed, SeededAccount[]>('seed.ts');
      const seeds: AccountSeed[] = [
        ...Array.from({ length: ACCOUNTS }, () => ({ messages: MESSAGES })),
        ...Array.from({ length: 2 * SOCKETS }, () => ({})),
      ];
      const accounts = await seeder.ask({ dataDir, databaseUrl, accounts: seeds });
      await seeder.stop();
      const env = { REDIS_URL: redis.url, HTTP_MAX_CONNECTIONS: String(2 * SOCKETS) };
      for (let at = 0; at < NODES; at++) {
        running.push(await startService(dataDir, [], { databaseUrl, env }));
      }
      const counter = await TransactionCounter.start(client);
      const withMail = accounts.slice(0, ACCOUNTS);
      return [
        ...(await measureReach(running, withMail)),
        ...(await measureSyncs(running, withMail, counter)),
        ...(await measureMail(running, withMail, dataDir, counter)),
        ...(await measurePush(running, accounts.slice(ACCOUNTS))),
      ];
    } finally {
      await Promise.all(running.map((service) => service.stop()));
      await client.end();
      await place.remove();
      await redis.stop();
    }
  },
};
