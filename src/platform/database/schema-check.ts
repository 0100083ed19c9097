/**
 * The schema as text, and whether a database has it.
 *
 * `migrations/0002.sqlite.txt` and the like hold the result of the migrations up to that version, one line for each
 * column, constraint, index and view: `accounts.user_id: text not null`. A test compares them with a new database, so that
 * a change of the schema shows in review; `npm run schema` writes them (for PostgreSQL with TEST_DATABASE_URL).
 * Each start compares its database with the file of its version before it migrates it, and with the newest afterwards.
 */
import { readFile } from 'node:fs/promises';
import { type Kysely, sql } from 'kysely';
import type { Engine } from './engine.ts';

/** Exists in a PostgreSQL database that a restore or a move has not filled yet; its name is that of older programs. */
export const UNFINISHED_RESTORE_TABLE = 'restore_unfinished';

/** One object of the schema: its name, and its definition. */
interface Definition {
  readonly name: string;
  readonly text: string;
}

/** The file with the schema of a version, `0002`. */
export function schemaFile(engine: Engine, version: string): URL {
  return new URL(`./migrations/${version}.${engine}.txt`, import.meta.url);
}

/** The schema of a database, without the tables that Kysely keeps for itself. */
export async function describeSchema<T>(kysely: Kysely<T>, engine: Engine): Promise<string> {
  const definitions = engine === 'sqlite' ? await readSqlite(kysely) : await readPostgres(kysely);
  const lines = definitions.map(({ name, text }) => `${name}: ${text.replaceAll(/\s+/g, ' ')}\n`);
  return lines.join('');
}

/** What a database is compared with. */
export interface Expected {
  /** The version that it has; that of this program where a newer one migrated it. */
  readonly version: string;
  /** Whether a newer program migrated it: then only the columns of this one have to exist. */
  readonly isNewer?: boolean;
  /** Versions that a migration was on the way to when it was cut short: what they have is no difference. */
  readonly later?: readonly string[];
  /** Indexes and constraints that may be missing or unfinished: the next start makes them. */
  readonly open?: ReadonlySet<string>;
}

/**
 * Compares the schema of a database with the result of the migrations. Tables and indexes that an operator or an
 * extension added are no difference. Columns and constraints added to our tables are, and so are triggers and views:
 * a trigger changes what is written, and a view stops the next migration.
 *
 * @returns the first difference, as part of a sentence
 */
export async function checkSchema<T>(
  kysely: Kysely<T>,
  engine: Engine,
  { version, isNewer = false, later = [], open = new Set() }: Expected,
): Promise<string | undefined> {
  const read = async (of: string) => parse(await readFile(schemaFile(engine, of), 'utf8'));
  const expected = await read(version);
  const laterOnes = await Promise.all(later.map(read));
  const found = parse(await describeSchema(kysely, engine));
  const mayBe = (name: string) =>
    open.has(name) || laterOnes.some((schema) => schema.get(name) === found.get(name));
  const tables = new Set([...expected.keys()].filter(isOfTable).map(tableOf));
  for (const [name, text] of expected) {
    const other = found.get(name);
    if (other === text || (isNewer && (other !== undefined || !isOfTable(name)))) continue;
    if (mayBe(name)) continue;
    if (other !== undefined) return `${name} is "${other}" and should be "${text}"`;
    const isTableThere =
      !isOfTable(name) || [...found.keys()].some((one) => tableOf(one) === tableOf(name));
    return isTableThere ? `${name} is missing` : `table ${tableOf(name)} is missing`;
  }
  for (const name of found.keys()) {
    const isOfOurs = isOfTable(name) && tables.has(tableOf(name));
    if (!isNewer && isOfOurs && !expected.has(name) && !mayBe(name)) return `${name} is not known`;
  }
  const ours = [expected, ...laterOnes].flatMap((schema) => [...schema.keys()]);
  return isNewer ? undefined : findStranger(kysely, engine, ours);
}

/** @returns the first trigger or view that is not ours */
async function findStranger<T>(
  kysely: Kysely<T>,
  engine: Engine,
  names: readonly string[],
): Promise<string | undefined> {
  const query =
    engine === 'sqlite'
      ? sql<Stranger>`
          select type as kind, name from sqlite_schema where type in ('trigger', 'view') order by type, name`
      : sql<Stranger>`
          select 'trigger' as kind, tgname as name from pg_trigger
          join pg_class on pg_class.oid = tgrelid
          where relnamespace = current_schema()::regnamespace and not tgisinternal
          union all
          select 'view', relname from pg_class
          where relnamespace = current_schema()::regnamespace and relkind in ('v', 'm')
            and not exists (select 1 from pg_depend where objid = pg_class.oid and deptype = 'e')
          order by kind, name`;
  const ours = new Set(names.map((name) => (isOfTable(name) ? tableOf(name) : name)));
  const { rows } = await query.execute(kysely);
  // PostgreSQL describes a view by its columns. A trigger may have the name of one of our tables.
  const isOurs = ({ kind, name }: Stranger) =>
    ours.has(`${kind} ${name}`) || (kind === 'view' && ours.has(name));
  const found = rows.find((one) => !isOurs(one));
  return found && `${found.kind} ${found.name} is not known`;
}

