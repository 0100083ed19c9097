/**
 * `GET /v2/events` of two nodes on one PostgreSQL, while both write and transactions commit in another order than they
 * began in. Readers go on from their cursor after they broke off, and after the node was killed that they read from. Each
 * has every event, once, in one order.
 */
import assert from 'node:assert/strict';
import { mkdtemp } from 'node:fs/promises';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import { writeEvents } from '../../src/tenants/events/events.ts';
import { atEnd } from '../support/at-end.ts';
import { openTestDatabase } from '../support/databases.ts';
import { ROOT } from '../support/process.ts';
import { API_KEY, type TestClient } from '../support/service.ts';
import { EventBackend } from './event-backend.ts';
import { LONG_MS, until } from './mail-load.ts';
import { startRedis } from './redis.ts';
import { RunningNodes } from './running-nodes.ts';

/** At each node through its API, and as many in transactions that stay open for a while. */
const WRITERS = 4;
/** Milliseconds; a transaction of ours stays open up to so long. */
const OPEN_MS = 150;
/** Streams that a user may have. */
const PLACES = 10;
/** A reader breaks off after so many events at most. */
const EVENTS_MAX = 12;

const { database, location } = await openTestDatabase('postgres');
const redis = await startRedis();
atEnd(() => redis.stop());

/** Reads the stream of one node, or the other's where that does not answer, and breaks off again and again. */
class Reader {
  readonly seen: string[] = [];
  readonly #nodes: readonly TestClient[];
  readonly #query: string;
  #isOver = false;
  readonly #reading: Promise<void>;

  /** @param nodes the first of them is read from where it answers */
  constructor(userId: string, nodes: readonly TestClient[], form: 'after' | 'Last-Event-ID') {
    this.#nodes = nodes;
    this.#query = `/v2/events?user_id=${userId}`;
    this.#reading = this.#read(form);
  }

  async #read(form: 'after' | 'Last-Event-ID'): Promise<void> {
    for (let round = 0; !this.#isOver; round++) {
      for (const { url } of this.#nodes) {
        const cursor = this.seen.at(-1) ?? '0';
        const path = form === 'after' ? `${this.#query}&after=${cursor}` : this.#query;
        const own = form === 'after' ? undefined : { 'last-event-id': cursor };
        // A node that was killed: the other is asked.
        const went = await this.#stream(url + path, own, 1 + (round % EVENTS_MAX)).then(
          () => true,
          (error: unknown) => error instanceof assert.AssertionError && Promise.reject(error),
        );
        if (went) break;
        await pause(50);
      }
    }
  }

  /** Takes so many events, and leaves in the middle of what comes. */
  async #stream(url: string, own: object | undefined, count: number): Promise<void> {
    const leaving = new AbortController();
    const headers = { accept: 'text/event-stream', 'x-api-key': API_KEY, ...own };
    const late = setTimeout(() => leaving.abort(), 1_000);
    try {
      const answer = await fetch(url, { headers, signal: leaving.signal });
      // A node that is just starting; and streams of the killed one count until it is found dead.
      if (answer.status >= 500 || answer.status === 429) throw new Error(`${answer.status}`);
      assert.equal(answer.status, 200);
      let text = '';
      let left = count;
      for await (const piece of answer.body?.pipeThrough(new TextDecoderStream()) ?? []) {
        const blocks = `${text}${piece}`.split('\n\n');
        text = blocks.pop() ?? '';
        for (const block of blocks) {
          const id = /^id: (.*)/m.exec(block)?.[1];
          if (!id || !/^data:/m.test(block)) continue;
          this.seen.push(id);
          if (--left === 0) return;
        }
      }
    } catch (error) {
      // What it had taken counts; it goes on from there.
      if (!leaving.signal.aborted) throw error;
    } finally {
      clearTimeout(late);
      leaving.abort();
    }
  }

  end(): Promise<void> {
    this.#isOver = true;
    return this.#reading;
  }
}

async function readAll({ v2 }: TestClient, userId: string): Promise<string[]> {
  const cursors: string[] = [];
  for (let after = '0'; ; ) {
    const { body } = await v2('GET', `/v2/events?user_id=${userId}&wait=0&limit=50&after=${after}`);
    cursors.push(...body.items.map(({ cursor }: { cursor: string }) => cursor));
    ({ cursor: after } = body);
    if (!body.has_more) return cursors;
  }
}

