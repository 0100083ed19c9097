/** The copy in memory: it ends with the program. Also what a file keeps in memory, and what tests begin with. */
import {
  type Change,
  checkEpoch,
  type Decide,
  type Key,
  type RangeQuery,
  type Row,
  type Store,
  TABLES,
  type TableName,
  type TransactOptions,
} from './store.ts';

/** A copy that ends with the program. Several clients may share one, as tabs share a database. */
export function memoryStore(): MemoryStore {
  return new MemoryStore();
}

/** The copy in the memory of the program. */
export class MemoryStore implements Store {
  readonly #tables = Object.fromEntries(
    Object.entries(TABLES).map(([name, { key, indexes }]) => [name, new Table(key, indexes)]),
  ) as Readonly<Record<TableName, Table>>;

  async get(table: TableName, key: Key): Promise<Row | undefined> {
    return this.find(table, key);
  }

  async range(query: RangeQuery): Promise<Row[]> {
    return this.look(query);
  }

  async transact(options: TransactOptions, changes: readonly Change[]): Promise<void> {
    checkEpoch(this.find('accounts', [options.account]), options);
    this.commit(changes, options.durability);
  }

  async update(table: TableName, key: Key, decide: Decide): Promise<void> {
    this.commit(decide(this.find(table, key)), 'strict');
  }

  async close(): Promise<void> {}

  /** A store that also keeps the changes elsewhere does that here. */
  protected commit(changes: readonly Change[], _durability: TransactOptions['durability']): void {
    this.apply(changes);
  }

  /** As `get`, at once. */
  find(table: TableName, key: Key): Row | undefined {
    return this.#tables[table].key.get(key);
  }

  /** As `range`, at once. */
  look(query: RangeQuery): Row[] {
    return this.#tables[query.table].index(query.index).range(query);
  }

  /** All of the changes, at once. */
  apply(changes: readonly Change[]): void {
    for (const change of changes) {
      if ('put' in change) this.#tables[change.put].put(change.row);
      else this.#tables[change.remove].remove(change.key);
    }
  }
}

class Table {
  readonly key: Index;
  readonly #indexes = new Map<string, Index>();

  constructor(key: readonly string[], indexes: Readonly<Record<string, readonly string[]>>) {
    this.key = new Index(key);
    // The key ends the order of rows whose index is the same.
    for (const [name, members] of Object.entries(indexes)) {
      this.#indexes.set(name, new Index(members, key));
    }
  }

  index(name: string | undefined): Index {
    const index = name === undefined ? this.key : this.#indexes.get(name);
    if (!index) throw new TypeError(`there is no index ${name}`);
    return index;
  }

  put(row: Row): void {
    const before = this.key.put(row);
    for (const index of this.#indexes.values()) {
      if (before) index.remove(before);
      index.put(row);
    }
  }

  remove(key: Key): void {
    const row = this.key.get(key);
    if (!row) return;
    for (const index of [this.key, ...this.#indexes.values()]) index.remove(row);
  }
}

interface Entry {
  readonly key: Key;
  readonly row: Row;
}

/** Rows in the order of some of their members. */
class Index {
  readonly #members: readonly string[];
  readonly #rest: readonly string[];
  readonly #entries: Entry[] = [];

  constructor(members: readonly string[], rest: readonly string[] = []) {
    this.#members = members;
    this.#rest = rest;
  }

  get(key: Key): Row | undefined {
    const entry = this.#entries[this.#find(key)];
    return entry && compareKeys(entry.key, key) === 0 ? entry.row : undefined;
  }

  /** Returns the row that it replaces. A row without one of the members is not in the index. */
  put(row: Row): Row | undefined {
    const key = this.#keyOf(row);
    if (!key) return undefined;
    const at = this.#find(key);
    const before = this.#entries[at];
    const isSame = before !== undefined && compareKeys(before.key, key) === 0;
    this.#entries.splice(at, isSame ? 1 : 0, { key, row });
    return isSame ? before.row : undefined;
  }

  remove(row: Row): void {
    const key = this.#keyOf(row);
    if (!key) return;
    const at = this.#find(key);
    const entry = this.#entries[at];
    if (entry && compareKeys(entry.key, key) === 0) this.#entries.splice(at, 1);
  }

  range({ prefix, after, before, reverse = false, limit }: RangeQuery): Row[] {
    const start = after ? this.#find([...prefix, ...after], true) : this.#find(prefix);
    const end = before ? this.#find([...prefix, ...before]) : this.#find(prefix, true);
    const count = Math.max(0, Math.min(end - start, limit ?? Number.POSITIVE_INFINITY));
    const from = reverse ? Math.max(start, end - count) : start;
    const rows = this.#entries.slice(from, from + count).map(({ row }) => row);
    return reverse ? rows.reverse() : rows;
  }

  #keyOf(row: Row): Key | undefined {
    const key = [...this.#members, ...this.#rest].map((member) => row[member]);
    return key.every((part) => typeof part === 'string' || typeof part === 'number')
      ? key
      : undefined;
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