interface Stranger {
  readonly kind: string;
  readonly name: string;
}

/** Columns and constraints have the name of their table in front, all others their kind. */
const isOfTable = (name: string) => name.includes('.');
const tableOf = (name: string) => name.slice(0, name.indexOf('.'));

function parse(text: string): Map<string, string> {
  const lines = text.split('\n').filter((line) => line !== '');
  return new Map(
    lines.map((line) => {
      const end = line.indexOf(': ');
      return [line.slice(0, end), line.slice(end + 2)];
    }),
  );
}

/** SQLite keeps the text that created each object. */
async function readSqlite<T>(kysely: Kysely<T>): Promise<Definition[]> {
  // The tables behind a full-text index (`shadow`) are SQLite's own.
  const { rows } = await sql<{ type: string; name: string; text: string }>`
    select things.type, things.name, things.sql as text
    from sqlite_schema things
    left join pragma_table_list tables on tables.schema = 'main' and tables.name = things.name
    where things.sql is not null and things.name not like 'sqlite_%' and things.name not like 'kysely_%'
      and coalesce(tables.type, '') <> 'shadow'
    order by things.type <> 'table', things.name`.execute(kysely);
  return rows.flatMap(({ type, name, text }) => {
    const isPlainTable = type === 'table' && !/^create virtual/i.test(text);
    if (!isPlainTable) return [{ name: `${type} ${name}`, text }];
    const inside = text.slice(text.indexOf('(') + 1, text.lastIndexOf(')'));
    return splitAtCommas(inside).map((part) => {
      const [, column = '', definition = ''] = /^\s*"?(\w+)"?\s*(.*)$/s.exec(part) ?? [];
      return { name: `${name}.${column}`, text: definition.trim() };
    });
  });
}

/** Splits at commas outside of brackets and strings. */
function splitAtCommas(text: string): string[] {
  const parts: string[] = [];
  let [depth, inString, begin] = [0, false, 0];
  for (let at = 0; at < text.length; at++) {
    const character = text[at];
    if (character === "'") inString = !inString;
    else if (inString) continue;
    else if (character === '(') depth++;
    else if (character === ')') depth--;
    else if (character === ',' && depth === 0) {
      parts.push(text.slice(begin, at));
      begin = at + 1;
    }
  }
  return [...parts, text.slice(begin)];
}

/** PostgreSQL writes each object from its catalog, in the same form in all its versions. */
async function readPostgres<T>(kysely: Kysely<T>): Promise<Definition[]> {
  const { rows } = await sql<Definition>`
    with things as (
      select oid, relname, relkind from pg_class
      where relnamespace = current_schema()::regnamespace and relname not like 'kysely\\_%'
        and relname <> ${UNFINISHED_RESTORE_TABLE}
    )
    select name, text from (
      select 1 as kind, relname, attnum as place, relname || '.' || attname as name,
        format_type(atttypid, atttypmod) || case when attnotnull then ' not null' else '' end
        || case attidentity when 'd' then ' generated by default as identity'
             when 'a' then ' generated always as identity' else '' end
        || coalesce(case when attgenerated = '' then ' default ' else ' generated as ' end
             || pg_get_expr(adbin, adrelid), '') as text
      from things
      join pg_attribute on attrelid = things.oid and attnum > 0 and not attisdropped
      left join pg_attrdef on adrelid = attrelid and adnum = attnum
      where relkind in ('r', 'p', 'v', 'm')
      union all
      select 2, relname, 0, relname || '.' || conname, pg_get_constraintdef(pg_constraint.oid)
      from things
      join pg_constraint on conrelid = things.oid and contype in ('p', 'u', 'f', 'c')
      union all
      select 3, relname, 0, 'index ' || relname,
        replace(pg_get_indexdef(things.oid), ' ON ' || quote_ident(current_schema()) || '.', ' ON ')
      from things
      where relkind = 'i'
        and not exists (select 1 from pg_constraint where conindid = things.oid)
    ) lines
    order by kind, relname collate "C", place, name collate "C"`.execute(kysely);
  return rows;
}
