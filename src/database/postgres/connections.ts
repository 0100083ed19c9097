/**
 * Connections to PostgreSQL: each query has a deadline, a list of hosts is searched for the one that can
 * be written to, and connections that lead nowhere are thrown away.
 *
 * Deadlines hold twice. The server is told them at the start of each connection, and ends by itself what
 * takes too long. A second later the connection is destroyed from here: then no answer came, since the
 * server hangs or something between us swallows what is sent. Where one connection is found like that, or
 * leads to a server that cannot write, those that were made before are replaced as well.
 *
 * Queries that have a name are prepared: a connection keeps them parsed. A pooler that shares connections
 * between transactions loses them: where one shows, nothing is prepared any more.
 */
import {
  Client,
  type ClientConfig,
  Pool,
  type PoolClient,
  type QueryConfig,
  type QueryResult,
  types,
} from 'pg';
import {
  codedError,
  IN_DOUBT,
  isCrowded,
  isRefusedParameter,
  isWithoutPlace,
  lostStatement,
  NO_ANSWER,
  READ_ONLY,
} from '../failures.ts';

export interface ConnectionOptions {
  /** The same database by each of its hosts, in the order to try them. */
  readonly urls: readonly string[];
  /** Connections at most. */
  readonly poolSize: number;
  /** For a statement, a place in the pool, and to connect; without it a statement may take any time. */
  readonly timeoutMs?: number;
  /** Told of connections that break, idle or not; the pool replaces them by itself. */
  readonly onBroken?: ((error: Error) => void) | undefined;
}

/** Between the deadline that the server has and ours, in milliseconds. */
const GRACE_MS = 1_000;
/** To connect, where a statement may take any time, in milliseconds. */
const CONNECT_MS = 10_000;
/** Of silence, after which the kernel asks whether the server is still there, in milliseconds. */
const KEEPALIVE_MS = 10_000;

/** OIDs of int8 and numeric (the type of `sum(bigint)`), which pg gives as text. */
const WIDE_NUMBERS = [20, 1700];

/** Every number of ours stays far below 2^53; a larger one is a bug and must not be rounded. */
function parseWideNumber(text: string): number {
  const value = Number(text);
  if (!Number.isSafeInteger(value)) throw new RangeError(`not a safe integer: ${text}`);
  return value;
}

const numbers = {
  getTypeParser: (oid: number, format?: 'text' | 'binary') =>
    WIDE_NUMBERS.includes(oid) && format !== 'binary'
      ? parseWideNumber
      : types.getTypeParser(oid, format),
};

export class Connections {
  readonly #options: ConnectionOptions;
  readonly #pool: Pool;
  /** Which of the hosts is used now. */
  #host = 0;
  /** Begins anew where the connections that were made so far are of no use. */
  #generation = 0;
  readonly #generations = new WeakMap<object, number>();
  readonly #checked = new WeakSet<object>();
  /** Whether the server takes deadlines at the start; a pooler that shares connections may refuse them. */
  #takesDeadlines = true;
  /** Whether a connection has what was prepared on it before. */
  #keepsStatements = true;

