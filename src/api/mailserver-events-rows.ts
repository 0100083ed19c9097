import { hash } from 'node:crypto';
import { sql } from 'kysely';
import type { Database, Queries } from '../database/database.ts';

const DAY_SECONDS = 24 * 60 * 60;
/** Rows removed in one transaction, packed ones of 10 KB among them: everybody's writes wait for it. */
const CHUNK = 100;
/** Bytes of a digest: 64 bits, which no two ids of a day share. */
export const DIGEST_BYTES = 8;
/** What the keys of single events begin with. */
export const SINGLE = '#';

/** A short stand-in for an event id, one character a byte. */
export function digestOf(eventId: string): string {
  return hash('sha256', eventId, 'binary').slice(0, DIGEST_BYTES);
}

/** The present second, and the one up to which events are forgotten. */
export function timesOf(instant: number): { readonly now: number; readonly forgotten: number } {
  const now = Math.ceil(instant / 1000);
  return { now, forgotten: now - DAY_SECONDS };
}

/** Events as rows of their own, under their digests. */
export class EventRows {
  readonly #database: Database;
  readonly #now: () => number;

  constructor(database: Database, now: () => number) {
    this.#database = database;
    this.#now = now;
  }

  /** Remembers events; answers for each whether it was not known. */
  add(eventIds: readonly string[]): Promise<readonly boolean[]> {
    return this.#database.write((tx) => this.addIn(tx, eventIds));
  }

  /** The same within a transaction. */
  async addIn(tx: Queries, eventIds: readonly string[]): Promise<readonly boolean[]> {
    const { now, forgotten } = timesOf(this.#now());
    const keys = eventIds.map(keyOf);
    // In order, so that batches with the same events do not lock each other out.
    const each = this.#each([...new Set(keys)].sort());
    const { rows } = await sql<{ event_id: string }>`
      insert into mailserver_events (event_id, received_at)
      select value, cast(${now * 1000} as bigint) from ${each} where true
      on conflict (event_id) do update set received_at = excluded.received_at
        where mailserver_events.received_at <= ${forgotten * 1000}
      returning event_id`.execute(tx);
    const fresh = new Set(rows.map(({ event_id }) => event_id));
    return keys.map((key) => fresh.delete(key));
  }

  /** Which of the events have a row of their own, by their place. */
  async findIn(tx: Queries, eventIds: readonly string[]): Promise<readonly boolean[]> {
    const { forgotten } = timesOf(this.#now());
    const keys = eventIds.map(keyOf);
    const { rows } = await sql<{ event_id: string }>`
      select event_id from ${this.#each(keys)}
      join mailserver_events on event_id = value and received_at > ${forgotten * 1000}`.execute(tx);
    const known = new Set(rows.map(({ event_id }) => event_id));
    return keys.map((key) => known.has(key));
  }

  /** Removes rows, packed ones too, that are older than a day. */
  async prune(stopping: () => boolean): Promise<void> {
    const until = timesOf(this.#now()).forgotten * 1000;
    while (!stopping() && (await this.#pruneSome(until)) === CHUNK);
  }

  /** The one place where the engines unpack an array in their own way. */
  #each(keys: readonly string[]) {
    const json = JSON.stringify(keys);
    return this.#database.engine === 'sqlite'
      ? sql`json_each(${json})`
      : sql`jsonb_array_elements_text(${json}::jsonb) as keys (value)`;
  }

  async #pruneSome(until: number): Promise<number> {
    const result = await this.#database.write((tx) =>
      tx
        .deleteFrom('mailserver_events')
        .where('event_id', 'in', (query) =>
          query
            .selectFrom('mailserver_events')
            .select('event_id')
            .where('received_at', '<=', until)
            .orderBy('received_at')
            .limit(CHUNK),
        )
        .executeTakeFirst(),
    );
    return Number(result.numDeletedRows);
  }
}

function keyOf(eventId: string): string {
  return SINGLE + Buffer.from(digestOf(eventId), 'latin1').toString('base64url');
}
