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

interface Digest {
  readonly id: string;
  readonly bytes: string;
  readonly high: number;
  readonly low: number;
}

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

  async add(eventIds: readonly string[]): Promise<ReadonlySet<string>> {
    await this.#load();
    const digests = eventIds.map(readDigest);
    const marked: Digest[] = [];
    try {
      // Looked up within the write: writes run one after the other, so that an event in two batches
      // at once is new in the first. If that one fails to commit, the second does too, or runs after
      // the marks are off again.
      return await this.#database.write((tx) => this.#addIn(tx, digests, marked));
    } catch (error) {
      for (const { high, low } of marked) this.#recent.remove(high, low);
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

  async #addIn(
    tx: Queries,
    digests: readonly Digest[],
    marked: Digest[],
  ): Promise<ReadonlySet<string>> {
    const { now, forgotten } = timesOf(this.#now());
    let fresh = digests.filter(({ high, low }) => !this.#recent.has(high, low, forgotten));
    if (fresh.length === 0) return new Set();
    if (this.#recent.size + fresh.length > this.#memoryMax) {
      this.#overflowed = true;
      return this.#rows.addIn(tx, idsOf(fresh));
    }
    if (this.#overflowed) {
      const known = await this.#rows.findIn(tx, idsOf(fresh));
      fresh = fresh.filter(({ id }) => !known.has(id));
    }
    if (fresh.length > 0) await this.#pack(tx, fresh, now);
    for (const digest of fresh) {
      this.#recent.add(digest.high, digest.low, now);
      marked.push(digest);
    }
    return new Set(idsOf(fresh));
  }

  async #pack(tx: Queries, digests: readonly Digest[], now: number): Promise<void> {
    const bytes = Buffer.from(digests.map((digest) => digest.bytes).join(''), 'latin1');
    await tx
      .insertInto('mailserver_events')
      .values({
        event_id: `${now.toString(36)}:${bytes.toString('base64')}`,
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
    const bytes = Buffer.from(packed.slice(packed.indexOf(':') + 1), 'base64');
    for (let at = 0; at + DIGEST_BYTES <= bytes.length; at += DIGEST_BYTES) {
      this.#recent.add(bytes.readUInt32BE(at), bytes.readUInt32BE(at + 4), time);
    }
  }
}

function readDigest(id: string): Digest {
  const bytes = digestOf(id);
  return { id, bytes, high: readUint32(bytes, 0), low: readUint32(bytes, 4) };
}

function readUint32(bytes: string, at: number): number {
  const high = (bytes.charCodeAt(at) << 8) | bytes.charCodeAt(at + 1);
  return high * 65_536 + ((bytes.charCodeAt(at + 2) << 8) | bytes.charCodeAt(at + 3));
}

function idsOf(digests: readonly Digest[]): string[] {
  return digests.map(({ id }) => id);
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
