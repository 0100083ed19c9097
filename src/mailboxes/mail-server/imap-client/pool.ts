/**
 * Connections to the IMAP server, each for one account: reused between requests, few per account, limited in all, and
 * given in the order of the requests.
 *
 * A connection serves only the account it was opened for. An account that holds all of its connections makes
 * only itself wait, and a user whose accounts hold three quarters of the total makes only himself wait. When the total
 * is reached, the connection that is unused longest is closed to make room.
 */
import { LRUCache } from 'lru-cache';
import { entries } from '../../../platform/memory/memory.ts';
import { Turns } from '../../../platform/net/net.ts';
import { type MailUser, partiesOf } from '../../mailstore/mailstore.ts';
import type { Connection } from './connection.ts';
import { ImapFailure } from './failure.ts';
import { ServerHealth } from './server-health.ts';

export interface PoolOptions {
  readonly open: (user: MailUser) => Promise<Connection>;
  readonly total: number;
  /** Milliseconds after which an unused connection is closed. */
  readonly idleMs: number;
  /** Longest wait for a connection, in milliseconds. */
  readonly waitMs: number;
  /** Called for each login. */
  readonly onLogin?: ((result: 'succeeded' | 'refused' | 'failed') => void) | undefined;
  /**
   * Calls the listener when an account's access ends: its connections are closed. The returned function ends the
   * subscription.
   */
  readonly onAccessEnd?: (accountId: number, listener: () => void) => () => void;
  readonly now?: () => number;
}

interface Open {
  readonly connection: Connection;
  readonly end: () => void;
}

/** A connection that nobody uses now. */
interface Idle extends Open {
  readonly accountId: number;
  readonly timer: NodeJS.Timeout;
}

/** Connections of one account. */
const PER_ACCOUNT = 3;
/** The part of all connections that the accounts of one user may use at once; the others find a slot in the rest. */
const SHARE_OF_TENANT = 0.75;
/** More waiting requests than this are refused at once. */
const WAITING_MAX = 1_000;
/** Also refused: more than this of one account or user, so that a stalled one leaves room for the others. */
const WAITING_OF_ONE = { account: 250, tenant: 500 };
/** Logins under way at a time: a server checks passwords one after the other. */
const LOGINS_AT_ONCE = 10;
/** Of the accounts of one user: a server answers a refused login seconds later, and keeps the next one waiting. */
const LOGINS_OF_ONE = { account: PER_ACCOUNT, tenant: 7 };
/** After a refused login the same account is not tried again for this long. */
const REFUSED_REST_MS = 3_000;
const REFUSED_MAX = 10_000;

export interface UseOptions {
  /** Whether only a new connection will do. */
  readonly fresh?: boolean;
  /** Holds the connection for the same reader's next use. */
  readonly keep?: ReaderHold;
}

