/**
 * Copies the rows of a table from SQLite to PostgreSQL, in the order of their rowid. The note of how far it came is
 * written in the transaction of the rows, so that after a crash it goes on with the next one.
 */
import { CompiledQuery, sql } from 'kysely';
import { type Database, noteFilling, type Queries } from '../../platform/database/database.ts';
import type { Table } from './tables.ts';

/** Rows in one query of SQLite. */
const ROWS_AT_ONCE = 500;
/** Bytes of values after which a transaction ends. */
const BYTES_AT_ONCE = 4_000_000;

/** How far a move came; the note of the database that is filled. */
export interface MoveNote {
  /** UUID of the move. */
  readonly move: string;
  readonly storeId: string;
  /** The last rowid that was copied, by table. */
  readonly copied: Record<string, number>;
  /** Whether all was copied and compared. */
  readonly isWhole: boolean;
}

export type Value = string | number | Uint8Array | null;
export type SourceRow = Readonly<Record<string, Value>> & { readonly _rowid: number };

/** Reads rows in the order of their rowid, in batches. */
export async function* readRows(
  source: Queries,
  { name, columns }: Table,
  after: number,
): AsyncGenerator<readonly SourceRow[]> {
  const names = sql.join(columns.map((column) => sql.ref(column.name)));
  for (let last = after; ; ) {
    const { rows } = await sql<SourceRow>`
      select rowid as _rowid, ${names} from ${sql.table(name)}
      where rowid > ${last} order by rowid limit ${sql.lit(ROWS_AT_ONCE)}`.execute(source);
    const final = rows.at(-1);
    if (!final) return;
    last = final._rowid;
    yield rows;
  }
}

/**
 * @param note of the last run; the note of this one grows from it
 * @param onRows called with each number of rows and of bytes that were copied
 */
export async function copyRows(
  source: Database,
  target: Database,
  table: Table,
  note: MoveNote,
  onRows: (rows: number, octets: number) => void,
): Promise<void> {
  for await (const rows of readRows(source.read, table, note.copied[table.name] ?? -1)) {
    for (const { some, octets } of split(rows, table)) {
      const insert = insertOf(table, some);
      note.copied[table.name] = some.at(-1)?._rowid ?? -1;
      await target.write(async (tx) => {
        await tx.executeQuery(insert);
        await noteFilling(tx, JSON.stringify(note));
      });
      onRows(some.length, octets);
    }
  }
}

/** One statement for all rows; bytes are sent as they are. */
function insertOf({ name, columns }: Table, rows: readonly SourceRow[]): CompiledQuery {
  const values: (Value | undefined)[] = [];
  const tuples = rows.map((row) => {
    const numbers = columns.map((column) => `$${values.push(row[column.name])}`);
    return `(${numbers.join()})`;
  });
  const names = columns.map((column) => `"${column.name}"`).join();
  return CompiledQuery.raw(`insert into "${name}" (${names}) values ${tuples.join()}`, values);
}

function* split(rows: readonly SourceRow[], table: Table) {
  let some: SourceRow[] = [];
  let octets = 0;
  for (const row of rows) {
    some.push(row);
    for (const { name } of table.columns) octets += sizeOf(row[name]);
    if (octets < BYTES_AT_ONCE) continue;
    yield { some, octets };
    [some, octets] = [[], 0];
  }
  if (some.length > 0) yield { some, octets };
}

function sizeOf(value: Value | undefined): number {
  return typeof value === 'number' ? 8 : (value?.length ?? 0);
}
