/**
 * Opens mailboxes to mail programs by IMAP (RFC 9051, RFC 3501), where they are in our own database. Where a mail server
 * has them, the login is ours, and what follows is passed on to it (`pass-on.ts`).
 *
 * `command-reader.ts` cuts what a client sends into commands, `commands.ts` names them, `session.ts` is the state of a
 * connection, and `view.ts` what it sees of its mailbox; `tell-changes.ts` alone moves that on. `connection.ts` connects a
 * session with its socket, and this file listens and decides who may connect. Nothing is stored here.
 */
import type { Socket } from 'node:net';
import type { Logger } from 'pino';
import {
  type Certificate,
  ClientShares,
  clientKey,
  isLoopback,
  Listener,
  type NetworkTest,
  type SharedSlots,
  StrangerShares,
} from '../../platform/net/net.ts';
import { Outage, Repeat } from '../../platform/time/time.ts';
import {
  type AccountAccess,
  AccountShares,
  type MailAccess,
} from '../../tenants/accounts/accounts.ts';
import { Connection } from './connection.ts';
import type { ConnectionSettings } from './connection-settings.ts';
import { LONG_COMMANDS } from './incoming.ts';
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
    | 'now'
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
  readonly tls: Certificate;
  readonly isBalancer: NetworkTest;
  /** The access of accounts now, by id; those that do not exist are left out. */
  readonly accessOf: (ids: readonly number[]) => Promise<ReadonlyMap<number, AccountAccess>>;
  /** Which app passwords still open their account. */
  readonly appPasswordsThere: (ids: readonly number[]) => Promise<ReadonlySet<number>>;
  /** Milliseconds between two checks for what events did not tell; a minute by default. */
  readonly recheckMs?: number;
  /** Of all listeners of the process. */
  readonly slots: ImapSlots;
  /** Of all listeners of the process, for operators. */
  readonly sessions: OpenSessions;
  /** Called where a connection is refused: before its login, or because its client, its account or the account's user has too many. */
  readonly onRefused?: (reason: Refused) => void;
  readonly logger: Logger;
}

type AfterLogin = 'of_client' | 'of_user' | 'of_account';
export type Refused = 'before_login' | AfterLogin;

/** Connections without a login: in all, and of one client (this machine itself has no such limit). */
const STRANGERS = 1_000;
const STRANGERS_OF_CLIENT = 10;
/**
 * Connections after a login: in all, of one client (many accounts may be behind one address), of all accounts of one user,
 * and of one account. The last are counted over all nodes, too.
 */
const CONNECTIONS = 10_000;
const OF_CLIENT = 500;
const OF_USER = 5_000;
const OF_ACCOUNT = 64;
/** Milliseconds between two checks for clients that keep us waiting. */
const TIME_CHECK_MS = 1_000;
/** Between two checks for what was missed: an event is a hint, and may be lost between nodes, or during a login. */
const RECHECK_MS = 60_000;
const ACCOUNTS_AT_A_TIME = 1_000;

/**
 * What the connections of a process share: who holds how many of them, so that nobody who is not logged in takes a slot
 * from those who are, and which messages are recent.
 */
export class ImapSlots {
  readonly strangers = new StrangerShares(STRANGERS);
  readonly clients: ClientShares;
  readonly accounts: AccountShares;
  readonly recents = new RecentMessages();
  readonly longCommands = new AccountShares(LONG_COMMANDS);
  readonly #shared: SharedSlots | undefined;

  /**
   * @param connections after a login, in all
   * @param shared where several nodes count those of an account
   */
  constructor(connections = CONNECTIONS, shared?: SharedSlots) {
    this.#shared = shared;
    this.clients = new ClientShares(connections);
    this.accounts = new AccountShares({
      account: OF_ACCOUNT,
      user: OF_USER,
      all: connections,
      leavesAsMany: true,
    });
  }