export class Pool {
  readonly #options: PoolOptions;
  readonly #now: () => number;
  readonly #turns: Turns;
  readonly #logins = new Turns(LOGINS_AT_ONCE);
  /** What ends each connection that is open or being opened, and its account. */
  readonly #ends = new Map<() => void, number>();
  /** Of all accounts, the longest unused first. */
  readonly #idle = new Set<Idle>();
  readonly #refused = new LRUCache<number, { until: number; failure: ImapFailure }>(
    entries(REFUSED_MAX),
  );
  #waiting = 0;
  #closed = false;
  readonly health: ServerHealth;

  constructor(options: PoolOptions) {
    this.#options = options;
    this.#now = options.now ?? (() => performance.now());
    this.#turns = new Turns(options.total);
    this.health = new ServerHealth(this.#now);
  }

  /** Connections that are open or being opened. */
  get size(): number {
    return this.#ends.size;
  }

  /** Requests that wait for a connection. */
  get waiting(): number {
    return this.#waiting;
  }

  /**
   * Runs `work` with a connection of the account for itself alone. `work` learns whether the connection was held for
   * it, so that the mailbox is still open.
   *
   * @throws ImapFailure `busy` when none became free in time, and the errors of opening one
   */
  async use<T>(
    user: MailUser,
    work: (connection: Connection, isKept: boolean) => Promise<T>,
    { fresh = false, keep }: UseOptions = {},
  ): Promise<T> {
    const kept = keep?.take();
    if (kept && fresh) kept.release();
    const isKept = kept !== undefined && !fresh;
    const lease = isKept ? kept : await this.#take(user, fresh);
    try {
      const done = await work(lease.connection, isKept);
      this.health.succeeded();
      return done;
    } finally {
      if (keep) keep.put(lease, !isKept);
      else lease.release();
    }
  }

  /** Ends every connection; what is under way fails. */
  close(): void {
    this.#closed = true;
    for (const end of this.#ends.keys()) end();
  }

  async #take(user: MailUser, fresh: boolean): Promise<Lease> {
    const { total, waitMs } = this.#options;
    const tenant = Math.ceil(total * SHARE_OF_TENANT);
    const parties = partiesOf(user, { account: PER_ACCOUNT, tenant });
    const inLine = partiesOf(user, WAITING_OF_ONE);
    const isCrowded = parties.some(
      ({ name, most }, at) => this.#turns.tasksOf(name) >= most + (inLine[at]?.most ?? 0),
    );
    if (isCrowded || this.#waiting >= WAITING_MAX) throw this.#busy();
    const late = AbortSignal.timeout(waitMs);
    this.#waiting++;
    try {
      return await new Promise((resolve, reject) => {
        const hold = async () => {
          const idle = fresh ? undefined : this.#takeIdle(user);
          const { connection, end } = idle ?? (await this.#open(user, late));
          await new Promise<void>((release) => resolve({ connection, release }));
          this.#rest(user, { connection, end });
        };
        this.#turns.run(parties, hold, late).catch(reject);
      });
    } catch (error) {
      throw late.aborted && error === late.reason ? this.#busy() : error;
    } finally {
      this.#waiting--;
    }
  }

  /** A random time, so that requests that were refused together do not come back together. */
  #busy(): ImapFailure {
    const seconds = this.#options.waitMs / 1000;
    return new ImapFailure('busy', { retryAfter: Math.max(1, seconds * (0.25 + Math.random())) });
  }

  /** The one that was used last, so that connections that are not needed become idle. */
  #takeIdle({ accountId }: MailUser): Idle | undefined {
    let last: Idle | undefined;
    for (const idle of this.#idle) {
      if (idle.accountId === accountId && idle.connection.isOpen) last = idle;
    }
    if (last) this.#wake(last);
    return last;
  }

  #wake(idle: Idle): void {
    this.#idle.delete(idle);
    clearTimeout(idle.timer);
  }

  #endIdle(idle: Idle): void {
    this.#wake(idle);
    idle.end();
  }

  #rest({ accountId }: MailUser, { connection, end }: Open): void {
    if (!connection.isOpen) {
      end();
      return;
    }
    const timer = setTimeout(() => this.#endIdle(idle), this.#options.idleMs).unref();
    const idle = { accountId, connection, end, timer };
    this.#idle.add(idle);
  }

  /** Ends an idle connection where there may be no other one. Those in use have a turn each, as the one to be opened has. */
  #makeRoom(user: MailUser): void {
    const own = this.#ends.values().filter((accountId) => accountId === user.accountId);
    if ([...own].length >= PER_ACCOUNT) this.#takeIdle(user)?.end();
    for (const idle of this.#idle) if (this.size >= this.#options.total) this.#endIdle(idle);
  }

  /** Opens a connection in the turn of its user. */
  async #open(user: MailUser, late: AbortSignal): Promise<Open> {
    let opened: Connection | undefined;
    let isEnded = false;
    const end = () => {
      isEnded = true;
      this.#ends.delete(end);
      forget();
      opened?.destroy();
    };
    const forget = this.#options.onAccessEnd?.(user.accountId, end) ?? (() => undefined);
    const requireWanted = () => {
      if (this.#closed || isEnded) throw new ImapFailure('dropped');
    };
    const logIn = async () => {
      requireWanted();
      // Now, and not while it waits for others that log in: until then, those that are idle serve their accounts.
      this.#makeRoom(user);
      this.#ends.set(end, user.accountId);
      return this.logIn(user, () => this.#options.open(user));
    };
    try {
      opened = await this.#logins.run(partiesOf(user, LOGINS_OF_ONE), logIn, late);
      opened.onClose(end);
      requireWanted();
      return { connection: opened, end };
    } catch (error) {
      end();
      throw error;
    }
  }

  /**
   * Runs a login at the server, which is left alone for a while after it failed, and an account after a refusal. What it
   * opens is no part of the pool.
   *
   * @throws ImapFailure `resting`, `refused_before`, and the errors of the login
   */
  async logIn<T>(user: MailUser, open: () => Promise<T>): Promise<T> {
    const refused = this.#refused.get(user.accountId);
    if (refused && refused.until > this.#now()) throw refused.failure;
    try {
      const connection = await this.health.attempt(open);
      this.#refused.delete(user.accountId);
      this.#options.onLogin?.('succeeded');
      return connection;
    } catch (error) {
      const isRefused = error instanceof ImapFailure && error.kind === 'login_refused';
      this.#options.onLogin?.(isRefused ? 'refused' : 'failed');
      if (isRefused) {
        const failure = new ImapFailure('refused_before', {
          retryAfter: REFUSED_REST_MS / 1000,
        });
        this.#refused.set(user.accountId, { until: this.#now() + REFUSED_REST_MS, failure });
      }
      throw error;
    }
  }
}

/** A connection in use. */
interface Lease {
  readonly connection: Connection;
  readonly release: () => void;
}

/** A reader that pauses for longer than this releases its connection. */
const PAUSE_MS = 200;
/** So does a reader that has held it for this long: others of the account wait for it. */
const KEPT_MS = 1_000;

/**
 * Holds the connection for one reader between its commands, as long as it reads without a pause. If others used it in
 * between, the server would read the message from its start again.
 */
export class ReaderHold {
  #lease: Lease | undefined;
  #pause: NodeJS.Timeout | undefined;
  #until = 0;

  /** Releases the connection. */
  end(): void {
    this.#take()?.release();
  }

  /** @returns the held connection, for its next use */
  take(): Lease | undefined {
    const lease = this.#take();
    if (lease?.connection.isOpen) return lease;
    lease?.release();
    return undefined;
  }

  #take(): Lease | undefined {
    const lease = this.#lease;
    this.#lease = undefined;
    clearTimeout(this.#pause);
    return lease;
  }

  /** Holds a connection after a use. @param isFirst whether it was not held before */
  put(lease: Lease, isFirst: boolean): void {
    const now = performance.now();
    if (isFirst) this.#until = now + KEPT_MS;
    if (!lease.connection.isOpen || now > this.#until) {
      lease.release();
      return;
    }
    this.#lease = lease;
    this.#pause = setTimeout(() => this.end(), PAUSE_MS).unref();
  }
}
