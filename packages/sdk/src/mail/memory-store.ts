/** The copy in memory: it ends with the program. Also what a file keeps in memory, and what tests begin with. */
import {
  type Change,
  type Decide,
  type Durability,
  type Key,
  type RangeQuery,
  type Row,
  type Store,
  TABLES,
  type TableName,
} from './store.ts';

/** A copy that ends with the program. Several clients may share one, as tabs share a database. */
export function memoryStore(): MemoryStore {
  return new MemoryStore();
}

/** The copy in the memory of the program. */
export class MemoryStore implements Store {
  /** Of each table: by its key, which is the index without a name, and by its indexes. */
  readonly #tables: Readonly<Record<string, ReadonlyMap<string | undefined, Index>>> =
    Object.fromEntries(
      Object.entries(TABLES).map(([name, { key, indexes }]) => {
        // The key ends the order of rows whose index is the same.
        const others = Object.entries<readonly string[]>(indexes).map(
          ([index, members]) => [index, new Index([...members, ...key])] as const,
        );
        return [name, new Map<string | undefined, Index>([[undefined, new Index(key)], ...others])];
      }),
    );

  async get(table: TableName, key: Key): Promise<Row | undefined> {
    return this.find(table, key);
  }

  async range(query: RangeQuery): Promise<Row[]> {
    return this.look(query);
  }

  async update(
    table: TableName,
    key: Key,
    decide: Decide,
    durability: Durability = 'strict',
  ): Promise<void> {
    this.commit(decide(this.find(table, key)), durability);
  }

  async close(): Promise<void> {}

  /** A store that also keeps the changes elsewhere does that here. */
  protected commit(changes: readonly Change[], _durability: Durability): void {
    this.apply(changes);
  }

  /** As `get`, at once. */
  find(table: TableName, key: Key): Row | undefined {
    return this.#index(table).get(key);
  }

  /** As `range`, at once. */
  look(query: RangeQuery): Row[] {
    return this.#index(query.table, query.index).range(query);
  }

  /** All of the changes, at once. */
  apply(changes: readonly Change[]): void {
    for (const change of changes) {
      const table = 'put' in change ? change.put : change.remove;
      const key = 'put' in change ? TABLES[table].key.map((one) => change.row[one]) : change.key;
      const before = this.find(table, key as Key);
      for (const index of this.#tables[table]?.values() ?? []) {
        if (before) index.remove(before);
        if ('put' in change) index.put(change.row);
      }
    }
  }

  #index(table: TableName, name?: string): Index {
    return this.#tables[table]?.get(name) as Index;
  }
}

interface Entry {
  readonly key: Key;
  readonly row: Row;
}

/** Rows in the order of some of their members. A row without one of the members is not in the index. */
class Index {
  readonly #members: readonly string[];
  readonly #entries: Entry[] = [];

  constructor(members: readonly string[]) {
    this.#members = members;
  }

  get(key: Key): Row | undefined {
    const entry = this.#entries[this.#find(key)];
    return entry && compareKeys(entry.key, key) === 0 ? entry.row : undefined;
  }

  put(row: Row): void {
    const key = this.#keyOf(row);
    if (key) this.#entries.splice(this.#find(key), 0, { key, row });
  }

  remove(row: Row): void {
    const key = this.#keyOf(row);
    if (key) this.#entries.splice(this.#find(key), 1);
  }

  range({ prefix, after, before, reverse = false, limit = Infinity }: RangeQuery): Row[] {
    const start = after ? this.#find([...prefix, ...after], true) : this.#find(prefix);
    const end = before ? this.#find([...prefix, ...before]) : this.#find(prefix, true);
    const count = Math.max(0, Math.min(end - start, limit));
    const from = reverse ? Math.max(start, end - count) : start;
    const rows = this.#entries.slice(from, from + count).map(({ row }) => row);
    return reverse ? rows.reverse() : rows;
  }

  #keyOf(row: Row): Key | undefined {
    const key = this.#members.map((member) => row[member]);
    return key.includes(undefined) ? undefined : (key as Key);
  }

  /** Where a key is or would be; with `past`, the end of all that begin with it. */
  #find(key: Key, past = false): number {
    let low = 0;
    let high = this.#entries.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      const found = this.#entries[middle]?.key ?? [];
      const order = compareKeys(past ? found.slice(0, key.length) : found, key);
      if (order < 0 || (past && order === 0)) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

/** As IndexedDB compares keys: numbers before texts, a beginning before what it begins. */
export function compareKeys(a: Key, b: Key): number {
  const shared = Math.min(a.length, b.length);
  for (let i = 0; i < shared; i++) {
    const [one, other] = [a[i], b[i]];
    if (one === other || one === undefined || other === undefined) continue;
    if (typeof one !== typeof other) return typeof one === 'number' ? -1 : 1;
    return one < other ? -1 : 1;
  }
  return a.length - b.length;
}