  constructor(options: ConnectionOptions) {
    this.#options = options;
    const { poolSize, timeoutMs, onBroken } = options;
    const configure = (config: ClientConfig | undefined) => this.#configure(config);
    const remember = (client: object) => this.#generations.set(client, this.#generation);
    this.#pool = new Pool({
      max: poolSize,
      connectionTimeoutMillis: timeoutMs ?? CONNECT_MS,
      application_name: 'postroom',
      keepAlive: true,
      keepAliveInitialDelayMillis: KEEPALIVE_MS,
      types: numbers,
      Client: class extends Client {
        constructor(config?: ClientConfig) {
          super(configure(config));
          remember(this);
        }
      },
    });
    // Without listeners a connection that breaks would end the process: the pool tells of idle ones,
    // busy ones tell themselves. Whoever waits for a query on it gets the error of that query.
    this.#pool.on('error', (error) => onBroken?.(error));
    this.#pool.on('connect', (client) => {
      client.on('error', (error) => onBroken?.(error));
    });
  }

  /**
   * A connection to a server that can be written to, for one read or one transaction.
   *
   * @throws Error what the last of the hosts said, or that no place in the pool came free in time
   */
  async acquire(): Promise<Lease> {
    for (let left = this.#options.urls.length; ; ) {
      const generation = this.#generation;
      try {
        const lease = await this.#acquireOne();
        if (lease) return lease;
      } catch (error) {
        if (isRefusedParameter(error) && this.#takesDeadlines) {
          this.#takesDeadlines = false;
          this.#keepsStatements = false;
          continue;
        }
        // Other hosts have no place for us either, and connections that are there still serve.
        left--;
        if (isCrowded(error) || isWithoutPlace(error)) throw error;
        if (this.#options.urls.length > 1) this.#leave(generation);
        if (left === 0) throw error;
      }
    }
  }

  close(): Promise<void> {
    return this.#pool.end();
  }

  /** @returns undefined for a connection that was made before others were found to be of no use */
  async #acquireOne(): Promise<Lease | undefined> {
    const client = await this.#pool.connect();
    const generation = this.#generations.get(client) ?? 0;
    if (generation !== this.#generation) {
      client.release(true);
      return undefined;
    }
    const { timeoutMs } = this.#options;
    const lease = new Lease(client, {
      deadlineMs: timeoutMs && timeoutMs + GRACE_MS,
      onUseless: () => this.#leave(generation),
      keepsStatements: () => this.#keepsStatements,
      onLostStatement: (reason) => {
        if (reason === 'pooler') this.#keepsStatements = false;
        else if (generation === this.#generation) this.#generation++;
      },
    });
    if (this.#checked.has(client)) return lease;
    try {
      // As `target_session_attrs=read-write` of libpq.
      // Without JIT: to compile a query takes longer than all of ours run.
      const { rows } = await lease.query(
        "select current_setting('transaction_read_only') as transaction_read_only, set_config('jit', 'off', false)",
      );
      if (rows[0]?.transaction_read_only === 'on') {
        throw codedError(READ_ONLY, 'the PostgreSQL server is read-only');
      }
    } catch (error) {
      client.release(true);
      throw error;
    }
    this.#checked.add(client);
    return lease;
  }

  /** Lets the connections of a generation go, and uses the next host from now on. */
  #leave(generation: number): void {
    if (generation !== this.#generation) return;
    this.#generation++;
    this.#host = (this.#host + 1) % this.#options.urls.length;
  }

  #configure(config: ClientConfig | undefined): ClientConfig {
    const { urls, timeoutMs } = this.#options;
    const connectionString = urls[this.#host] ?? '';
    if (timeoutMs === undefined || !this.#takesDeadlines) return { ...config, connectionString };
    return {
      ...config,
      connectionString,
      statement_timeout: timeoutMs,
      // Sooner, so that a row that others hold is told from a server that is slow.
      lock_timeout: Math.ceil(timeoutMs / 2),
      // A node that hangs within a transaction keeps rows from the others for no longer.
      idle_in_transaction_session_timeout: timeoutMs,
    };
  }
}

interface LeaseOptions {
  /** For each query, in milliseconds. */
  readonly deadlineMs: number | undefined;
  /** Told that the connection gives no answer, or that its server cannot be written to. */
  readonly onUseless: () => void;
  readonly keepsStatements: () => boolean;
  /** Told that the connection has a statement no more, or one that serves no more. */
  readonly onLostStatement: (reason: 'pooler' | 'outdated') => void;
}

/** A connection for as long as one read or one transaction has it. */
export class Lease {
  readonly #client: PoolClient;
  readonly #options: LeaseOptions;
  /** Set where the connection must not be used again. */
  #isBroken = false;

  constructor(client: PoolClient, options: LeaseOptions) {
    this.#client = client;
    this.#options = options;
  }

  /**
   * @param name of a query that is to be prepared; it stands for this text alone
   * @throws Error of the server; with code NO_ANSWER where it did not answer in time
   */
  async query(text: string, values: readonly unknown[] = [], name?: string): Promise<QueryResult> {
    const { keepsStatements, onLostStatement } = this.#options;
    if (name === undefined || !keepsStatements()) return this.#send({ text, values: [...values] });
    try {
      return await this.#send({ name, text, values: [...values] });
    } catch (error) {
      const reason = lostStatement(error);
      if (!reason) throw error;
      onLostStatement(reason);
      // Nothing of it was run. Within a transaction this fails, too: then all of that is run again.
      return await this.#send({ text, values: [...values] }).catch(() => Promise.reject(error));
    }
  }

  async #send(query: QueryConfig): Promise<QueryResult> {
    const { deadlineMs, onUseless } = this.#options;
    const timer = deadlineMs && setTimeout(() => this.#giveUp(deadlineMs), deadlineMs);
    try {
      return await this.#client.query(query);
    } catch (error) {
      if (error instanceof Error && 'code' in error && error.code === READ_ONLY) {
        this.#isBroken = true;
        onUseless();
      }
      throw error;
    } finally {
      clearTimeout(timer);
    }
  }

  /**
   * Ends the transaction.
   *
   * @returns the command that the server completed: `COMMIT`, or `ROLLBACK` where a statement had failed
   * @throws Error with code IN_DOUBT where the server warns, as it does when its wait for a synchronous standby
   *   was cut short: then the commit may be lost with the server
   */
  async commit(): Promise<string> {
    let warning: string | undefined;
    const onNotice = ({ severity, message }: { severity?: unknown; message?: unknown }) => {
      if (severity === 'WARNING') warning = String(message);
    };
    this.#client.on('notice', onNotice);
    try {
      const { command } = await this.query('commit');
      if (warning !== undefined) throw codedError(IN_DOUBT, `committed, but: ${warning}`);
      return command;
    } finally {
      this.#client.removeListener('notice', onNotice);
    }
  }

  /** Takes the transaction back; where that fails, the connection's end does it. */
  async rollback(): Promise<void> {
    try {
      await this.query('rollback');
    } catch {
      this.#isBroken = true;
    }
  }

  release(): void {
    this.#client.release(this.#isBroken);
  }

  #giveUp(deadlineMs: number): void {
    const error = codedError(NO_ANSWER, `PostgreSQL gave no answer within ${deadlineMs} ms`);
    this.#isBroken = true;
    this.#options.onUseless();
    this.#client.connection.stream.destroy(error);
  }
}
