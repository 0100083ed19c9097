/**
 * Takes mail in by SMTP (RFC 5321) and LMTP (RFC 2033).
 *
 * `protocol.ts` speaks the protocol, without sockets and clocks; `connection.ts` serves one connection: it
 * asks `delivery` about each recipient and gives it each message as a stream; this file listens, and decides
 * who may connect and for how long. A message is answered `250` only after `delivery` has made it durable.
 * Nothing is stored here, and only a few chunks of a message are in memory.
 */
import type { Socket } from 'node:net';
import type { Logger } from 'pino';
import { enterTurnOfMail } from '../../mail/delivery/delivery.ts';
import { type ErrorCode, Refusal } from '../../platform/errors/errors.ts';
import {
  type Certificate,
  ClientShares,
  clientKey,
  isLoopback,
  Listener,
  type NetworkTest,
  networkKey,
  type SharedSlots,
  StrangerShares,
} from '../../platform/net/net.ts';
import { formatReply } from '../../protocols/smtp-client/smtp-client.ts';
import { AccountShares } from '../../tenants/accounts/accounts.ts';
import { type Client, type ConnectionSettings, submitterSlots } from './clients.ts';
import { refusalReply } from './commands.ts';
import { Connection } from './connection.ts';
import { deferringOutage } from './refusals.ts';

export type { Submission, Submitter } from './clients.ts';

type OfConnections =
  | 'delivery'
  | 'findBlock'
  | 'hostname'
  | 'isSecure'
  | 'maxMessageBytes'
  | 'protocol'
  | 'trace';

export interface SmtpOptions extends Pick<ConnectionSettings, OfConnections> {
  readonly host: string;
  /** 0 for any free port. */
  readonly port: number;
  /** PEM, for STARTTLS. */
  readonly tls: Certificate;
  /** Concurrent connections of one client; ten times as many for a trusted one. */
  readonly maxPerIp: number;
  readonly logger: Logger;
  /** For metrics. */
  readonly traffic?: SmtpTraffic;
  /** Concurrent connections of all clients. */
  readonly maxConnections: number;
  /** Where connections of a client are counted over several nodes; left out for a single node. */
  readonly slots?: SharedSlots | undefined;
  /** Relays of the operator, which are no strangers. */
  readonly isTrusted: NetworkTest;
  /** Load balancers that send the PROXY protocol. */
  readonly isBalancer: NetworkTest;
  /** Other limits than {@link LIMITS}: those of submission, and of tests. */
  readonly limits?: Partial<SmtpLimits>;
}

/** What a client may do; times in milliseconds. */
const LIMITS = {
  /**
   * Recipients of one message: the least that RFC 5321 section 4.5.3.1.8 allows. By SMTP, as many refused recipients
   * without a message between them end a connection.
   */
  recipientsMax: 100,
  /** How long a client may stay silent (RFC 5321 section 4.5.3.2.7). */
  idleTimeout: 5 * 60_000,
  /** The same while three quarters of all connections are in use. */
  crowdedIdleTimeout: 10_000,
  /** How long to wait for a stranger without an accepted message. */
  lifetime: 5 * 60_000,
  /** The same while three quarters of all connections are in use. */
  crowdedLifetime: 60_000,
  /** How long one message may take to arrive. */
  messageTimeout: 60 * 60_000,
  /** In which a stranger must not send anything yet. */
  greetingDelay: 100,
  /** Wrong commands without a message between them that end a connection. */
  errorsMax: 10,
  /** Commands without a message between them that end a connection. */
  commandsMax: 1_000,
};

export type SmtpLimits = Readonly<typeof LIMITS>;

/** What a listener counts of its clients. */
export interface SmtpTraffic {
  connected(): void;
  disconnected(): void;
  /** @param verb in upper case, also one that the client made up */
  command(verb: string): void;
  /** A connection, a command or a message was refused or deferred. */
  refused(code: ErrorCode): void;
}

/** How many times as many connections a trusted client may hold. */
const TRUSTED_SHARE = 10;
/** How many messages of the largest size may be unfinished at once, of one stranger and of all clients. */
const UNFINISHED_PER_CLIENT = 4;
const UNFINISHED_IN_ALL = 40;
/** The share of all connections in use from which silent clients are disconnected soon. */
const CROWDED = 0.75;
/** The most milliseconds between two checks for clients that keep us waiting. */
const TIME_CHECK_MS = 1_000;
/** Milliseconds of a turn of the event loop, for one stranger and for all of his network: he may send commands by the thousand. */
const OF_A_TURN = { client: 5, network: 10 };
/** Milliseconds for clients to hang up after the 421 of a stop. */
const STOP_LINGER = 1_000;

