/** PostgreSQL, for operators who have one and for several nodes on the same state. */
import { type Dialect, Kysely, PostgresDialect } from 'kysely';
import { Pool, types } from 'pg';
import { type Database, isDamage } from './engine.ts';
import { migrate } from './migrate.ts';
import type { Schema } from './schema.ts';

export interface PostgresOptions {
  /** `postgres://user:password@host:port/database` */
  readonly url: string;
  /** Connections at most. */
  readonly poolSize?: number;
  /** Told of connections that break, idle or not; the pool replaces them by itself. */
  readonly onBroken?: (error: Error) => void;
}

/** OIDs of int8 and numeric (the type of `sum(bigint)`), which pg gives as text. */
const WIDE_NUMBERS = [20, 1700];

/** Errors after which the same transaction may succeed: serialization failure, deadlock. */
const RETRIED = new Set(['40001', '40P01']);
const ATTEMPTS_MAX = 5;

/** Every number of ours stays far below 2^53; a larger one is a bug and must not be rounded. */
function parseWideNumber(text: string): number {
  const value = Number(text);
  if (!Number.isSafeInteger(value)) throw new RangeError(`not a safe integer: ${text}`);
  return value;
}

function poolDialect(options: PostgresOptions): Dialect {
  const pool = new Pool({
    connectionString: options.url,
    max: options.poolSize ?? 20,
    connectionTimeoutMillis: 10_000,
    application_name: 'postroom',
    types: {
      getTypeParser: (oid: number, format?: 'text' | 'binary') =>
        WIDE_NUMBERS.includes(oid) && format !== 'binary'
          ? parseWideNumber
          : types.getTypeParser(oid, format),
    },
  });
  // Without listeners a connection that breaks would end the process: the pool tells of idle ones,
  // busy ones tell themselves. Whoever waits for a query on it gets the error of that query.
  pool.on('error', (error) => options.onBroken?.(error));
  pool.on('connect', (client) => {
    client.on('error', (error) => options.onBroken?.(error));
  });
  return new PostgresDialect({ pool });
}

function sqlState(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error ? String(error.code) : undefined;
}

/**
 * Opens a PostgreSQL database and brings its schema up to date.
 *
 * @throws UnfitDatabase
 */
export async function openPostgres(options: PostgresOptions): Promise<Database> {
  let isDamaged = false;
  const kysely = new Kysely<Schema>({
    dialect: poolDialect(options),
    log(event) {
      if (event.level === 'error' && isDamage(event.error)) isDamaged = true;
    },
  });
  try {
    await migrate(kysely, 'postgres');
  } catch (error) {
    await kysely.destroy();
    throw error;
  }
  return {
    engine: 'postgres',
    get isDamaged() {
      return isDamaged;
    },
    read: kysely,
    async write(work) {
      for (let attempt = 1; ; attempt++) {
        try {
          return await kysely.transaction().execute(work);
        } catch (error) {
          if (attempt >= ATTEMPTS_MAX || !RETRIED.has(sqlState(error) ?? '')) throw error;
        }
      }
    },
    snapshot: (work) =>
      kysely
        .transaction()
        .setIsolationLevel('repeatable read')
        .setAccessMode('read only')
        .execute(work),
    close: () => kysely.destroy(),
  };
}
