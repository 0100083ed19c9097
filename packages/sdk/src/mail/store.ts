/**
 * Where the copy is kept: one interface for memory, IndexedDB, SQLite and a file. A store keeps rows in tables and
 * knows nothing of mail; all rules are in the engine.
 */

/** The tables, each with the keys that its rows are found by. Keys compare as IndexedDB compares them. */
export const TABLES = {
  /** `[account]`: origin and address, the epoch of the tab that syncs. */
  accounts: { key: ['account'], indexes: {} },
  mailboxes: { key: ['account', 'box'], indexes: {} },
  /** `date` is milliseconds since 1970. */
  messages: {
    key: ['box', 'generation', 'uid'],
    indexes: {
      byDate: ['box', 'generation', 'date', 'uid'],
      byThread: ['account', 'threadId'],
    },
  },
  bodies: { key: ['box', 'generation', 'uid'], indexes: { byUse: ['account', 'usedAt'] } },
  /** Changes of the user that the server has not confirmed, by the order of their making. */
  operations: { key: ['account', 'seq'], indexes: {} },
  /** Bytes of attachments and drafts that are not at the server yet. */
  blobs: { key: ['account', 'blob'], indexes: {} },
} as const;

/** The tables of a copy. */
export type TableName = keyof typeof TABLES;
/** What names a row. */
export type Key = readonly (string | number)[];
/** Plain data, as JSON keeps it: a member that is undefined may be left out. Bytes only in `blobs`, as Uint8Array. */
export type Row = { readonly [member: string]: unknown };

/** Rows whose key or index begins with `prefix`, in the order of the rest. */
export interface RangeQuery {
  readonly table: TableName;
  /** A name of `TABLES[table].indexes`; the key when left out. */
  readonly index?: string | undefined;
  readonly prefix: Key;
  /** Of what follows the prefix: from here, or to here, neither included. */
  readonly after?: Key | undefined;
  readonly before?: Key | undefined;
  /** Last first. */
  readonly reverse?: boolean | undefined;
  readonly limit?: number | undefined;
}

/** A row that is written or removed. */
export type Change =
  | { readonly put: TableName; readonly row: Row }
  | { readonly remove: TableName; readonly key: Key };

/** What is written, by the row that was read. */
export type Decide = (row: Row | undefined) => readonly Change[];

/** `relaxed` for pages of a sync, which can be asked again; `strict` for what the user did. */
export type Durability = 'relaxed' | 'strict';

/** Waits for a lock, and holds it. @param signal ends the waiting, by a rejection */
export type Lock = (name: string, signal: AbortSignal, held: () => Promise<void>) => Promise<void>;

/** Where the copy is kept. Yours may be one, too. */
export interface Store {
  get(table: TableName, key: Key): Promise<Row | undefined>;
  range(query: RangeQuery): Promise<Row[]>;
  /**
   * Reads one row and writes what `decide` makes of it, with nothing in between: all changes or none, and none where it
   * throws. Fulfilled once they are durable as `durability` asks; `strict` when left out.
   */
  update(table: TableName, key: Key, decide: Decide, durability?: Durability): Promise<void>;
  /**
   * Holds the lock of a name until `held` is settled. One at a time has it of all who have the copy open, and whoever dies
   * loses it. A store may do without: then it takes 15 seconds until another tab leads.
   */
  readonly lock?: Lock | undefined;
  close(): Promise<void>;
  /** Called when the store was lost (closed by the browser, over quota, a newer version). */
  onLost?: (reason: Error) => void;
}
