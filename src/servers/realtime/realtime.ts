/**
 * The realtime channel: WebSocket connections at `/ws` (RFC 6455), each for one account, that get an event for every
 * mailbox that changed. Stores nothing.
 *
 * The steps of a connection: the rate limit, the token (a refusal is a plain HTTP answer), the account's subscription,
 * `hello` with the state of every mailbox, then one `mailbox_changed` for each change. The subscription begins before
 * the list for `hello` is read, so that no change is missed; a change that came while the list was read follows
 * `hello`.
 *
 * Clients need to send only pongs: text messages (4 KB at most) are ignored, binary ones end the connection. Every
 * origin may connect: a browser adds no credential by itself, and whoever has the token could connect without a
 * browser as well. Close codes are in `connection.ts`.
 */
import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { setTimeout as pause } from 'node:timers/promises';
import type { Logger } from 'pino';
import { type WebSocket, WebSocketServer } from 'ws';
import type { Changes } from '../../mailboxes/changes/changes.ts';
import { refusalOfFailure } from '../../platform/database/database.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import type { Admission, SharedSlots } from '../../platform/net/net.ts';
import type { EpochMs } from '../../platform/time/time.ts';
import type { MailAccess } from '../../tenants/accounts/accounts.ts';
import { AccountFeed, Connection, closings, Heartbeat, type MailboxTip } from './connection.ts';
import { resync, type SharedState } from './resync.ts';
import { checkHandshake, readToken, refuseUpgrade, SUBPROTOCOL } from './upgrade.ts';

export type { MailboxTip } from './connection.ts';
export type { SharedState } from './resync.ts';
export { asksForWebSocket } from './upgrade.ts';

export interface RealtimeOptions {
  /** The mailbox that a token opens. Throws a Refusal: unauthorized, account_inactive, unavailable. */
  authenticate(token: string): Promise<MailAccess>;
  /** The current state of each mailbox of the account. */
  listMailboxes(user: MailAccess): Promise<readonly MailboxTip[]>;
  readonly changes: Pick<Changes, 'subscribe'>;
  /** What several nodes share; left out for a single one. */
  readonly shared?: { readonly state: SharedState; readonly slots: SharedSlots } | undefined;
  /** Counts the request in its client's rate limit. */
  admit(request: IncomingMessage): Admission | Promise<Admission>;
  /** Others than {@link LIMITS}. */
  readonly limits?: Partial<typeof LIMITS>;
  readonly now?: () => EpochMs;
  readonly logger: Logger;
}

const LIMITS = {
  /** Between two pings. */
  heartbeatSeconds: 30,
  /** How long `close` waits for clients to answer. */
  closeSeconds: 5,
};
/** Limits of what a client may send; a message beyond them closes with 1009 or 1008. */
const frameLimits = { maxPayload: 4_096, maxFragments: 16, maxBufferedChunks: 64 };
/** Milliseconds between the ends of some connections and those of the next ones, during a drain. */
const DRAIN_STEP_MS = 50;
/** How long a client may take to answer a close frame. */
const CLOSING_MS = 10_000;

/** The most connections of one account; the next one is refused with 429. */
const PER_ACCOUNT = 20;

/** The WebSocket channel of all accounts. */
export class Realtime {
  readonly #options: RealtimeOptions;
  readonly #now: () => number;
  readonly #limits: typeof LIMITS;
  readonly #server: WebSocketServer;
  readonly #heartbeat: Heartbeat;
  readonly #feeds = new Map<number, AccountFeed>();
  /** Sockets that are not WebSockets: not yet, or refused and about to close. */
  readonly #handshakes = new Set<Duplex>();
  #closed: Promise<void> | undefined;
  #onGone: (() => void) | undefined;

