import { sql } from 'kysely';
import type { Database, Queries } from '../../platform/database/database.ts';
import { DAY_MS } from '../../platform/time/time.ts';

/** Old rows removed for each new one, so that the table hardly grows beyond one day. */
const REMOVED_FOR_EACH = 2;

interface AddedEvents {
  /** Events that were not known before. */
  readonly fresh: ReadonlySet<string>;
  /**
   * The error of a failed database. Then it is unknown whether the fresh events are remembered, since the connection
   * may have been lost after the commit.
   */
  readonly failure?: unknown;
}

/**
 * Which events came in the last day: the table `mailserver_events`, one row for each. Older rows are removed in the
 * same transactions that add new ones.
 */
export class KnownEvents {
  readonly #database: Database;
  readonly #now: () => number;

  constructor(database: Database, now: () => number) {
    this.#database = database;
    this.#now = now;
  }

  /** Remembers events for a day; repetitions among them are allowed. */
  async add(eventIds: readonly string[]): Promise<AddedEvents> {
    let fresh: ReadonlySet<string> = new Set();
    try {
      await this.#database.write(async (tx) => {
        // A write may run again.
        fresh = new Set();
        const inserted = await this.#insert(tx, eventIds);
        await this.#removeOld(tx, REMOVED_FOR_EACH * eventIds.length);
        fresh = inserted;
      });
      return { fresh };
    } catch (error) {
      return { fresh, failure: error };
    }
  }

  async #insert(tx: Queries, eventIds: readonly string[]): Promise<ReadonlySet<string>> {
    const now = this.#now();
    // Sorted, so that batches with the same events cannot deadlock.
    const ids = JSON.stringify([...new Set(eventIds)].sort());
    // The one place where the engines unpack an array differently.
    const each =
      this.#database.engine === 'sqlite'
        ? sql`json_each(${ids})`
        : sql`jsonb_array_elements_text(${ids}::jsonb) as ids (value)`;
    const { rows } = await sql<{ event_id: string }>`
      insert into mailserver_events (event_id, received_at)
      select value, cast(${now} as bigint) from ${each} where true
      on conflict (event_id) do update set received_at = excluded.received_at
        where mailserver_events.received_at <= ${now - DAY_MS}
      returning event_id`.execute(tx);
    return new Set(rows.map(({ event_id }) => event_id));
  }

  async #removeOld(tx: Queries, most: number): Promise<void> {
    const old = tx
      .selectFrom('mailserver_events')
      .select('event_id')
      .where('received_at', '<=', this.#now() - DAY_MS)
      .orderBy('received_at')
      .limit(most)
      // Another node may be removing the same rows.
      .forUpdate()
      .skipLocked();
    await tx.deleteFrom('mailserver_events').where('event_id', 'in', old).execute();
  }
}
