/**
 * Opens mailboxes to mail programs by IMAP (RFC 9051, RFC 3501), where they are in our own database. Where a mail server
 * has them, the login is ours, and what follows is passed on to it (`pass-on.ts`).
 *
 * `command-reader.ts` cuts what a client sends into commands, `commands.ts` names them, `session.ts` is the state of a
 * connection, and `view.ts` what it sees of its mailbox; `tell-changes.ts` alone moves that on. `connection.ts` connects a
 * session with its socket, and this file listens and decides who may connect. Nothing is stored here.
 */
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { createSecureContext, type SecureContext } from 'node:tls';
import type { Logger } from 'pino';
import {
  ClientShares,
  clientKey,
  isLoopback,
  type NetworkTest,
  readProxyHeader,
} from '../../platform/net/net.ts';
import { type AccountAccess, AccountShares } from '../../tenants/accounts/accounts.ts';
import { Connection } from './connection.ts';
import type { ConnectionSettings } from './connection-settings.ts';
import type { OpenSessions } from './open-sessions.ts';
import { RecentMessages } from './recent.ts';

export { isExtension } from './log-in.ts';
export {
  type NodeWire,
  type OpenSession,
  OpenSessions,
  type SessionKey,
  SessionsOfNodes,
} from './open-sessions.ts';
export type { Ended } from './run-command.ts';
export type { ImapLogins, ImapMailstore } from './session.ts';

export interface ImapOptions
  extends Pick<
    ConnectionSettings,
    | 'mailstore'
    | 'openOnServer'
    | 'logins'
    | 'maxMessageBytes'
    | 'disabled'
    | 'hostname'
    | 'changes'
    | 'onCommand'
    | 'onOctets'
  > {
  readonly host: string;
  /** 0 for any free port. */
  readonly port: number;
  /** Whether a connection begins with TLS, or with STARTTLS. */
  readonly isSecure: boolean;
  /** PEM. */
  readonly tls: { readonly cert: string | Buffer; readonly key: string | Buffer };
  /** Load balancers that send the PROXY protocol. */
  readonly isBalancer: NetworkTest;
  /** The access of accounts now, by id; those that do not exist are left out. */
  readonly accessOf: (ids: readonly number[]) => Promise<ReadonlyMap<number, AccountAccess>>;
  /** Which app passwords still open their account. */
  readonly appPasswordsThere: (ids: readonly number[]) => Promise<ReadonlySet<number>>;
  /** Milliseconds between two looks for what events did not tell; a minute by default. */
  readonly lookAgainMs?: number;
  /** Of all listeners of the process. */
  readonly slots: ImapSlots;
  /** Of all listeners of the process, for operators. */
  readonly sessions: OpenSessions;
  /** Called where a connection is refused: before its login, or since its client, its account or the user of that has too many. */
  readonly onRefused?: (reason: Refused) => void;
  readonly logger: Logger;
}

export type Refused = 'before_login' | 'of_client' | 'of_user' | 'of_account';

/** Connections of strangers in all, and of one client that is not this machine itself. */
const STRANGERS = 1_000;
const STRANGERS_OF_CLIENT = 10;
/**
 * Connections after a login in all, of one client (many accounts may be behind one address), of the accounts of one user,
 * and of one account.
 */
const CONNECTIONS = 10_000;
const OF_CLIENT = 500;
const OF_USER = 5_000;
const OF_ACCOUNT = 64;
/** Milliseconds for a load balancer to send its header. */
const HEADER_TIMEOUT = 3_000;
/** Milliseconds between two looks for clients that keep us waiting. */
const LOOK_EVERY = 1_000;
/** Between two looks for what was missed: an event is a hint, and may be lost between nodes, or during a login. */
const LOOK_AGAIN_MS = 60_000;
/** Accounts in one query. */
const ACCOUNTS_AT_A_TIME = 1_000;

/**
 * What the connections of a process share: who holds how many of them, so that nobody who is not logged in takes a slot
 * from those who are, and which messages are recent.
 */
export class ImapSlots {
  readonly strangers = new ClientShares(STRANGERS);
  readonly clients: ClientShares;
  readonly accounts: AccountShares;
  readonly recents = new RecentMessages();

  /** @param connections after a login, in all */
  constructor(connections = CONNECTIONS) {
    this.clients = new ClientShares(connections);
    this.accounts = new AccountShares({
      account: OF_ACCOUNT,
      user: OF_USER,
      all: connections,
      leavesAsMany: true,
    });
  }
}

/** Starts a listener. @throws the error of the socket, e.g. `EADDRINUSE` */
export async function startImap(options: ImapOptions): Promise<ImapListener> {
  const listener = new ImapListener(options);
  await listener.listen();
  return listener;
}

export class ImapListener {
  readonly #options: ImapOptions;
  readonly #server: Server;
  #secureContext: SecureContext;
  readonly #connections = new Set<Connection>();
  readonly #running = new Set<Promise<void>>();
  readonly #waiting = new Set<Socket>();
  #look: NodeJS.Timeout | undefined;
  #lookAgain: NodeJS.Timeout | undefined;

