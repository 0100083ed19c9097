/**
 * Counts the rows of a table in both databases, and compares them by digest. A row is the text of its values, each with
 * its length in front, bytes as their SHA-256. The digest of a table is the sum of 60 bits of the SHA-256 of each row:
 * the two databases need not have the rows in the same order. PostgreSQL computes it itself, so that no row is sent back.
 */
import { createHash } from 'node:crypto';
import { sql } from 'kysely';
import type { Database, Queries } from '../../platform/database/database.ts';
import { readRows, type SourceRow } from './copy-rows.ts';
import type { Column, Table } from './tables.ts';

export interface TableDigest {
  readonly rows: number;
  readonly digest: string;
}

const HEX_DIGITS = 15;
const NULL = 'n';

export async function digestSource(
  { read }: Database,
  table: Table,
  onRows: (rows: number) => void,
): Promise<TableDigest> {
  let [rows, digest] = [0, 0n];
  for await (const batch of readRows(read, table, -1)) {
    for (const row of batch) {
      const hash = createHash('sha256').update(textOf(row, table)).digest('hex');
      digest += BigInt(`0x${hash.slice(0, HEX_DIGITS)}`);
    }
    rows += batch.length;
    onRows(batch.length);
  }
  return { rows, digest: String(digest) };
}

function textOf(row: SourceRow, { columns }: Table): string {
  const texts = columns.map(({ name }) => {
    const value = row[name] ?? null;
    if (value === null) return NULL;
    const isOctets = value instanceof Uint8Array;
    const text = isOctets ? createHash('sha256').update(value).digest('hex') : String(value);
    return `${Buffer.byteLength(text)}:${text}`;
  });
  return texts.join('');
}

export async function digestTarget(target: Queries, table: Table): Promise<TableDigest> {
  const text = sql.join(table.columns.map(textInSql), sql` || `);
  const { rows } = await sql<TableDigest>`
    select count(*) as rows, coalesce(sum(
      ('x' || left(encode(sha256(convert_to(${text}, 'UTF8')), 'hex'), ${sql.lit(HEX_DIGITS)}))::bit(60)::bigint
    ), 0)::text as digest
    from ${sql.table(table.name)}`.execute(target);
  return rows[0] ?? { rows: 0, digest: '0' };
}

function textInSql({ name, type }: Column) {
  const column = sql.ref(name);
  const text = type === 'bytea' ? sql`encode(sha256(${column}), 'hex')` : sql`${column}::text`;
  return sql`case when ${column} is null then ${sql.lit(NULL)} else octet_length(${text}) || ':' || ${text} end`;
}
