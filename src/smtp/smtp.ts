/**
 * Takes mail in by SMTP (RFC 5321) and LMTP (RFC 2033).
 *
 * A listener judges recipients through `delivery` as they come and hands it each message as a stream;
 * a message is answered `250` only when `delivery` has taken it for good. Nothing is kept here: no
 * storage, and of a message no more in memory than a few chunks.
 *
 * A message is passed on as it came, byte for byte, but for the dots that the protocol adds: bare CR
 * and bare LF in it are neither mended nor refused, and never end it.
 */
import type { AddressInfo, Socket } from 'node:net';
import type { Logger } from 'pino';
import { SMTPServer, type SMTPServerSession } from 'smtp-server';
import type { SMTPConnectionOptions } from 'smtp-server/lib/smtp-connection.js';
import type { Delivery } from '../delivery/delivery.ts';
import { Connection, type ConnectionSettings } from './connection.ts';
import { ConnectionsPerIp, isLoopback } from './connections-per-ip.ts';
import { ReplyTurns } from './reply-turns.ts';

export { ConnectionsPerIp };

export interface SmtpOptions {
  readonly delivery: Delivery;
  /** The name we go by in the greeting. */
  readonly hostname: string;
  readonly host: string;
  /** 0 for any free port. */
  readonly port: number;
  readonly protocol: 'smtp' | 'lmtp';
  /** PEM, for STARTTLS. */
  readonly tls: { readonly cert: string | Buffer; readonly key: string | Buffer };
  /** Octets of the largest message (RFC 1870). */
  readonly maxMessageBytes: number;
  /** Concurrent connections of one client, as a number or as a count shared with other listeners. */
  readonly maxPerIp: number | ConnectionsPerIp;
  readonly logger: Logger;
  /** Concurrent connections of all clients; 2,000 by default. */
  readonly maxConnections?: number;
  /**
   * Recipients of one message; 100 by default, the least that RFC 5321 section 4.5.3.1.8 allows. By
   * SMTP, as many refused recipients without a message between them end a connection.
   */
  readonly recipientsMax?: number;
  /** Milliseconds that a client may stay silent; 5 minutes by default (RFC 5321 section 4.5.3.2.7). */
  readonly idleTimeout?: number;
  /** Milliseconds that one message may take to arrive; 1 hour by default. */
  readonly messageTimeout?: number;
  /** Milliseconds in which a client that is not trusted must not talk yet; 100 by default, 0 off. */
  readonly greetingDelay?: number;
  /** Clients greeted without that delay; by default those of this machine. */
  readonly trusted?: (address: string) => boolean;
  /** Wrong commands without a message between them that end a connection; 10 by default. */
  readonly errorsMax?: number;
  /** Commands without a message between them that end a connection; 1,000 by default. */
  readonly commandsMax?: number;
}

export interface SmtpListener {
  address(): { host: string; port: number };
  /**
   * Stops: takes no connection any more, ends those without a message under way with 421, lets the
   * others finish their message. Resolves when all connections are closed and delivery has nothing of
   * ours in hand, or when the deadline has passed; never rejects.
   *
   * @param deadline milliseconds after which what is still open is cut off; 10 seconds by default
   */
  close(deadline?: number): Promise<void>;
}

/** Time for clients to hang up after 421, in milliseconds; those that keep a connection idle may not. */
const LINGER = 1000;

/**
 * Starts a listener.
 *
 * @throws the error of the socket, e.g. with `code: 'EADDRINUSE'` where the port is taken
 */
export async function startSmtp(options: SmtpOptions): Promise<SmtpListener> {
  const listener = new Listener(options);
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  listener.server.once('error', reject);
  listener.listen(options.port, options.host, () => resolve());
  await promise;
  listener.server.off('error', reject);

  // A listening TCP socket has an address of this form; strings are for pipes.
  const { address: host, port } = listener.server.address() as AddressInfo;
  let closing: Promise<void> | undefined;
  return {
    address: () => ({ host, port }),
    close: (deadline = 10_000) => {
      closing ??= listener.drain(deadline);
      return closing;
    },
  };
}

class Listener extends SMTPServer {
  readonly #settings: ConnectionSettings;
  readonly #perIp: ConnectionsPerIp;
  readonly #maxConnections: number;
  readonly #logger: Logger;
  /** Every connection whose socket is not closed, those included that were told to go. */
  readonly #connections = new Set<Connection>();
  /** Messages whose connection is gone while delivery has them still. */
  readonly #orphans = new Set<Promise<void>>();
  readonly #replyTurns = new ReplyTurns();
  #draining = false;

