/** Places for readers of `GET /v2/events`: whenever a client goes away, the place that it has, or gets, is free again. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { get } from 'node:http';
import { suite, test } from 'node:test';
import { apiKey, type RunningApi, startApi } from '../../../test/support/api/start-api.ts';
import { openTestDatabase } from '../../../test/support/databases.ts';
import type { OpenLimit, SharedSlots } from '../../platform/net/net.ts';
import { limitInMemory } from '../../platform/net/net.ts';
import { Events } from '../../tenants/events/events.ts';

/** More than all places of a user. */
const READERS = 15;
const PLACES = 10;

/** Holds up whoever comes, until it is opened. */
class Gate {
  #open = Promise.resolve();
  #let = () => {};
  #arrived = 0;
  #tell = () => {};

  close(): void {
    ({ promise: this.#open, resolve: this.#let } = Promise.withResolvers<void>());
    this.#arrived = 0;
  }

  open(): void {
    this.#let();
  }

  async pass(): Promise<void> {
    this.#arrived++;
    this.#tell();
    await this.#open;
  }

  /** Until so many wait at it. */
  async met(count: number): Promise<void> {
    while (this.#arrived < count) {
      const { promise, resolve } = Promise.withResolvers<void>();
      this.#tell = resolve;
      await promise;
    }
  }
}

/** Counts as several nodes do it. */
class CountedSlots implements SharedSlots {
  readonly gate = new Gate();
  held = 0;

  async take(_key: string, wanted: number, most: number): Promise<number> {
    await this.gate.pass();
    const taken = Math.min(wanted, most - this.held);
    this.held += taken;
    return taken;
  }

  give(_key: string, amount: number): void {
    this.held -= amount;
    assert.ok(this.held >= 0, 'a place was given back twice');
  }
}

const admission = new Gate();
const reading = new Gate();
const slots = new CountedSlots();
const openLimit: OpenLimit = (options) => {
  const limit = limitInMemory(options);
  return { ...limit, take: (key) => admission.pass().then(() => limit.take(key)) };
};
const { database } = await openTestDatabase('sqlite');
/** Reads of another database: nothing happens there. */
class SlowEvents extends Events {
  override async read(...parts: Parameters<Events['read']>): ReturnType<Events['read']> {
    await reading.pass();
    return super.read(...parts);
  }
}
const events = new SlowEvents(database);
const api: RunningApi = await startApi('sqlite', {
  rateLimitPerMinute: 100_000,
  openLimit,
  slots,
  events,
});

suite('a place of a reader of events is free again', () => {
  const connections = new Set<unknown>();
  api.app.server.on('connection', (socket) => {
    connections.add(socket);
    socket.once('close', () => connections.delete(socket));
  });

  /** @param query of the request; a stream where it asks for no `wait` */
  function begin(query: string) {
    const accept = query.includes('wait') ? 'application/json' : 'text/event-stream';
    const url = `${api.url}/v2/events?user_id=demo&${query}`;
    const request = get(url, { agent: false, headers: { 'x-api-key': apiKey, accept } });
    request.on('error', () => {});
    return request;
  }

  /** Clients that go away, and the server knows it. */
  async function leave(requests: readonly ReturnType<typeof begin>[]): Promise<void> {
    for (const request of requests) request.destroy();
    while (connections.size > 0) await new Promise((resolve) => setImmediate(resolve));
  }

  /** Readers for all places, and what they are answered. */
  async function fill() {
    const readers = Array.from({ length: PLACES }, () => begin(''));
    const answers = await Promise.all(readers.map((reader) => once(reader, 'response')));
    const isFull = answers.every(([{ statusCode }]) => statusCode === 200);
    return { readers, isFull };
  }

  /** All places are free, and no more than there are. */
  async function checkFree(): Promise<void> {
    // Those that left may be about to give their places back; one that waits for events has its place for 50 s.
    const deadline = Date.now() + 20_000;
    for (;;) {
      const { readers, isFull } = await fill();
      if (isFull) {
        const [refused] = await once(begin('wait=0'), 'response');
        assert.equal(refused.statusCode, 429);
      }
      await leave(readers);
      if (isFull) break;
      assert.ok(Date.now() < deadline, `${slots.held} places are taken yet`);
    }
  }

  for (const [form, query] of [
    ['a stream', ''],
    ['a request that waits', 'wait=50'],
  ] as const) {
    for (const [moment, gate, most] of [
      ['while it waits to be admitted', admission, READERS],
      ['while its place is asked for', slots.gate, READERS],
      ['while events are read for it', reading, PLACES],
    ] as const) {
      test(`when ${form} goes away ${moment}`, { timeout: 60_000 }, async () => {
        for (let round = 0; round < 3; round++) {
          gate.close();
          const readers = Array.from({ length: READERS }, () => begin(query));
          await gate.met(most);
          await leave(readers);
          gate.open();
          await checkFree();
        }
      });
    }

    test(`when ${form} goes away as soon as it is answered, or refused`, {
      timeout: 60_000,
    }, async () => {
      for (let round = 0; round < 10; round++) {
        const readers = Array.from({ length: READERS }, (_, at) =>
          begin(at % 3 === 0 ? `${query}&after=z-0-1` : at % 3 === 1 ? query : `${query}&after=0`),
        );
        await Promise.race(readers.map((reader) => once(reader, 'response')));
        await leave(readers);
      }
      await checkFree();
    });
  }
});
