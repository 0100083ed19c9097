/** One connection while somebody holds it: its queries, their deadline, and whether it can be used again. */
import type { PoolClient, QueryConfig, QueryResult } from 'pg';
import {
  codedError,
  IN_DOUBT,
  isAborted,
  isLostConnection,
  lostStatement,
  NO_ANSWER,
  noteOfPostgres,
  READ_ONLY,
} from '../failures.ts';

/** Milliseconds between the deadline that the server has and ours. */
export const GRACE_MS = 1_000;

/** The query that ends, for its transaction, deadlines that the database or the role has: `transaction_timeout` is new in PostgreSQL 17. */
export const END_DEADLINES = `select count(set_config(name, '0', true)) from pg_settings
  where name in ('statement_timeout', 'idle_in_transaction_session_timeout', 'transaction_timeout')`;

interface LeaseOptions {
  /** Milliseconds that the server has for each query. */
  readonly timeoutMs: number | undefined;
  readonly onError: ((error: unknown) => void) | undefined;
  /** Called when the connection gives no answer, or its server cannot be written to. */
  readonly onUseless: () => void;
  readonly keepsStatements: () => boolean;
  /** Called when the connection has lost a prepared statement, or its plan is outdated. */
  readonly onLostStatement: (reason: 'pooler' | 'outdated') => void;
}

/** A connection, held for one read or one transaction. */
export class Lease {
  readonly #client: PoolClient;
  readonly #options: LeaseOptions;
  /** Set where the connection must not be used again. */
  #isBroken = false;
  /** Names of queries that failed: they may not be prepared. */
  readonly #failed = new Set<string>();
  #unanswered = 0;
  #deadline: NodeJS.Timeout | undefined;

  constructor(client: PoolClient, options: LeaseOptions) {
    this.#client = client;
    this.#options = options;
  }

  /**
   * @param name of a query that is to be prepared; it stands for this text only
   * @throws Error of the server; with code NO_ANSWER where it did not answer in time
   */
  async query(text: string, values: readonly unknown[] = [], name?: string): Promise<QueryResult> {
    const { keepsStatements, onLostStatement } = this.#options;
    if (name === undefined || !keepsStatements()) return this.#send({ text, values: [...values] });
    try {
      return await this.#send({ name, text, values: [...values] });
    } catch (error) {
      const reason = lostStatement(error);
      if (!reason) this.#failed.add(name);
      if (!reason) throw error;
      // Nothing of it was run. Of queries that were sent together the first one prepares it: where that failed, no pooler
      // has lost it.
      if (this.#failed.has(name)) return await this.#send({ text, values: [...values] });
      onLostStatement(reason);
      return await this.#send({ text, values: [...values] }).catch((again: unknown) => {
        // Within a transaction nothing more is run: then the whole transaction runs again. Any other failure is told as it
        // is: a commit may have been made by now, which must not be made twice.
        throw isAborted(again) ? error : again;
      });
    }
  }

  /** Sends the queries that are made in `make` in one packet; they are answered one after the other. */
  together<T>(make: () => T): T {
    const { stream } = this.#client.connection;
    stream.cork();
    try {
      return make();
    } finally {
      stream.uncork();
    }
  }

  async #send(query: QueryConfig): Promise<QueryResult> {
    const { onUseless, onError } = this.#options;
    if (++this.#unanswered === 1) this.#expectAnswer();
    try {
      return await this.#client.query(query);
    } catch (error) {
      noteOfPostgres(error);
      onError?.(error);
      // The server may end it a moment after it has said so: whoever got it meanwhile would fail as well.
      if (isLostConnection(error)) this.#isBroken = true;
      if (error instanceof Error && 'code' in error && error.code === READ_ONLY) onUseless();
      throw error;
    } finally {
      this.#unanswered--;
      this.#expectAnswer();
    }
  }

  /** The server works at the oldest of the queries from now on, and has its time for each. */
  #expectAnswer(): void {
    const { timeoutMs } = this.#options;
    clearTimeout(this.#deadline);
    if (timeoutMs === undefined || this.#unanswered === 0) return;
    this.#deadline = setTimeout(() => {
      this.#deadline = setTimeout(() => this.#giveUp(), GRACE_MS);
    }, timeoutMs);
  }

  /**
   * Ends the transaction, by `commit` or by a statement that is one of its own.
   *
   * @returns what the server completed: the command is `ROLLBACK` where a statement of the transaction had failed
   * @throws Error with code IN_DOUBT where the server warns that its wait for a synchronous standby was cut short:
   *   then the commit may be lost with the server
   */
  async commit(text: string, values?: readonly unknown[], name?: string): Promise<QueryResult> {
    let warning: string | undefined;
    const onNotice = ({ severity, message }: { severity?: unknown; message?: unknown }) => {
      if (severity === 'WARNING') warning = String(message);
    };
    this.#client.on('notice', onNotice);
    try {
      const result = await this.query(text, values, name);
      if (warning !== undefined) throw codedError(IN_DOUBT, `committed, but: ${warning}`);
      return result;
    } finally {
      this.#client.removeListener('notice', onNotice);
    }
  }

  /** Rolls the transaction back; where that fails, closing the connection does it. */
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

  #giveUp(): void {
    const deadlineMs = (this.#options.timeoutMs ?? 0) + GRACE_MS;
    const error = codedError(NO_ANSWER, `PostgreSQL gave no answer within ${deadlineMs} ms`);
    this.#isBroken = true;
    this.#options.onUseless();
    this.#client.connection.stream.destroy(error);
  }
}
