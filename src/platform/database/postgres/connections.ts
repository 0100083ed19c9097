/**
 * Connections to PostgreSQL: each query has a deadline (`lease.ts`), the host that can be written to is found in a list
 * of hosts, and useless connections are replaced.
 *
 * There are two deadlines. The server gets one at the start of each connection, and cancels what takes longer. A second
 * later the connection is destroyed here: no answer came then because the server hangs, or the network drops what is
 * sent. Where one connection is found like that, or leads to a server that cannot write, all connections that were
 * made before are replaced as well.
 *
 * That second begins when this process sees that the deadline of the server is over. Where the process itself was frozen
 * (stopped, or its machine paused), the answers that came meanwhile are read in it.
 *
 * Queries that have a name are prepared: a connection keeps them parsed. A pooler that shares connections between
 * transactions loses prepared queries: where this is noticed, nothing is prepared any more.
 */
import { Client, type ClientConfig, Pool, type PoolClient, types } from 'pg';
import { within } from '../../time/time.ts';
import {
  codedError,
  isCrowded,
  isLate,
  isLostConnection,
  isRefusedLogin,
  isRefusedParameter,
  isWithoutSlot,
  LATE,
  NO_PLACE,
  noteOfPostgres,
  READ_ONLY,
} from '../failures.ts';
import { GRACE_MS, Lease } from './lease.ts';

export interface ConnectionOptions {
  /** The same database by each of its hosts, in the order to try them. */
  readonly urls: readonly string[];
  /** The most connections. */
  readonly poolSize: number;
  /** For a statement, and for a wait for a connection; without it a statement may take any time. */
  readonly timeoutMs?: number;
  /** Called once for each connection that breaks, idle or not; the pool replaces them. */
  readonly onBroken?: ((error: Error) => void) | undefined;
  /** Called where no connection can be had because the server lets nobody in, with what it says. */
  readonly onRefused?: ((error: unknown) => void) | undefined;
  /** Called with each error of a query. */
  readonly onError?: (error: unknown) => void;
}

/**
 * Milliseconds that a new connection has, also where nobody waits for it any more. One that comes late is kept, and its
 * host is not left for the next one: where all break at once and the server is busy, they would all be too late, be
 * thrown away, and asked for again, and that alone would keep the server busy.
 */
const CONNECT_MS = 10_000;
/** Milliseconds of silence after which the kernel tests whether the server still answers. */
const KEEPALIVE_MS = 10_000;

/** The longest deadline that PostgreSQL and Node's timers take: 24 days. */
const LONGEST_MS = 2 ** 31 - 1 - GRACE_MS;

/** OIDs of int8 and numeric (the type of `sum(bigint)`), which pg returns as text. */
const WIDE_NUMBERS = [20, 1700];

