/**
 * Counts the commits that may have changed a table, so that what was read can be kept for as long as
 * a query would find the same. Only where one process does all the writing: on SQLite.
 */
import type { DatabaseSync } from 'node:sqlite';
import type { Schema } from './schema.ts';

export type TableName = keyof Schema;

/** Goes up when one of its tables may have changed. */
export interface TableVersion {
  readonly value: number;
}

type Verb = 'insert' | 'update' | 'delete';

/** What a statement writes: nothing, a table, or (where that is not plain to see) any of them. */
export type Written =
  | { readonly kind: 'nothing' }
  | { readonly kind: 'table'; readonly table: string; readonly verb: Verb }
  | { readonly kind: 'anything' };

/** What a reader keeps of its tables: all of their rows, or only what no update of a row changes. */
export type Watched = 'rows' | 'fixed columns';

const WRITE = /^\s*(insert into|update|delete from)\s+"?([a-z_]+)"?/i;
const READ = /^\s*select\b/i;

/** Reads it off a statement's text. */
export function whatIsWritten(sql: string): Written {
  if (READ.test(sql)) return { kind: 'nothing' };
  const [, verb, table] = WRITE.exec(sql) ?? [];
  if (verb === undefined || table === undefined) return { kind: 'anything' };
  return { kind: 'table', table, verb: verb.toLowerCase().split(' ')[0] as Verb };
}

interface Watch extends TableVersion {
  value: number;
  readonly tables: ReadonlySet<string>;
  readonly of: Watched;
}

export class TableVersions {
  /** By table: those whose rows go when one of its rows goes, itself included. */
  readonly #cascades: ReadonlyMap<string, ReadonlySet<string>>;
  readonly #watches: Watch[] = [];
  /** Tables whose rows came or went since the last commit; `undefined` stands for any. */
  readonly #touched = new Set<string | undefined>();
  /** Tables with rows that were updated since then. */
  readonly #updated = new Set<string>();

  /** @param db with all of its tables */
  constructor(db: DatabaseSync) {
    this.#cascades = readCascades(db);
  }

  /** A version of these tables together, from now on. */
  watch(tables: readonly TableName[], of: Watched = 'rows'): TableVersion {
    const watch: Watch = { value: 0, tables: new Set(tables), of };
    this.#watches.push(watch);
    return watch;
  }

  /** Remembers what a statement of the present transaction wrote. */
  note(written: Written): void {
    if (written.kind === 'anything') this.#touched.add(undefined);
    if (written.kind !== 'table') return;
    if (written.verb === 'update') this.#updated.add(written.table);
    else if (written.verb === 'insert') this.#touched.add(written.table);
    else for (const table of this.#cascades.get(written.table) ?? []) this.#touched.add(table);
  }

  /**
   * Moves on the versions of what was written; called in the same breath as the commit.
   *
   * @returns whether anything was
   */
  settle(): boolean {
    if (this.#touched.size === 0 && this.#updated.size === 0) return false;
    for (const watch of this.#watches) if (this.#concerns(watch)) watch.value++;
    this.#touched.clear();
    this.#updated.clear();
    return true;
  }

  #concerns({ tables, of }: Watch): boolean {
    if (this.#touched.has(undefined) || !tables.isDisjointFrom(this.#touched)) return true;
    return of === 'rows' && !tables.isDisjointFrom(this.#updated);
  }
}

function readCascades(db: DatabaseSync): Map<string, Set<string>> {
  const tables = db.prepare("select name from sqlite_schema where type = 'table'").all();
  const names = tables.map(({ name }) => String(name));
  const referring = db.prepare(
    'select "table" as parent from pragma_foreign_key_list(?) where on_delete <> \'NO ACTION\'',
  );
  const children = new Map<string, string[]>();
  for (const name of names) {
    for (const { parent } of referring.all(name)) {
      children.set(String(parent), [...(children.get(String(parent)) ?? []), name]);
    }
  }
  return new Map(names.map((name) => [name, withDescendants(name, children)]));
}

function withDescendants(name: string, children: ReadonlyMap<string, string[]>): Set<string> {
  const found = new Set([name]);
  // A Set hands out what is added to it while it is walked.
  for (const table of found) for (const child of children.get(table) ?? []) found.add(child);
  return found;
}
