/** Readiness of an IMAP server: whether it sends a greeting, and accepts the master's login. */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { within } from '../../../platform/time/time.ts';
import type { MailUser } from '../../mailstore/mailstore.ts';
import { type FailureKind, ImapFailure, type Log, nameFailure } from './failure.ts';
import { Link } from './link.ts';
import type { ImapServer } from './log-in.ts';
import { type ServerAddress, tlsOptions } from './open-link.ts';
import type { Pool } from './pool.ts';

export interface ReadinessOptions {
  readonly server: ImapServer;
  readonly pool: Pool;
  readonly log: Log;
  readonly timeoutMs: number;
  readonly report: (user: MailUser | undefined, failure: ImapFailure) => void;
  /** Some accounts that the server should accept. */
  readonly someAccounts: (() => Promise<readonly MailUser[]>) | undefined;
}

/** A server that answered within this time is not tested again. */
const LATELY_MS = 10_000;
/** For a TLS handshake with a port that did not greet. */
const HANDSHAKE_MS = 5_000;

/**
 * Whether the server accepts connections and the master's login.
 *
 * A refused login is mostly that of one account, which the server does not have. So it only makes the master doubtful:
 * then other accounts are tried, first the last one that succeeded. If none succeeds, the master's name or password is
 * wrong, and the answer is no until a login works again.
 */
export class Readiness {
  readonly #options: ReadinessOptions;
  #masterWorks = false;
  /** The last account whose login succeeded. */
  #lastUser: MailUser | undefined;
  #probing: Promise<boolean> | undefined;
  /** Why the server did not greet when it was asked last. */
  #told: FailureKind | undefined;

  constructor(options: ReadinessOptions) {
    this.#options = options;
  }

  /** Runs a login, and notes how it ended. @throws ImapFailure `wants_tls`, and the errors of the login */
  async logIn<T>(user: MailUser, open: () => Promise<T>): Promise<T> {
    try {
      const connection = await open();
      this.#masterWorks = true;
      this.#lastUser = user;
      return connection;
    } catch (error) {
      const kind = error instanceof ImapFailure && error.kind;
      if (kind === 'login_refused') this.#doubt();
      if (kind === 'no_greeting' && (await waitsForTls(this.#options.server))) {
        throw new ImapFailure('wants_tls');
      }
      throw error;
    }
  }

  #doubt(): void {
    if (!this.#masterWorks) return;
    this.#masterWorks = false;
    // The log says what is wrong, also when no health check runs.
    void this.answers();
  }

  async answers(): Promise<boolean> {
    const { pool, someAccounts } = this.#options;
    const { lastSuccess } = pool.health;
    const isProven = this.#masterWorks || !someAccounts;
    if (isProven && lastSuccess > 0 && performance.now() - lastSuccess < LATELY_MS) return true;
    // Health checks may come at any rate: checks at the same time share one connection.
    this.#probing ??= this.#probe()
      .catch(() => false)
      .finally(() => {
        this.#probing = undefined;
      });
    return this.#probing;
  }

  async #probe(): Promise<boolean> {
    const { server, timeoutMs, report, someAccounts } = this.#options;
    const accounts = this.#masterWorks ? [] : ((await someAccounts?.()) ?? []);
    if (accounts.length > 0) return this.#tryLogins(accounts);
    const failure = await findFailure(server, timeoutMs);
    // Health checks come at any rate: one line for each failure.
    if (failure && failure.kind !== this.#told) report(undefined, failure);
    this.#told = failure?.kind;
    return !failure;
  }

  /** Whether the login of one of these accounts succeeds; if none does, a log line says what is wrong. */
  async #tryLogins(accounts: readonly MailUser[]): Promise<boolean> {
    const { server, pool, log, report } = this.#options;
    const last = this.#lastUser;
    const others = accounts.filter(({ accountId }) => accountId !== last?.accountId);
    const tried = last ? [last, ...others] : accounts;
    let refused = 0;
    for (const user of tried) {
      try {
        // An open connection does not show whether the password is still right.
        await pool.use(user, async () => undefined, { fresh: true });
        return true;
      } catch (error) {
        if (!(error instanceof ImapFailure)) return false;
        if (error.kind === 'refused_before' || error.kind === 'busy') continue;
        if (error.kind !== 'resting') report(user, error);
        if (error.kind !== 'login_refused') return false;
        refused++;
      }
    }
    const { host, port, master } = server;
    // Logged again only after a new try.
    if (refused > 0) {
      log.warn(
        { host, port, master: master.user, accounts: tried.length },
        'the IMAP server refused the master user for all of these accounts: the user name or password in MAILSTORE_URL is wrong',
      );
    }
    return false;
  }
}

/** Why the server greets no client that connects as the settings say; undefined where it does. */
export async function findFailure(
  server: ServerAddress,
  timeoutMs: number,
): Promise<ImapFailure | undefined> {
  const { host, port, tls } = server;
  const socket =
    tls === 'implicit' ? connectTls({ port, ...tlsOptions(server) }) : connect(port, host);
  const heard = new Link(socket, timeoutMs).greeting().then(() => undefined, nameFailure);
  const late = new ImapFailure('no_greeting', { said: 'not in time' });
  const failure = await within(heard, timeoutMs, late).finally(() => socket.destroy());
  return failure && (await waitsForTls(server)) ? new ImapFailure('wants_tls') : failure;
}

/**
 * Whether a port to which we speak without TLS expects it, whatever its certificate. Such a port sends nothing to such a
 * client: each waits for the other.
 */
async function waitsForTls({ host, port, tls }: ServerAddress): Promise<boolean> {
  if (tls === 'implicit') return false;
  const socket = connectTls({ host, port, rejectUnauthorized: false });
  return comes(socket, once(socket, 'secureConnect'), HANDSHAKE_MS);
}

/** Whether something comes on a connection in time; then the connection is ended. */
async function comes(socket: Socket, what: Promise<unknown>, ms: number): Promise<boolean> {
  // Whoever waits learns of an error.
  socket.on('error', () => {});
  const answer = what.then(
    () => true,
    () => false,
  );
  return within(answer, ms, false).finally(() => socket.destroy());
}