/** Whose an unfinished message is. */
interface StagingHolder {
  /** A client, or an account. */
  readonly owner: string;
  /** The network of a client, or the user of an account; absent for relays of the operator. */
  readonly group: string | undefined;
}

/** Starts a listener. @throws the error of the socket, e.g. with `code: 'EADDRINUSE'` where the port is in use */
export async function startSmtp(options: SmtpOptions): Promise<SmtpListener> {
  const listener = new SmtpListener(options);
  await listener.listen(options.port, options.host);
  return listener;
}

export class SmtpListener extends Listener<Connection> {
  readonly #settings: ConnectionSettings;
  readonly #options: SmtpOptions;
  readonly #limits: SmtpLimits;
  readonly #logger: Logger;
  readonly #shares: StrangerShares;
  readonly #accounts: AccountShares;
  readonly #staged: ClientShares;
  readonly #stagedOfGroups: ClientShares;
  #timeCheck: NodeJS.Timeout | undefined;
  #closing: Promise<void> | undefined;

  constructor(options: SmtpOptions) {
    const { tls, isBalancer, maxConnections } = options;
    const logger = options.logger.child({ protocol: options.protocol });
    // To answer 421 needs a connection, too.
    const inAll = (takesLogins(options) ? 3 : 2) * maxConnections;
    super({ tls, isBalancer, maxConnections: inAll, logger });
    this.#options = options;
    this.#logger = logger;
    this.#limits = { ...LIMITS, ...options.limits };
    this.#settings = {
      ...this.#limits,
      ...options,
      onCommand: options.traffic?.command,
      onRefused: options.traffic?.refused,
      outage: deferringOutage(logger),
      secureContext: () => this.secureContext,
    };
    this.#shares = new StrangerShares(maxConnections);
    this.#accounts = new AccountShares(submitterSlots(maxConnections));
    this.#staged = new ClientShares(UNFINISHED_IN_ALL * options.maxMessageBytes);
    this.#stagedOfGroups = new ClientShares(UNFINISHED_IN_ALL * options.maxMessageBytes);
  }

  /** See {@link startSmtp}; called once. */
  override async listen(port: number, host: string): Promise<void> {
    await super.listen(port, host);
    const { idleTimeout, crowdedIdleTimeout, lifetime, crowdedLifetime } = this.#limits;
    const { messageTimeout } = this.#settings;
    const limits = [idleTimeout, crowdedIdleTimeout, lifetime, crowdedLifetime, messageTimeout];
    const shortest = Math.min(...limits);
    // After the reads of this turn: in a process that stood still timers run first, although clients were not silent. With
    // the time from before these reads: the process may stand still during them, and what comes then is read later.
    const check = () => setImmediate((now: number) => this.#endSlowOnes(now), performance.now());
    this.#timeCheck = setInterval(check, Math.min(TIME_CHECK_MS, shortest / 4));
  }

  /**
   * Stops: accepts no new connections, ends those without a message under way with 421, and lets the others
   * finish their message. Resolves when all connections are closed and delivery has no message of ours under
   * way, or at the deadline; never rejects.
   *
   * @param deadline milliseconds after which open connections are cut off
   */
  override close(deadline = 10_000): Promise<void> {
    this.#closing ??= this.#close(deadline);
    return this.#closing;
  }

  async #close(deadline: number): Promise<void> {
    const { served } = this;
    const stopped = super.close(deadline);
    for (const connection of served) connection.drain();
    const linger = setTimeout(() => {
      for (const connection of served) if (connection.isOver) connection.destroy();
    }, STOP_LINGER);
    await stopped;
    clearTimeout(linger);
    clearInterval(this.#timeCheck);
  }

  protected override admit(socket: Socket, address: string): void {
    const key = clientKey(address);
    const { maxPerIp, slots } = this.#options;
    const isTrusted = this.#options.isTrusted(address);
    const most = isTrusted ? TRUSTED_SHARE * maxPerIp : maxPerIp;
    const giveBack = this.#shares.hold(key, most, !isTrusted);
    if (!giveBack) {
      this.#refuse(socket, address);
      return;
    }
    socket.once('close', giveBack);
    const client = this.#clientOf(address, key, isTrusted, (account) => {
      // A client that has left would keep its slot: its `close` event has come already.
      if (socket.destroyed) return false;
      const release = this.#accounts.take(account);
      if (typeof release === 'string') return false;
      giveBack();
      socket.once('close', release);
      return true;
    });
    if (slots) void this.#serveInSlot(slots, socket, client, most);
    else this.#run(socket, client);
  }

  #refuse(socket: Socket, address: string): void {
    this.#options.traffic?.refused(TOO_MANY.code);
    this.#logger.info(
      { remoteAddress: address },
      'connection refused: too many connections are open',
    );
    // It is closed at once: a client that connects again and again must not use up descriptors.
    socket.write(formatReply(refusalReply(TOO_MANY)));
    socket.destroySoon();
  }

  /** Serves a client that is within its limit of connections over all nodes. */
  async #serveInSlot(
    slots: SharedSlots,
    socket: Socket,
    client: Client,
    most: number,
  ): Promise<void> {
    const slot = `${this.#options.protocol}:${clientKey(client.address)}`;
    if ((await slots.take(slot, 1, most)) === 0) {
      this.#refuse(socket, client.address);
      return;
    }
    // The client left meanwhile, or the listener stops.
    if (socket.destroyed || !this.isListening) {
      slots.give(slot, 1);
      socket.destroy();
      return;
    }
    socket.once('close', () => slots.give(slot, 1));
    this.#run(socket, client);
  }

  #clientOf(address: string, key: string, isTrusted: boolean, countFor: Client['logIn']): Client {
    let holder: StagingHolder = { owner: key, group: isTrusted ? undefined : networkKey(key) };
    const { client, network } = OF_A_TURN;
    const parties = isTrusted
      ? []
      : [
          { name: `smtp ${key}`, most: client },
          { name: `smtp ${networkKey(key)}`, most: network },
        ];
    return {
      address,
      isTrusted,
      enterTurn: () => enterTurnOfMail(parties),
      // Without TLS a password may come from this machine only.
      login: takesLogins(this.#options) ? (isLoopback(address) ? 'anywhere' : 'by TLS') : undefined,
      stage: (octets) => this.#stage(holder, octets),
      unstage: (octets) => {
        this.#staged.give(holder.owner, octets);
        if (holder.group !== undefined) this.#stagedOfGroups.give(holder.group, octets);
      },
      logIn: (account) => {
        holder = { owner: `account ${account.accountId}`, group: `user ${account.userId}` };
        return countFor(account);
      },
    };
  }

  /**
   * Counts octets of an unfinished message. A stranger or account must leave as much free as it uses, and so must all of a
   * network or user together: so a message has room, however many they are.
   */
  #stage({ owner, group }: StagingHolder, octets: number): boolean {
    const { maxMessageBytes } = this.#options;
    if (group === undefined) {
      return this.#staged.take(owner, octets, UNFINISHED_IN_ALL * maxMessageBytes);
    }
    const left = this.#staged.left - octets;
    if (!this.#stagedOfGroups.take(group, octets, left)) return false;
    const most = Math.min(UNFINISHED_PER_CLIENT * maxMessageBytes, left);
    if (this.#staged.take(owner, octets, most)) return true;
    this.#stagedOfGroups.give(group, octets);
    return false;
  }

  #run(socket: Socket, client: Client): void {
    const connection = new Connection(socket, client, this.#settings, this.#logger);
    this.#options.traffic?.connected();
    socket.once('close', () => this.#options.traffic?.disconnected());
    this.serve(socket, connection);
  }

  /** Ends connections of clients that keep us waiting too long, sooner where few connections are left. */
  #endSlowOnes(now: number): void {
    const { idleTimeout, crowdedIdleTimeout, lifetime, crowdedLifetime } = this.#limits;
    const isCrowded = this.#shares.taken >= CROWDED * this.#options.maxConnections;
    const idle = isCrowded ? crowdedIdleTimeout : idleTimeout;
    // Else one command a second, or one octet of a message, would keep a connection for all of the lifetime.
    const alive = isCrowded ? crowdedLifetime : lifetime;
    for (const connection of this.served) {
      connection.checkTime(now, connection.isLoggedIn ? idleTimeout : idle, alive);
    }
  }
}

function takesLogins({ delivery }: SmtpOptions): boolean {
  return 'logIn' in delivery;
}

const TOO_MANY = new Refusal('too_many_connections', 'Too many connections, try again later');
