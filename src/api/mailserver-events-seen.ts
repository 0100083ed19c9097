/**
 * Which mail server events were taken in the last day: the table `mailserver_events`.
 *
 * On SQLite the keys have two generations, told apart by their first letter: new ones (`n`) lie
 * together and are settled (`s`) by the thousand, in the order of their keys. Ids are often random,
 * and a random key dirties a page of its own: straight into one large index, a thousand ids write
 * 4 MB of log, and take two to three times as long from 50,000 rows on. PostgreSQL, where several
 * nodes may insert the same id at once, keeps to one generation.
 */
import { hash } from 'node:crypto';
import { sql } from 'kysely';
import type { Database } from '../database/database.ts';

const REMEMBERED_MS = 24 * 60 * 60 * 1000;
/** Keys of the new generation beyond which they are settled. */
const NEW_MAX = 32_000;
/** Rows moved or removed in one transaction, some 15 ms: everybody's writes wait for it. */
const CHUNK = 4_000;
const PRUNE_EVERY_MS = 60_000;
/** Ids up to the length of a ULID are their own key: those that count up lie together then. */
const PLAIN_KEY_MAX = 26;
/** Characters of a base64 digest, 96 bits: no two ids of any day have the same. */
const DIGEST_LENGTH = 16;

/** The key of an event id: short, whatever the id is. */
export function keyOf(eventId: string): string {
  if (eventId.length <= PLAIN_KEY_MAX && !eventId.startsWith('#')) return eventId;
  return `#${hash('sha256', eventId, 'base64url').slice(0, DIGEST_LENGTH)}`;
}

export class SeenEvents {
  readonly #database: Database;
  readonly #now: () => number;
  #newKeys = 0;
  #pruneAt = 0;

  constructor(database: Database, now: () => number) {
    this.#database = database;
    this.#now = now;
  }

  /**
   * Remembers events for a day, durably.
   *
   * @param keys no two the same
   * @returns the keys that were not known
   */
  async add(keys: readonly string[]): Promise<Set<string>> {
    const now = this.#now();
    const insert = this.#database.engine === 'sqlite' ? addNew : addOnPostgres;
    // In their order, so that keys which are settled together lie together.
    const query = insert(JSON.stringify(keys.toSorted()), now, now - REMEMBERED_MS);
    const { rows } = await this.#database.write((tx) => query.execute(tx));
    this.#newKeys += rows.length;
    return new Set(rows.map(({ key }) => key));
  }

  /** Whether there is work for {@link tidy}. */
  get untidy(): boolean {
    return this.#settleDue || this.#now() >= this.#pruneAt;
  }

  /** Forgets what is older than a day and settles new keys, in small steps, until it is done. */
  async tidy(stopping: () => boolean): Promise<void> {
    if (this.#settleDue) {
      this.#newKeys = 0;
      while (!stopping() && (await this.#settle()) === CHUNK);
    }
    const now = this.#now();
    if (now < this.#pruneAt) return;
    this.#pruneAt = now + PRUNE_EVERY_MS;
    while (!stopping() && (await this.#prune(now - REMEMBERED_MS)) === CHUNK);
  }

  get #settleDue(): boolean {
    return this.#database.engine === 'sqlite' && this.#newKeys >= NEW_MAX;
  }

  async #settle(): Promise<number> {
    // OR REPLACE: the settled key may be there from an event of more than a day ago.
    const query = sql`
      update or replace mailserver_events set event_id = 's' || substr(event_id, 2)
      where event_id in (
        select event_id from mailserver_events
        where event_id >= 'n' and event_id < 'o' order by event_id limit ${CHUNK}
      )`;
    const result = await this.#database.write((tx) => query.execute(tx));
    return Number(result.numAffectedRows ?? 0);
  }

  async #prune(until: number): Promise<number> {
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

interface AddedKey {
  readonly key: string;
}

/** One statement for all keys; a key from before `forgotten` counts as new. */
function addNew(keys: string, now: number, forgotten: number) {
  return sql<AddedKey>`
    insert into mailserver_events (event_id, received_at)
    select 'n' || value, ${now} from json_each(${keys})
    where not exists (
      select 1 from mailserver_events as settled
      where settled.event_id = 's' || value and settled.received_at > ${forgotten}
    )
    on conflict (event_id) do update set received_at = excluded.received_at
      where mailserver_events.received_at <= ${forgotten}
    returning substr(event_id, 2) as key`;
}

/** The same; in order, so that batches with the same events do not lock each other out. */
function addOnPostgres(keys: string, now: number, forgotten: number) {
  return sql<AddedKey>`
    insert into mailserver_events (event_id, received_at)
    select value, ${now} from jsonb_array_elements_text(${keys}::jsonb) as value order by value
    on conflict (event_id) do update set received_at = excluded.received_at
      where mailserver_events.received_at <= ${forgotten}
    returning event_id as key`;
}
