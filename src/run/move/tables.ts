/** What is moved, as the schemas of both databases say it: a table or column of a later version needs no line here. */
import { sql } from 'kysely';
import { type Queries, UNFINISHED_RESTORE_TABLE } from '../../platform/database/database.ts';

/** Tables of PostgreSQL that SQLite lacks: nodes of one database, and its search index, which the next start fills. */
export const ONLY_ON_POSTGRES: ReadonlySet<string> = new Set([
  'leases',
  'nodes',
  'search_documents',
]);

/** How values of a type of PostgreSQL are written into JSON, and read from there. */
const KNOWN_TYPES = ['bigint', 'text', 'bytea'] as const;

export interface Column {
  readonly name: string;
  readonly type: (typeof KNOWN_TYPES)[number];
  /** Whether PostgreSQL counts its values. */
  readonly isCounted: boolean;
}

export interface Table {
  readonly name: string;
  readonly columns: readonly Column[];
}

/** The schemas of the two databases do not fit, which is a defect of the program. */
export class SchemaMismatch extends Error {
  override readonly name = 'SchemaMismatch';
}

/** The tables to move, each after those that it refers to. @throws SchemaMismatch */
export async function planTables(source: Queries, target: Queries): Promise<Table[]> {
  const tables = await tablesOfTarget(target);
  const theirs = await columnsOfSource(source);
  for (const { name, columns } of tables) {
    const ours = columns.map((column) => column.name).toSorted();
    const found = (theirs.get(name) ?? []).toSorted();
    if (ours.join() === found.join()) continue;
    throw new SchemaMismatch(`table ${name} has the columns ${found.join()}, not ${ours.join()}`);
  }
  return sortByReferences(tables, await referencesOfSource(source));
}

async function tablesOfTarget(target: Queries): Promise<Table[]> {
  const { rows } = await sql<{ table: string; name: string; type: string; counted: boolean }>`
    select relname as table, attname as name, format_type(atttypid, atttypmod) as type,
      attidentity <> '' as counted
    from pg_class
    join pg_attribute on attrelid = pg_class.oid and attnum > 0 and not attisdropped
    where relnamespace = current_schema()::regnamespace and relkind in ('r', 'p')
      and relname not like 'kysely\\_%'
    order by relname, attnum`.execute(target);
  const tables = Map.groupBy(rows, ({ table }) => table);
  return [...tables].flatMap(([name, columns]) => {
    if (ONLY_ON_POSTGRES.has(name) || name === UNFINISHED_RESTORE_TABLE) return [];
    return [{ name, columns: columns.map((column) => readColumn(name, column)) }];
  });
}

function readColumn(
  table: string,
  { name, type, counted }: { name: string; type: string; counted: boolean },
): Column {
  const known = KNOWN_TYPES.find((one) => one === type);
  if (!known) throw new SchemaMismatch(`column ${table}.${name} has the type ${type}`);
  return { name, type: known, isCounted: counted };
}

async function columnsOfSource(source: Queries): Promise<Map<string, string[]>> {
  const { rows } = await sql<{ table: string; name: string }>`
    select tables.name as "table", columns.name as name
    from pragma_table_list tables, pragma_table_info(tables.name) columns
    where tables.schema = 'main' and tables.type = 'table'`.execute(source);
  const columns = new Map<string, string[]>();
  for (const { table, name } of rows) columns.set(table, [...(columns.get(table) ?? []), name]);
  return columns;
}

async function referencesOfSource(source: Queries): Promise<Map<string, string[]>> {
  const { rows } = await sql<{ table: string; other: string }>`
    select tables.name as "table", keys."table" as other
    from pragma_table_list tables, pragma_foreign_key_list(tables.name) keys
    where tables.schema = 'main' and tables.type = 'table'`.execute(source);
  const references = new Map<string, string[]>();
  for (const { table, other } of rows) {
    references.set(table, [...(references.get(table) ?? []), other]);
  }
  return references;
}

function sortByReferences(
  tables: readonly Table[],
  references: ReadonlyMap<string, readonly string[]>,
): Table[] {
  const sorted: Table[] = [];
  const waiting = new Set(tables);
  while (waiting.size > 0) {
    const names = new Set([...waiting].map(({ name }) => name));
    const next = [...waiting].filter(({ name }) =>
      (references.get(name) ?? []).every((other) => other === name || !names.has(other)),
    );
    if (next.length === 0) throw new SchemaMismatch('tables refer to each other');
    for (const table of next) waiting.delete(table);
    sorted.push(...next);
  }
  return sorted;
}