  constructor(options: ImapOptions) {
    this.#options = options;
    this.#secureContext = contextOf(options.tls);
    this.#server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
      void this.#accept(socket);
    });
    this.#server.maxConnections = CONNECTIONS + 2 * STRANGERS;
  }

  connections(): number {
    return this.#connections.size;
  }

  address(): { readonly host: string; readonly port: number } {
    const { address, port } = this.#server.address() as AddressInfo;
    return { host: address, port };
  }

  /** Uses another certificate from now on. @throws OpenSSL's error where it cannot use it */
  setTls(tls: ImapOptions['tls']): void {
    this.#secureContext = contextOf(tls);
  }

  /** See {@link startImap}; called once. */
  async listen(): Promise<void> {
    const { host, port, logger } = this.#options;
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#server.once('error', reject);
    this.#server.listen(port, host, resolve);
    await promise;
    this.#server.off('error', reject);
    this.#server.on('error', (error) =>
      logger.warn({ err: error }, 'an IMAP connection could not be accepted'),
    );
    this.#look = setInterval(() => {
      const now = performance.now();
      for (const connection of this.#connections) connection.checkTime(now, Date.now());
    }, LOOK_EVERY);
    this.#lookAgain = setInterval(() => {
      this.#lookForMissed().catch((error: unknown) =>
        logger.warn(
          { err: error },
          'IMAP connections could not be compared with their accounts: tried again in a minute',
        ),
      );
    }, this.#options.lookAgainMs ?? LOOK_AGAIN_MS);
  }

  /** Tells all clients BYE, and resolves when their commands have ended, or at the deadline. @param deadline milliseconds */
  async close(deadline: number): Promise<void> {
    const { promise: stopped, resolve: stop } = Promise.withResolvers<void>();
    this.#server.close(() => stop());
    for (const socket of this.#waiting) socket.destroy();
    for (const connection of this.#connections)
      connection.end('[UNAVAILABLE] The server stops: connect again');
    const late = setTimeout(() => {
      for (const connection of this.#connections) connection.destroy();
    }, deadline);
    await Promise.all([stopped, ...this.#running]);
    clearTimeout(late);
    clearInterval(this.#look);
    clearInterval(this.#lookAgain);
  }

  async #lookForMissed(): Promise<void> {
    const { accessOf, appPasswordsThere } = this.#options;
    const open = [...this.#connections].filter(({ user }) => user !== undefined);
    const byAccount = Map.groupBy(open, ({ user }) => user?.accountId ?? 0);
    const ids = [...byAccount.keys()];
    for (let at = 0; at < ids.length; at += ACCOUNTS_AT_A_TIME) {
      const some = ids.slice(at, at + ACCOUNTS_AT_A_TIME);
      const theirs = some.flatMap((id) => byAccount.get(id) ?? []);
      const appPasswords = theirs.flatMap(({ user }) => user?.appPasswordId ?? []);
      const access = await accessOf(some);
      const there = await appPasswordsThere([...new Set(appPasswords)]);
      for (const connection of theirs) {
        // One that has ended meanwhile has nothing to lose.
        const { user } = connection;
        if (user) connection.lookAgain(access.get(user.accountId), there);
      }
    }
  }

  async #accept(socket: Socket): Promise<void> {
    const { logger, isBalancer } = this.#options;
    socket.on('error', (error) => logger.debug({ err: error }, 'an IMAP connection failed'));
    const peer = socket.remoteAddress?.replace(/^::ffff:(?=\d+\.)/i, '');
    if (socket.destroyed || peer === undefined) {
      socket.destroy();
      return;
    }
    if (!isBalancer(peer)) {
      this.#admit(socket, peer);
      return;
    }
    this.#waiting.add(socket);
    const address = await readProxyHeader(socket, HEADER_TIMEOUT);
    this.#waiting.delete(socket);
    if (address === undefined || socket.destroyed || !this.#server.listening) socket.destroy();
    else this.#admit(socket, address);
  }

  #admit(socket: Socket, address: string): void {
    const { slots, sessions, isSecure, logger, onRefused } = this.#options;
    const key = clientKey(address);
    const most = isLoopback(address) ? STRANGERS : STRANGERS_OF_CLIENT;
    if (!slots.strangers.take(key, 1, most)) {
      onRefused?.('before_login');
      logger.info({ remoteAddress: address }, 'an IMAP connection was refused: too many are open');
      socket.end(isSecure ? '' : '* BYE [LIMIT] Too many connections\r\n');
      socket.destroySoon();
      return;
    }
    let isStranger = true;
    const known = () => {
      if (isStranger) slots.strangers.give(key, 1);
      isStranger = false;
    };
    socket.once('close', known);
    const settings: ConnectionSettings = {
      ...this.#options,
      recents: slots.recents,
      secureContext: () => this.#secureContext,
      admit: (user) => {
        if (!slots.clients.take(key, 1, OF_CLIENT)) {
          onRefused?.('of_client');
          return undefined;
        }
        const giveBack = slots.accounts.take(user);
        if (typeof giveBack === 'string') {
          slots.clients.give(key, 1);
          onRefused?.(giveBack);
          return undefined;
        }
        known();
        return () => {
          slots.clients.give(key, 1);
          giveBack();
        };
      },
    };
    const client = { address, isLocal: isLoopback(address), isSecure };
    const connection = new Connection(socket, client, settings, logger);
    this.#connections.add(connection);
    sessions.add(connection);
    socket.once('close', () => {
      this.#connections.delete(connection);
      sessions.remove(connection);
    });
    const running = connection.run();
    this.#running.add(running);
    void running.then(() => this.#running.delete(running));
  }
}

/** TLS 1.0 and 1.1 must not be used (RFC 8996). */
function contextOf(tls: ImapOptions['tls']): SecureContext {
  return createSecureContext({ ...tls, minVersion: 'TLSv1.2' });
}