/** All our numbers stay far below 2^53; a larger one is a bug and must not be rounded. */
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
  /** The index of the host that is used now. */
  #host = 0;
  /** Increases when the connections that were made so far become useless. */
  #generation = 0;
  readonly #generations = new WeakMap<object, number>();
  readonly #connecting = new Set<Client>();
  readonly #checked = new WeakSet<object>();
  /** Whether the server accepts deadlines as parameters; a pooler that shares connections may refuse them. */
  #takesDeadlines = true;
  /** Whether there was a connection to a server that can be written to. */
  #wasConnected = false;
  /** Whether a connection still has the statements that were prepared on it. */
  #keepsStatements = true;

  constructor(options: ConnectionOptions) {
    this.#options = options;
    const { poolSize, timeoutMs, onBroken } = options;
    const configure = (config: ClientConfig | undefined) => this.#configure(config);
    const remember = (client: Client) => {
      this.#generations.set(client, this.#generation);
      this.#connecting.add(client);
      for (const settled of ['connect', 'end']) {
        client.once(settled, () => this.#connecting.delete(client));
      }
    };
    this.#pool = new Pool({
      max: poolSize,
      connectionTimeoutMillis: Math.max(timeoutMs ?? 0, CONNECT_MS),
      application_name: 'postroom',
      keepAlive: true,
      keepAliveInitialDelayMillis: KEEPALIVE_MS,
      // A query is sent although others on the connection are not answered yet ({@link Lease.together}).
      pipeline: true,
      types: numbers,
      Client: class extends Client {
        constructor(config?: ClientConfig) {
          super(configure(config));
          remember(this);
        }
      },
    });
    // Without listeners a connection that breaks would end the process. Each reports itself; of idle ones the pool says
    // so once more, then with the whole client in the error. Whoever waits for a query gets the error of that query.
    this.#pool.on('error', () => {});
    this.#pool.on('connect', (client) => {
      client.on('error', (error) => onBroken?.(error));
    });
  }

  /**
   * A connection to a server that can be written to, for one read or one transaction.
   *
   * @throws Error of the last of the hosts, or because no connection became free in time
   */
  async acquire(): Promise<Lease> {
    try {
      return await this.#acquire();
    } catch (error) {
      noteOfPostgres(error);
      if (isRefusedLogin(error)) this.#options.onRefused?.(error);
      throw error;
    }
  }

  async #acquire(): Promise<Lease> {
    let isRepeated = false;
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
        // It was ended by `#leave`, not by its host.
        if (!isRepeated && generation !== this.#generation && isLostConnection(error)) {
          isRepeated = true;
          continue;
        }
        // Other hosts have no free connection either, and the existing connections still work.
        left--;
        if (isCrowded(error) || isWithoutSlot(error)) throw error;
        // At the start a host that is late is more likely down: the process would end, and begin with it again.
        if (!isLate(error) || !this.#wasConnected) this.#leaveHost(generation);
        else if (generation === this.#generation) throw error;
        if (left === 0) throw error;
      }
    }
  }

  close(): Promise<void> {
    const closed = this.#pool.end();
    // The pool waits for those that are being made, and nobody needs them.
    for (const client of this.#connecting) client.connection.stream.destroy();
    return closed;
  }

  /** @returns undefined for a connection that was made before the others became useless */
  async #acquireOne(): Promise<Lease | undefined> {
    const client = await this.#connect();
    const generation = this.#generations.get(client) ?? 0;
    if (generation !== this.#generation) {
      client.release(true);
      return undefined;
    }
    const { timeoutMs = LONGEST_MS, onError } = this.#options;
    const lease = new Lease(client, {
      timeoutMs,
      onError,
      onUseless: () => this.#leave(generation),
      keepsStatements: () => this.#keepsStatements,
      onLostStatement: (reason) => {
        if (reason === 'pooler') this.#keepsStatements = false;
        else if (generation === this.#generation) this.#generation++;
      },
    });
    if (this.#checked.has(client)) return lease;
    try {
      // The same as `target_session_attrs=read-write` of libpq.
      // Without JIT: compiling a query takes longer than any of our queries.
      // Without a deadline for a transaction as a whole (PostgreSQL 17), unless a pooler gives the session to others.
      const { rows } = await lease.query(
        `select current_setting('transaction_read_only') as transaction_read_only, set_config('jit', 'off', false),
          (select count(set_config(name, '0', false)) from pg_settings where name = 'transaction_timeout'
            and current_setting('statement_timeout')::interval = '${timeoutMs}ms')`,
      );
      if (rows[0]?.transaction_read_only === 'on') {
        throw codedError(READ_ONLY, 'the PostgreSQL server is read-only');
      }
    } catch (error) {
      client.release(true);
      throw error;
    }
    this.#checked.add(client);
    this.#wasConnected = true;
    return lease;
  }

  /** Waits for a connection; once more where this process was frozen meanwhile, so that the wait was over unseen. */
  async #connect(): Promise<PoolClient> {
    // Nothing is waited for.
    if (this.#pool.idleCount > this.#pool.waitingCount) return this.#pool.connect();
    const { timeoutMs = CONNECT_MS } = this.#options;
    const from = performance.now();
    try {
      return await this.#connectWithin(timeoutMs);
    } catch (error) {
      if (performance.now() - from < timeoutMs + GRACE_MS) throw error;
      return this.#connectWithin(timeoutMs);
    }
  }

  async #connectWithin(timeoutMs: number): Promise<PoolClient> {
    const isNew = this.#pool.totalCount < this.#options.poolSize;
    const generation = this.#generation;
    const connecting = this.#pool.connect();
    const client = await within(connecting, timeoutMs, undefined);
    if (client) return client;
    connecting.then(
      (unneeded) => unneeded.release(),
      (error) => {
        if (!isCrowded(error) && !isWithoutSlot(error)) this.#leaveHost(generation);
      },
    );
    throw isNew
      ? codedError(LATE, `PostgreSQL accepted no connection within ${timeoutMs} ms`)
      : new Error(NO_PLACE);
  }

  /** Goes on to the next host, where there is one. */
  #leaveHost(generation: number): void {
    if (this.#options.urls.length > 1) this.#leave(generation);
  }

  /** Stops using the connections of a generation, and uses the next host from now on. */
  #leave(generation: number): void {
    if (generation !== this.#generation) return;
    this.#generation++;
    this.#host = (this.#host + 1) % this.#options.urls.length;
    // Their slots are needed for connections to the next host.
    for (const client of this.#connecting) client.connection.stream.destroy();
  }

  #configure(config: ClientConfig | undefined): ClientConfig {
    // Where we have none, those that the role has must not hold either.
    const { urls, timeoutMs = LONGEST_MS } = this.#options;
    const connectionString = urls[this.#host] ?? '';
    if (!this.#takesDeadlines) return { ...config, connectionString };
    return {
      ...config,
      connectionString,
      statement_timeout: timeoutMs,
      // Shorter, so that a locked row is distinguished from a slow server.
      lock_timeout: Math.ceil(timeoutMs / 2),
      // A node that hangs within a transaction must not lock rows for longer.
      idle_in_transaction_session_timeout: timeoutMs,
    };
  }
}