  constructor(options: SmtpOptions) {
    const { hostname, protocol, tls, maxMessageBytes, maxPerIp, logger } = options;
    const idleTimeout = options.idleTimeout ?? 5 * 60_000;
    super({
      name: hostname,
      heloResponse: '%s',
      lmtp: protocol === 'lmtp',
      size: maxMessageBytes,
      cert: tls.cert,
      key: tls.key,
      minVersion: 'TLSv1.2', // RFC 8996
      hideENHANCEDSTATUSCODES: false,
      // No AUTH, no handing over of sessions, and not the jokes that the library has.
      disabledCommands: ['AUTH', 'XCLIENT', 'XFORWARD', 'WIZ', 'SHELL', 'KILL'],
      // Would hold the greeting up for as long as somebody else's DNS likes.
      disableReverseLookup: true,
      socketTimeout: idleTimeout,
      logger: false,
    });
    this.#settings = {
      delivery: options.delivery,
      protocol,
      maxMessageBytes,
      recipientsMax: options.recipientsMax ?? 100,
      idleTimeout,
      messageTimeout: options.messageTimeout ?? 60 * 60_000,
      greetingDelay: options.greetingDelay ?? 100,
      trusted: options.trusted ?? isLoopback,
      errorsMax: options.errorsMax ?? 10,
      commandsMax: options.commandsMax ?? 1000,
    };
    this.#perIp = typeof maxPerIp === 'number' ? new ConnectionsPerIp(maxPerIp) : maxPerIp;
    this.#maxConnections = options.maxConnections ?? 2000;
    // Being told "421" takes a connection too; beyond this the kernel's "reset" has to do.
    this.server.maxConnections = 2 * this.#maxConnections;
    this.#logger = logger.child({ protocol });
    // Sockets fail all the time, for reasons on the other side.
    this.on('error', (error) => this.#logger.debug({ err: error }, 'connection failed'));
    // The library listens to a socket a turn of the event loop after it was accepted.
    this.server.on('connection', (socket) => socket.on('error', () => {}));
  }

  override connect(socket: Socket, options?: SMTPConnectionOptions | null): void {
    // Its close event may be over already, and nobody would take it off the counts again.
    if (socket.destroyed) return;
    if (this.#draining) {
      socket.destroy();
      return;
    }
    const address = socket.remoteAddress ?? '';
    const room = this.#connections.size < this.#maxConnections;
    const leave = room ? this.#perIp.enter(address) : undefined;
    const connection = new Connection(this, socket, options, {
      settings: this.#settings,
      logger: this.#logger,
      replyTurns: this.#replyTurns,
      ended: () => {
        this.#connections.delete(connection);
        leave?.();
        this.#watch(connection.taking);
      },
    });
    this.#connections.add(connection);
    this.connections.add(connection);
    connection.on('error', (error) => this._onError(error));
    if (leave !== undefined) {
      connection.init();
    } else {
      this.#logger.info({ remoteAddress: address }, 'connection refused');
      connection.refuse();
    }
  }

  /** Nothing to wait for; the library's own waits a turn of the event loop. */
  override onConnect(_session: SMTPServerSession, done: (error?: Error | null) => void): void {
    done();
  }

  /** Remembers a message until delivery is done with it. */
  #watch(taking: Promise<void>): void {
    this.#orphans.add(taking);
    void taking.then(() => this.#orphans.delete(taking));
  }

  async drain(deadline: number): Promise<void> {
    this.#draining = true;
    const { promise: stopped, resolve: stop } = Promise.withResolvers<void>();
    this.server.close(() => stop());
    const taking = [...this.#connections].map((connection) => connection.taking);
    taking.push(...this.#orphans);
    for (const connection of this.#connections) connection.drain();

    const { promise: late, resolve: giveUp } = Promise.withResolvers<void>();
    const linger = setTimeout(() => {
      for (const connection of this.#connections) if (connection._closing) connection.destroy();
    }, LINGER);
    const last = setTimeout(() => {
      for (const connection of this.#connections) connection.destroy();
      giveUp();
    }, deadline);
    await Promise.race([Promise.all([stopped, ...taking]), late]);
    clearTimeout(linger);
    clearTimeout(last);
    await stopped;
  }
}