  constructor(options: RealtimeOptions) {
    this.#options = options;
    this.#now = options.now ?? Date.now;
    this.#limits = { ...LIMITS, ...options.limits };
    this.#heartbeat = new Heartbeat(this.#limits.heartbeatSeconds, this.#now);
    // A constant, because the type lacks `closeTimeout`.
    const server = {
      noServer: true,
      clientTracking: false,
      perMessageDeflate: false,
      closeTimeout: CLOSING_MS,
      handleProtocols: selectProtocol,
      ...frameLimits,
    };
    this.#server = new WebSocketServer(server);
    // RFC 6455 section 4.2.1: a bad key, or an invalid list of subprotocols.
    this.#server.on('wsClientError', (error: Error, socket: Duplex, request: IncomingMessage) =>
      refuseUpgrade(request, socket, new Refusal('invalid_request', error.message)),
    );
  }

  /** The number of connections now, closing ones included. */
  get connections(): number {
    return this.#heartbeat.size;
  }

  /** For the HTTP server's `upgrade` event: takes over the socket, whatever the result. */
  handleUpgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    this.#handshakes.add(socket);
    const forget = () => this.#forget(socket);
    socket.on('error', ignore).once('close', forget);
    this.#upgrade(request, socket, head, forget).catch((error: unknown) => {
      this.#options.logger.error(
        { err: error },
        'a WebSocket upgrade failed unexpectedly: the client gets an error',
      );
      const internal = new Refusal('internal', 'something failed on our side');
      refuseUpgrade(request, socket, refusalOfFailure(error) ?? internal);
    });
  }

  /** Ends the connections that are open now with 1001, one after the other within this time. */
  async drain(withinMs: number): Promise<void> {
    const open = [...this.#heartbeat];
    const steps = Math.ceil(withinMs / DRAIN_STEP_MS);
    for (let step = 1; step <= steps; step++) {
      const left = open.length - Math.floor((open.length * step) / steps);
      for (const connection of open.slice(left)) connection.end(closings.shutdown);
      open.length = left;
      await pause(withinMs / steps);
    }
  }

  /**
   * Sends the connections what other nodes changed without an event here, and ends those that lost their access.
   * Does nothing on a single node.
   *
   * @param afterGap whether events were certainly lost
   */
  async resync(afterGap: boolean): Promise<void> {
    const { shared } = this.#options;
    if (shared && !this.#closed) await resync(this.#feeds, shared.state, afterGap);
  }

  /** Ends every connection with 1001, and refuses new ones; resolves when all are closed. */
  close(): Promise<void> {
    this.#closed ??= this.#end();
    return this.#closed;
  }

  async #end(): Promise<void> {
    const gone = new Promise<void>((resolve) => {
      this.#onGone = resolve;
    });
    for (const connection of this.#heartbeat) connection.end(closings.shutdown);
    this.#settle();
    const cutAll = () => {
      for (const connection of this.#heartbeat) connection.cut();
      for (const socket of this.#handshakes) socket.destroy();
    };
    const deadline = setTimeout(cutAll, this.#limits.closeSeconds * 1000);
    await gone;
    clearTimeout(deadline);
    this.#server.close();
  }

  async #upgrade(
    request: IncomingMessage,
    socket: Duplex,
    head: Buffer,
    forget: () => void,
  ): Promise<void> {
    const admission = await this.#options.admit(request);
    let user: MailAccess;
    let token: string;
    const giveBack = () => this.#giveSlot(user);
    try {
      if (!admission.allowed) throw tooManyRequests(admission);
      checkHandshake(request);
      token = readToken(request);
      user = await this.#options.authenticate(token);
      this.#checkRoom(user);
      if (this.#options.shared) await this.#takeSlot(user, socket, giveBack);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      refuseUpgrade(request, socket, error, admission.headers);
      return;
    }
    // Nothing is awaited until the subscription: otherwise the account could have one too many.
    this.#server.handleUpgrade(request, socket, head, (client) => {
      socket.off('error', ignore).off('close', forget).off('close', giveBack);
      this.#forget(socket);
      const connection = this.#connect(user, client, socket);
      void this.#greet(connection, token);
    });
  }

  /** @throws Refusal where one more connection has no room */
  #checkRoom({ accountId }: MailAccess): void {
    if (this.#closed) throw new Refusal('unavailable', 'the server stops');
    const open = this.#feeds.get(accountId)?.connections.size ?? 0;
    if (open >= PER_ACCOUNT) throw this.#tooMany();
  }

  #tooMany(): Refusal {
    return new Refusal(
      'too_many_connections',
      `an account has at most ${PER_ACCOUNT} connections`,
      // A client that vanished keeps its slot until it has missed so many pings.
      { retryAfter: 3 * this.#limits.heartbeatSeconds },
    );
  }

  /**
   * Takes one of the slots for the account's connections on all nodes.
   *
   * @param giveBack called when the socket closes before it is a WebSocket
   * @throws Refusal too_many_connections
   */
  async #takeSlot(user: MailAccess, socket: Duplex, giveBack: () => void): Promise<void> {
    const slots = this.#options.shared?.slots;
    const taken = await slots?.take(slotOf(user), 1, PER_ACCOUNT);
    if (taken === 0) throw this.#tooMany();
    // For a socket that closed meanwhile there will be no other event.
    if (socket.destroyed) giveBack();
    else socket.once('close', giveBack);
    // Others may have connected to this node meanwhile.
    this.#checkRoom(user);
  }

  #giveSlot(user: MailAccess): void {
    this.#options.shared?.slots.give(slotOf(user), 1);
  }

  #connect(user: MailAccess, client: WebSocket, stream: Duplex): Connection {
    const connection = new Connection(user, client, stream);
    client.on('close', () => this.#disconnect(connection)).on('error', ignore);
    client.on('pong', () => connection.answered());
    for (const kind of ['message', 'ping', 'pong']) client.on(kind, () => connection.heard());
    client.on('message', (_message, isBinary) => {
      // RFC 6455 section 7.4.1: 1003 is for a kind of message that is not accepted.
      if (isBinary) connection.end(closings.binary);
    });
    let feed = this.#feeds.get(user.accountId);
    if (!feed) {
      feed = new AccountFeed(user.accountId, this.#options.changes);
      this.#feeds.set(user.accountId, feed);
    }
    feed.connections.add(connection);
    this.#heartbeat.add(connection);
    return connection;
  }

  /**
   * Sends hello. The token is checked once more: the account may have lost its access between the first check and the
   * subscription, and no event would report that.
   */
  async #greet(connection: Connection, token: string): Promise<void> {
    const { user } = connection;
    try {
      const [judged, mailboxes] = await Promise.all([
        this.#options.authenticate(token),
        this.#options.listMailboxes(user),
      ]);
      if (judged.accountId !== user.accountId) {
        connection.end(closings.unauthorized);
        return;
      }
      if (this.#options.shared) this.#feeds.get(user.accountId)?.remember(mailboxes);
      connection.greet(this.#now(), this.#limits.heartbeatSeconds, mailboxes);
    } catch (error) {
      const closing = closingOf(error);
      if (closing === closings.failed) {
        this.#options.logger.error(
          { err: error, connectionId: connection.id },
          'could not prepare the hello of a WebSocket: the connection is closed',
        );
      }
      connection.end(closing);
    }
  }

  #disconnect(connection: Connection): void {
    const { user } = connection;
    this.#heartbeat.remove(connection);
    this.#giveSlot(user);
    const { accountId } = user;
    const feed = this.#feeds.get(accountId);
    feed?.connections.delete(connection);
    if (feed?.connections.size === 0) {
      feed.stop();
      this.#feeds.delete(accountId);
    }
    this.#settle();
  }

  #forget(socket: Duplex): void {
    this.#handshakes.delete(socket);
    this.#settle();
  }

  /** Ends the wait of {@link close} when the last socket is closed. */
  #settle(): void {
    if (this.#heartbeat.size === 0 && this.#handshakes.size === 0) this.#onGone?.();
  }
}

/** The name under which the connections of an account are counted. */
function slotOf({ accountId }: MailAccess): string {
  return `sockets:${accountId}`;
}

/** The library closes the connection itself; the error is the client's. */
function ignore(): void {}

/** Selects our subprotocol, never the one with the token. */
function selectProtocol(offered: Set<string>): string | false {
  return offered.has(SUBPROTOCOL) ? SUBPROTOCOL : false;
}

function tooManyRequests({ retryAfter }: Admission): Refusal {
  return new Refusal(
    'rate_limited',
    'too many requests in a minute',
    retryAfter === undefined ? {} : { retryAfter },
  );
}

function closingOf(error: unknown) {
  const code = (error instanceof Refusal ? error : refusalOfFailure(error))?.code;
  if (code === 'unauthorized') return closings.unauthorized;
  if (code === 'account_inactive' || code === 'account_not_found') return closings.inactive;
  if (code === 'unavailable') return closings.unavailable;
  return closings.failed;
}
