import { setImmediate as turn } from 'node:timers/promises';
import type { Database, Queries } from '../database/database.ts';
import { RecentDigests } from './mailserver-events-digests.ts';
import {
  DIGEST_BYTES,
  digestOf,
  type EventRows,
  SINGLE,
  timesOf,
} from './mailserver-events-rows.ts';

/** The first text after all that begin with `SINGLE`. */
const SINGLES_END = '$';
/** Rows read at the start before others have a turn. */
const ROWS_A_TURN = 16;

/**
 * Known events on SQLite, whose file one process alone has: digests in memory, and on disk a row
 * for each slice of a batch, `<second>:<digests in base64>`, so that rows are written one after the
 * other. Events for which memory has no room get rows of their own.
 */
export class PackedEvents {
  readonly #database: Database;
  readonly #rows: EventRows;
  readonly #now: () => number;
  readonly #memoryMax: number;
  readonly #recent = new RecentDigests();
  #loaded: Promise<void> | undefined;
  /** Whether events may have rows of their own. */
  #overflowed = false;

  constructor(database: Database, rows: EventRows, now: () => number, memoryMax: number) {
    this.#database = database;
    this.#rows = rows;
    this.#now = now;
    this.#memoryMax = memoryMax;
  }

  async add(eventIds: readonly string[]): Promise<readonly boolean[]> {
    await this.#load();
    const digests = digestsOf(eventIds);
    const marked: number[] = [];
    try {
      // Looked up within the write: writes run one after the other, so that an event in two batches
      // at once is new in the first. If that one fails to commit, the second does too, or runs after
      // the marks are off again.
      return await this.#database.write((tx) => this.#addIn(tx, eventIds, digests, marked));
    } catch (error) {
      this.#unmark(digests, marked);
      throw error;
    }
  }

  async prune(stopping: () => boolean): Promise<void> {
    await this.#load();
    this.#recent.forget(timesOf(this.#now()).forgotten);
    await this.#rows.prune(stopping);
    if (!this.#overflowed) return;
    await this.#database.write(async (tx) => {
      this.#overflowed = await hasSingleRows(tx);
    });
  }

  /** @param marked gets the places of the events that were added to `#recent` */
  async #addIn(
    tx: Queries,
    eventIds: readonly string[],
    digests: Buffer,
    marked: number[],
  ): Promise<readonly boolean[]> {
    // A write may run again: what its first run wrote is gone.
    this.#unmark(digests, marked);
    const { now, forgotten } = timesOf(this.#now());
    const isKnown = (at: number) =>
      this.#recent.has(highOf(digests, at), lowOf(digests, at), forgotten);
    if (this.#recent.size + eventIds.length > this.#memoryMax) {
      this.#overflowed = true;
      const unknown = eventIds.filter((_, at) => !isKnown(at));
      const isNew = (await this.#rows.addIn(tx, unknown)).values();
      return eventIds.map((_, at) => !isKnown(at) && isNew.next().value === true);
    }
    const inRows = this.#overflowed ? await this.#rows.findIn(tx, eventIds) : undefined;
    const answers = eventIds.map((_, at) => {
      if (inRows?.[at] || isKnown(at)) return false;
      this.#recent.add(highOf(digests, at), lowOf(digests, at), now);
      marked.push(at);
      return true;
    });
    if (marked.length > 0) await this.#pack(tx, digests, marked, now);
    return answers;
  }

  #unmark(digests: Buffer, marked: number[]): void {
    for (const at of marked) this.#recent.remove(highOf(digests, at), lowOf(digests, at));
    marked.length = 0;
  }

  async #pack(tx: Queries, digests: Buffer, places: number[], now: number): Promise<void> {
    const packed = Buffer.allocUnsafe(places.length * DIGEST_BYTES);
    for (const [index, at] of places.entries()) {
      const from = at * DIGEST_BYTES;
      digests.copy(packed, index * DIGEST_BYTES, from, from + DIGEST_BYTES);
    }
    await tx
      .insertInto('mailserver_events')
      .values({
        event_id: `${now.toString(36)}:${packed.toString('base64')}`,
        received_at: now * 1000,
      })
      .execute();
  }

  /** Once; one that failed is tried again by the next caller. */
  #load(): Promise<void> {
    this.#loaded ??= this.#readRows().catch((error: unknown) => {
      this.#loaded = undefined;
      throw error;
    });
    return this.#loaded;
  }

  async #readRows(): Promise<void> {
    await this.#database.snapshot(async (queries) => {
      this.#overflowed = await hasSingleRows(queries);
      const rows = queries
        .selectFrom('mailserver_events')
        .select(['event_id', 'received_at'])
        .where('received_at', '>', timesOf(this.#now()).forgotten * 1000)
        .orderBy('received_at')
        .stream(ROWS_A_TURN);
      let read = 0;
      for await (const { event_id, received_at } of rows) {
        if (!event_id.startsWith(SINGLE)) this.#unpack(event_id, received_at / 1000);
        if (++read % ROWS_A_TURN === 0) await turn();
      }
    });
  }

  #unpack(packed: string, time: number): void {
    const digests = Buffer.from(packed.slice(packed.indexOf(':') + 1), 'base64');
    for (let at = 0; (at + 1) * DIGEST_BYTES <= digests.length; at++) {
      this.#recent.add(highOf(digests, at), lowOf(digests, at), time);
    }
  }
}

/** The digests of all ids, one after the other. */
function digestsOf(eventIds: readonly string[]): Buffer {
  return Buffer.from(eventIds.map(digestOf).join(''), 'latin1');
}

function highOf(digests: Buffer, at: number): number {
  return digests.readUInt32BE(at * DIGEST_BYTES);
}

function lowOf(digests: Buffer, at: number): number {
  return digests.readUInt32BE(at * DIGEST_BYTES + 4);
}

async function hasSingleRows(queries: Queries): Promise<boolean> {
  const row = await queries
    .selectFrom('mailserver_events')
    .select('event_id')
    .where('event_id', '>=', SINGLE)
    .where('event_id', '<', SINGLES_END)
    .limit(1)
    .executeTakeFirst();
  return row !== undefined;
}