test('each reader has every event once and in one order, whoever writes, breaks off or is killed', async (t) => {
  const nodes = await RunningNodes.start({
    DATABASE_URL: location,
    REDIS_URL: redis.url,
    OUTBOUND_ALLOW_CIDRS: '127.0.0.0/8',
  });
  const [a, b] = nodes.each;
  const account = await a.makeAccount();
  const { userId } = account;
  const backend = new EventBackend({
    url: nodes.balanced.url,
    apiKey: API_KEY,
    userId,
    file: join(await mkdtemp(join(ROOT, 'events-')), 'cursors'),
  });
  t.after(() => backend.stop());
  backend.restart();
  const before = await readAll(a, userId);
  const readers = [
    new Reader(userId, [a, b], 'after'),
    new Reader(userId, [a, b], 'Last-Event-ID'),
    new Reader(userId, [b, a], 'Last-Event-ID'),
  ];
  t.after(() => Promise.allSettled(readers.map((reader) => reader.end())));

  let isOver = false;
  t.after(() => {
    isOver = true;
  });
  let written = 0;
  const write = async (node: TestClient, at: number) => {
    const { id } = await b.addAccount(account, `writer${at}`);
    for (let number = 0; !isOver; number++) {
      const status = number % 2 === 0 ? 'suspended' : 'active';
      const change = { user_id: userId, status };
      // Of a node that is killed it is not known whether it was done.
      await node.v2('PUT', `/v2/email-accounts/${id}`, change).then(
        ({ status: code, body }) => assert.equal(code, 200, JSON.stringify(body)),
        (error: unknown) => assert.ok(!(error instanceof SyntaxError), String(error)),
      );
      await pause(20);
    }
  };
  const domain = await database.read
    .selectFrom('domains')
    .select('id')
    .where('name', '=', account.domain)
    .executeTakeFirstOrThrow();
  const holdOpen = async (at: number) => {
    for (let number = 0; !isOver; number++) {
      await database.write(async (tx) => {
        const data = { detail: `${at}.${number}` };
        const event = { type: 'delivery.failed' as const, domainId: domain.id, data };
        await writeEvents(tx, [event], Date.now());
        await pause(Math.random() * OPEN_MS);
      });
      written++;
    }
  };
  const writing = Array.from({ length: WRITERS }, (_, at) => [
    write(nodes.each[at % 2] ?? a, at),
    holdOpen(at),
  ]).flat();

  await until('much was written', () => written > 60);
  backend.restart();
  await nodes.kill(0);
  await until('more was written', () => written > 120);
  backend.restart();
  await until('still more was written', () => written > 180);
  isOver = true;
  await Promise.all(writing);
  // What this process writes wakes nobody at the nodes: a stream that is waiting reads it with what a node writes next.
  await b.addAccount(account, 'last');

  const { count } = await database.read
    .selectFrom('events')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .where('user_id', '=', userId)
    .executeTakeFirstOrThrow();
  let all: string[] = [];
  // An older transaction of another suite on this server keeps the newest back for as long as it is open.
  await until('all events can be read', async () => {
    all = await readAll(b, userId);
    return all.length === Number(count);
  });
  assert.equal(new Set(all).size, all.length);
  assert.ok(all.length > before.length + written);
  const hasAll = () => [...readers, backend].every(({ seen }) => seen.length >= all.length);
  await until('each reader has the last event', hasAll).catch(() => {});
  await Promise.all(readers.map((reader) => reader.end()));
  for (const { seen } of readers) assert.deepEqual(seen, all);
  assert.deepEqual(backend.seen, all, 'the program that was killed');
  t.diagnostic(`${all.length} events`);

  // Clients and a node were killed meanwhile. HAProxy notices a client that is gone by a comment that it cannot pass on.
  backend.stop();
  const openAll = async () => {
    const streams = Array.from({ length: PLACES }, () => new AbortController());
    const url = `${b.url}/v2/events?user_id=${userId}`;
    const headers = { accept: 'text/event-stream', 'x-api-key': API_KEY };
    const answers = await Promise.all(streams.map(({ signal }) => fetch(url, { headers, signal })));
    for (const stream of streams) stream.abort();
    // The node has to notice these, too, before the next ones come.
    await pause(500);
    return answers.every(({ status }) => status === 200);
  };
  await until('all places of the user are free', openAll, LONG_MS);

  // Nobody tells a client that lacks some that it has all.
  const [oldest = '', kept = ''] = [all[3], all[20]];
  const rows = database.read.selectFrom('events').select('id').orderBy('xid').orderBy('id');
  const gone = (await rows.where('user_id', '=', userId).limit(10).execute()).map(({ id }) => id);
  await database.write((tx) => tx.deleteFrom('events').where('id', 'in', gone).execute());
  const read = (query: string) => b.v2('GET', `/v2/events?user_id=${userId}&${query}`);
  const { status, body } = await read(`after=${oldest}`);
  assert.deepEqual([status, body.code, body.oldest], [410, 'cursor_expired', '0']);
  const next = await read(`after=${kept}&limit=1`);
  assert.equal(next.body.items[0].cursor, all[21]);
});
