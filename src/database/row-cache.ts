import type { Database } from './engine.ts';
import type { TableName, TableVersion, Watched } from './table-versions.ts';

interface Entry<Value> {
  readonly version: number;
  readonly value: Value;
}

export interface RowCacheOptions<Value> {
  /** Entries kept; beyond it the one read longest ago goes. */
  readonly max: number;
  /** Whether a value is small enough to be kept; all are when left out. */
  readonly keeps?: (value: Value) => boolean;
  /** `fixed columns` where a value has only what no update ever changes; `rows` when left out. */
  readonly of?: Watched;
}

/**
 * Keeps what was read, for as long as nothing was committed to the tables it comes from. Where other
 * nodes write as well (PostgreSQL) nothing is kept and every call reads.
 */
export class RowCache<Key, Value> {
  readonly #version: TableVersion | undefined;
  readonly #max: number;
  readonly #keeps: (value: Value) => boolean;
  readonly #entries = new Map<Key, Entry<Value>>();

  /** @param tables all that a value is read from */
  constructor(
    database: Database,
    tables: readonly TableName[],
    { max, keeps = () => true, of = 'rows' }: RowCacheOptions<Value>,
  ) {
    this.#version = database.watch?.(tables, of);
    this.#max = max;
    this.#keeps = keeps;
  }

  /** The value of a key as it is now; what is not there is looked for each time. */
  async get(key: Key, read: () => Promise<Value | undefined>): Promise<Value | undefined> {
    if (!this.#version) return read();
    const kept = this.#entries.get(key);
    // Before the query: a commit in between makes the entry too old, never too young.
    const version = this.#version.value;
    if (kept?.version === version) return kept.value;
    const value = await read();
    this.#entries.delete(key);
    if (value === undefined || !this.#keeps(value)) return value;
    this.#entries.set(key, { version, value });
    if (this.#entries.size > this.#max) {
      const [oldest] = this.#entries.keys();
      if (oldest !== undefined) this.#entries.delete(oldest);
    }
    return value;
  }
}
