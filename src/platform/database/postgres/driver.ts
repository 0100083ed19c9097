/** Kysely's driver for PostgreSQL, over connections with deadlines. */
import {
  AbortedTransactionError,
  type CompiledQuery,
  type DatabaseConnection,
  type Driver,
  Kysely,
  PostgresAdapter,
  PostgresIntrospector,
  PostgresQueryCompiler,
  type QueryResult,
  type TransactionSettings,
} from 'kysely';
import type { NamedQuery, Queries } from '../engine.ts';
import type { Schema } from '../schema.ts';
import { type ConnectionOptions, Connections } from './connections.ts';
import type { Lease } from './lease.ts';
import { ReadTurns } from './read-turns.ts';

/** Commands whose row count is the number of changed rows. */
const WRITES = new Set(['INSERT', 'UPDATE', 'DELETE', 'MERGE']);

class PostgresConnection implements DatabaseConnection {
  readonly lease: Lease;

  constructor(lease: Lease) {
    this.lease = lease;
  }

  async executeQuery<R>(query: CompiledQuery | NamedQuery): Promise<QueryResult<R>> {
    const { sql, parameters } = query;
    const name = 'name' in query ? query.name : undefined;
    const { command, rowCount, rows } = await this.lease.query(sql, parameters, name);
    // Only the query knows the types of its columns.
    const result = { rows: rows as R[] };
    return WRITES.has(command) ? { ...result, numAffectedRows: BigInt(rowCount ?? 0) } : result;
  }

  // biome-ignore lint/correctness/useYield: the interface requires it, and Postroom never streams rows
  async *streamQuery(): AsyncGenerator<never> {
    throw new Error('rows are not streamed from PostgreSQL');
  }
}

function leaseOf(connection: DatabaseConnection): Lease {
  if (connection instanceof PostgresConnection) return connection.lease;
  throw new TypeError('a connection of another driver');
}

class PostgresDriver implements Driver {
  readonly #connections: Connections;

  constructor(connections: Connections) {
    this.#connections = connections;
  }

  async init(): Promise<void> {}

  async acquireConnection(): Promise<DatabaseConnection> {
    return new PostgresConnection(await this.#connections.acquire());
  }

  async beginTransaction(connection: DatabaseConnection, settings: TransactionSettings) {
    const { isolationLevel, accessMode = '' } = settings;
    const level = isolationLevel ? ` isolation level ${isolationLevel} ` : ' ';
    await leaseOf(connection).query(`begin${level}${accessMode}`);
  }

  async commitTransaction(connection: DatabaseConnection): Promise<void> {
    // A COMMIT after a statement that failed rolls the transaction back.
    if ((await leaseOf(connection).commit('commit')).command === 'ROLLBACK')
      throw new AbortedTransactionError();
  }

  rollbackTransaction(connection: DatabaseConnection): Promise<void> {
    return leaseOf(connection).rollback();
  }

  async releaseConnection(connection: DatabaseConnection): Promise<void> {
    leaseOf(connection).release();
  }

  destroy(): Promise<void> {
    return this.#connections.close();
  }
}

/** Runs a query that is prepared on its connection. */
type Run = (query: NamedQuery, parameters: readonly unknown[]) => Promise<object[]>;

const runs = new WeakMap<Queries, Run>();

/** Runs something again where that is safe. @param begin is called when the outcome of its commit becomes uncertain */
export type RunSafely = <T>(run: (begin: () => void) => Promise<T>) => Promise<T>;

/** Kysely on connections: one for each query or transaction; and for prepared queries that are a transaction each. */
export function kyselyOn(
  options: ConnectionOptions,
  runSafely: RunSafely = (run) => run(() => {}),
) {
  const connections = new Connections(options);
  const queries = new Kysely<Schema>({
    dialect: {
      createAdapter: () => new PostgresAdapter(),
      createDriver: () => new PostgresDriver(connections),
      createIntrospector: (kysely) => new PostgresIntrospector(kysely),
      createQueryCompiler: () => new PostgresQueryCompiler(),
    },
  });
  const reads = new ReadTurns(() => connections.acquire());
  runs.set(queries, (query, parameters) => reads.run(query, parameters));
  const atOnce = queries.withoutPlugins();
  runs.set(atOnce, ({ sql, name }, parameters) =>
    runSafely(async (begin) => {
      const lease = await connections.acquire();
      try {
        begin();
        return (await lease.commit(sql, parameters, name)).rows;
      } finally {
        lease.release();
      }
    }),
  );
  // Kysely closes nothing where it was not asked itself.
  return { queries, atOnce, close: () => connections.close() };
}

/** Lets prepared queries of a transaction run on its connection, too. */
export async function bindTransaction(tx: Queries): Promise<void> {
  const lease = await tx.getExecutor().provideConnection(async (one) => leaseOf(one));
  runs.set(
    tx,
    async ({ sql, name }, parameters) => (await lease.query(sql, parameters, name)).rows,
  );
}

/**
 * Runs a prepared query without Kysely's executor, which takes as long as the client itself.
 *
 * @returns undefined where the queries are not those of a PostgreSQL server
 */
export function runPrepared(
  queries: Queries,
  query: NamedQuery,
  parameters: readonly unknown[],
): Promise<object[]> | undefined {
  return runs.get(queries)?.(query, parameters);
}