  /** Takes a slot for a connection after its login. @param client its key @returns what gives it back, or who has too many */
  async take(user: MailAccess, client: string): Promise<(() => void) | AfterLogin> {
    const ofClient = this.clients.hold(client, OF_CLIENT);
    if (!ofClient) return 'of_client';
    const ofAccount = this.accounts.take(user);
    if (typeof ofAccount === 'string') {
      ofClient();
      return ofAccount;
    }
    const here = () => {
      ofClient();
      ofAccount();
    };
    const shared = this.#shared;
    if (!shared) return here;
    const name = `imap:${user.accountId}`;
    if ((await shared.take(name, 1, OF_ACCOUNT)) === 0) {
      here();
      return 'of_account';
    }
    return () => {
      here();
      shared.give(name, 1);
    };
  }
}

/** Starts a listener. @throws the error of the socket, e.g. `EADDRINUSE` */
export async function startImap(options: ImapOptions): Promise<ImapListener> {
  const listener = new ImapListener(options);
  await listener.listen(options.port, options.host);
  return listener;
}

export class ImapListener extends Listener<Connection> {
  readonly #options: ImapOptions;
  #timeCheck: NodeJS.Timeout | undefined;
  readonly #rechecks: Repeat;

  constructor(options: ImapOptions) {
    const { tls, isBalancer, logger } = options;
    super({ tls, isBalancer, maxConnections: CONNECTIONS + 2 * STRANGERS, logger });
    this.#options = options;
    const line =
      'IMAP connections could not be compared with their accounts: tried again in a minute';
    this.#rechecks = new Repeat({
      everyMs: options.recheckMs ?? RECHECK_MS,
      task: () => this.#recheckAll(),
      outage: new Outage((err) => logger.warn({ err }, line)),
    });
  }

  /** See {@link startImap}; called once. */
  override async listen(port: number, host: string): Promise<void> {
    await super.listen(port, host);
    this.#timeCheck = setInterval(() => {
      const now = performance.now();
      for (const connection of this.served) connection.checkTime(now);
    }, TIME_CHECK_MS);
    this.#rechecks.start();
  }

  /** Tells all clients BYE, and resolves when their commands have ended, or at the deadline. @param deadline milliseconds */
  override async close(deadline: number): Promise<void> {
    const stopped = super.close(deadline);
    for (const connection of this.served)
      connection.end('[UNAVAILABLE] The server stops: connect again');
    await stopped;
    clearInterval(this.#timeCheck);
    await this.#rechecks.stop();
  }

  async #recheckAll(): Promise<void> {
    const { accessOf, appPasswordsThere } = this.#options;
    const open = [...this.served].filter(({ user }) => user !== undefined);
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
        if (user) connection.recheck(access.get(user.accountId), there);
      }
    }
  }

  protected override admit(socket: Socket, address: string): void {
    const { slots, sessions, isSecure, logger, onRefused } = this.#options;
    const key = clientKey(address);
    const most = isLoopback(address) ? STRANGERS : STRANGERS_OF_CLIENT;
    const known = slots.strangers.hold(key, most);
    if (!known) {
      onRefused?.('before_login');
      logger.info({ remoteAddress: address }, 'an IMAP connection was refused: too many are open');
      socket.end(isSecure ? '' : '* BYE [LIMIT] Too many connections\r\n');
      socket.destroySoon();
      return;
    }
    socket.once('close', known);
    const settings: ConnectionSettings = {
      ...this.#options,
      recents: slots.recents,
      longCommands: slots.longCommands,
      secureContext: () => this.secureContext,
      admit: async (user) => {
        const slot = await slots.take(user, key);
        if (typeof slot === 'string') {
          onRefused?.(slot);
          return undefined;
        }
        known();
        return slot;
      },
    };
    const client = { address, isLocal: isLoopback(address), isSecure };
    const connection = new Connection(socket, client, settings, logger);
    sessions.add(connection);
    socket.once('close', () => sessions.remove(connection));
    this.serve(socket, connection);
  }
}
