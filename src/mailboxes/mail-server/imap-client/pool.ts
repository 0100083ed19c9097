/**
 * Connections to the IMAP server, each for one account: reused between requests, few per account, limited in all, and
 * given in the order of the requests.
 *
 * A connection serves only the account it was opened for. An account that holds all of its connections makes
 * only itself wait, and a user whose accounts hold three quarters of the total makes only himself wait. When the total
 * is reached, an idle connection of another account is closed to make room.
 */
import { LRUCache } from 'lru-cache';
import { entries } from '../../../platform/memory/memory.ts';
import { type MailUser, tenantOf } from '../../mailstore/mailstore.ts';
import type { Connection } from './connection.ts';
import { ImapFailure } from './failure.ts';
import type { Account, Pooled, ReaderHold } from './reader-hold.ts';
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

interface Waiter {
  readonly user: MailUser;
  readonly fresh: boolean;
  /** Ends the wait: from here on `give` or `refuse` follows, within the time that opening takes. */
  readonly begin: () => void;
  readonly give: (pooled: Pooled) => void;
  readonly refuse: (failure: unknown) => void;
}

/** More waiting requests than this are refused at once. */
const WAITING_MAX = 1_000;
/** Also refused: more than this of one account, so that a stalled account leaves room for the others. */
const WAITING_PER_ACCOUNT = 250;
/** Also refused: more than this of one user. */
const WAITING_PER_TENANT = 500;
/** The part of all connections that the accounts of one user may use at once; the others find a slot in the rest. */
const SHARE_OF_TENANT = 0.75;
/** Logins under way at a time: a server checks passwords one after the other. */
const LOGINS_AT_ONCE = 10;
/** Of the accounts of one user: a server answers a refused login seconds later, and keeps the next one waiting. */
const LOGINS_OF_TENANT = 7;
/** Connections of one account. */
const PER_ACCOUNT = 3;
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
  readonly #accounts = new Map<number, Account>();
  /** Idle connections of all accounts, the longest unused first. */
  readonly #idle = new Set<Pooled>();
  readonly #refused = new LRUCache<number, { until: number; failure: ImapFailure }>(
    entries(REFUSED_MAX),
  );
  #waiting: Waiter[] = [];
  #total = 0;
  #opening = 0;
  #closed = false;
  readonly health: ServerHealth;

  constructor(options: PoolOptions) {
    this.#options = options;
    this.#now = options.now ?? (() => performance.now());
    this.health = new ServerHealth(this.#now);
  }

  /** Connections that are open or being opened. */
  get size(): number {
    return this.#total;
  }

  /** Requests that wait for a connection. */
  get waiting(): number {
    return this.#waiting.length;
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
    if (kept && fresh) this.#release(kept);
    const isKept = kept !== undefined && !fresh;
    const pooled = isKept ? kept : await this.#take(user, fresh);
    try {
      const done = await work(pooled.connection, isKept);
      this.health.succeeded();
      return done;
    } finally {
      if (keep) keep.put(pooled, !isKept, () => this.#release(pooled));
      else this.#release(pooled);
    }
  }

  /** Ends every connection; what is under way fails. */
  close(): void {
    this.#closed = true;
    for (const waiter of this.#waiting.splice(0)) {
      waiter.begin();
      waiter.refuse(new ImapFailure('dropped'));
    }
    for (const account of [...this.#accounts.values()]) this.#endAccount(account);
  }

  #take(user: MailUser, fresh: boolean): Promise<Pooled> {
    if (this.#closed) return Promise.reject(new ImapFailure('dropped'));
    const account = this.#accounts.get(user.accountId);
    const idle = account && !fresh ? this.#takeIdle(account) : undefined;
    // Another account cannot use an idle connection of this one, so it is used at once.
    if (idle) return Promise.resolve(idle);
    if (this.#isCrowded(user)) return Promise.reject(this.#busy());
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#waiting = this.#waiting.filter((other) => other !== waiter);
        reject(this.#busy());
      }, this.#options.waitMs);
      const waiter: Waiter = {
        user,
        fresh,
        begin: () => clearTimeout(timer),
        give: resolve,
        refuse: reject,
      };
      this.#waiting.push(waiter);
      this.#serve();
    });
  }

  #isCrowded(asking: MailUser): boolean {
    if (this.#waiting.length < WAITING_PER_ACCOUNT) return false;
    const tenant = tenantOf(asking);
    const ofTenant = this.#waiting.filter(({ user }) => tenantOf(user) === tenant);
    const own = ofTenant.filter(({ user }) => user.accountId === asking.accountId);
    return (
      this.#waiting.length >= WAITING_MAX ||
      ofTenant.length >= WAITING_PER_TENANT ||
      own.length >= WAITING_PER_ACCOUNT
    );
  }

  /** Whether accounts of a user have all connections in use that one user may have. */
  #isShareSpent(tenant: string): boolean {
    const share = Math.ceil(this.#options.total * SHARE_OF_TENANT);
    if (this.#total - this.#idle.size < share) return false;
    let inUse = 0;
    for (const other of this.#accounts.values()) {
      if (other.tenant === tenant) inUse += other.busy.size + other.opening;
    }
    return inUse >= share;
  }

  /** Whether as many logins are under way as there may be, in all or of one user. */
  #isLoggingIn(tenant: string): boolean {
    if (this.#opening < LOGINS_OF_TENANT) return false;
    let opening = 0;
    for (const other of this.#accounts.values()) {
      if (other.tenant === tenant) opening += other.opening;
    }
    return opening >= LOGINS_OF_TENANT || this.#opening >= LOGINS_AT_ONCE;
  }

  /** A random time, so that requests that were refused together do not come back together. */
  #busy(): ImapFailure {
    const seconds = this.#options.waitMs / 1000;
    return new ImapFailure('busy', { retryAfter: Math.max(1, seconds * (0.25 + Math.random())) });
  }

  /** Gives connections to waiting requests, the oldest first. */
  #serve(): void {
    const left: Waiter[] = [];
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const waiter of waiting) if (!this.#serveOne(waiter)) left.push(waiter);
    this.#waiting = [...left, ...this.#waiting];
  }

  /** @returns false where it has to wait on */
  #serveOne(waiter: Waiter): boolean {
    const account = this.#accounts.get(waiter.user.accountId);
    const idle = account && !waiter.fresh ? this.#takeIdle(account) : undefined;
    if (idle) {
      waiter.begin();
      waiter.give(idle);
      return true;
    }
    const tenant = tenantOf(waiter.user);
    if (this.#isLoggingIn(tenant) || this.#isShareSpent(tenant)) return false;
    const held = account ? account.idle.length + account.busy.size + account.opening : 0;
    if (held >= PER_ACCOUNT) {
      // Only a new one will do: an idle one of the account makes room.
      const own = account?.idle[0];
      if (!own) return false;
      this.#end(own);
    } else if (this.#total >= this.#options.total) {
      const [oldest] = this.#idle;
      if (!oldest) return false;
      this.#end(oldest);
    }
    waiter.begin();
    this.#openFor(waiter);
    return true;
  }

  /** The one that was used last, so that connections that are not needed become idle. */
  #takeIdle(account: Account): Pooled | undefined {
    if (account.idle.length === 0 || this.#isShareSpent(account.tenant)) return undefined;
    const pooled = account.idle.pop();
    if (!pooled) return undefined;
    this.#idle.delete(pooled);
    clearTimeout(pooled.idleTimer);
    account.busy.add(pooled);
    return pooled;
  }

  #openFor(waiter: Waiter): void {
    const { user } = waiter;
    const account = this.#account(user);
    account.opening++;
    this.#opening++;
    this.#total++;
    const opened = () => {
      account.opening--;
      this.#opening--;
    };
    this.logIn(user, () => this.#options.open(user)).then(
      (connection) => {
        opened();
        const pooled: Pooled = { connection, account, idleTimer: undefined };
        account.busy.add(pooled);
        connection.onClose(() => this.#forget(pooled));
        if (this.#closed || this.#accounts.get(account.id) !== account) {
          connection.destroy();
          waiter.refuse(new ImapFailure('dropped'));
          return;
        }
        waiter.give(pooled);
        this.#serve();
      },
      (error: unknown) => {
        opened();
        this.#total--;
        waiter.refuse(error);
        this.#tidy(account);
        this.#serve();
      },
    );
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

  #account(user: MailUser): Account {
    const id = user.accountId;
    const known = this.#accounts.get(id);
    if (known) return known;
    const account: Account = {
      id,
      tenant: tenantOf(user),
      idle: [],
      busy: new Set(),
      opening: 0,
      unsubscribe:
        this.#options.onAccessEnd?.(id, () => this.#endAccount(account)) ?? (() => undefined),
    };
    this.#accounts.set(id, account);
    return account;
  }

  #release(pooled: Pooled): void {
    const { connection, account } = pooled;
    if (!account.busy.delete(pooled)) return;
    if (!connection.isOpen) {
      this.#gone(pooled);
      return;
    }
    account.idle.push(pooled);
    this.#idle.add(pooled);
    pooled.idleTimer = setTimeout(() => this.#end(pooled), this.#options.idleMs).unref();
    this.#serve();
  }

  #end(pooled: Pooled): void {
    this.#forget(pooled);
    pooled.connection.destroy();
  }

  /** A connection has ended, idle or in use. */
  #forget(pooled: Pooled): void {
    const { account } = pooled;
    const at = account.idle.indexOf(pooled);
    if (at < 0 && !account.busy.delete(pooled)) return;
    if (at >= 0) account.idle.splice(at, 1);
    this.#idle.delete(pooled);
    clearTimeout(pooled.idleTimer);
    this.#gone(pooled);
  }

  #gone({ account }: Pooled): void {
    this.#total--;
    this.#tidy(account);
    this.#serve();
  }

  #tidy(account: Account): void {
    const { id, idle, busy, opening } = account;
    if (idle.length + busy.size + opening > 0 || this.#accounts.get(id) !== account) return;
    this.#accounts.delete(id);
    account.unsubscribe();
  }

  /** Ends all connections of an account: it was deleted, suspended, or its password was changed. */
  #endAccount(account: Account): void {
    if (this.#accounts.get(account.id) === account) this.#accounts.delete(account.id);
    account.unsubscribe();
    for (const pooled of [...account.idle, ...account.busy]) this.#end(pooled);
  }
}
