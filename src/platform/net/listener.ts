/**
 * Clients of a protocol that begins TLS itself: a listener, which says who they are, also behind load balancers; and the
 * wire to each.
 */
import { constants } from 'node:crypto';
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { createSecureContext, type SecureContext, TLSSocket } from 'node:tls';
import type { NetworkTest } from './clients.ts';
import { readProxyHeader } from './proxy-header.ts';

/** PEM. */
export interface Certificate {
  readonly cert: string | Buffer;
  readonly key: string | Buffer;
}

export interface ListenerOptions {
  readonly tls: Certificate;
  /** Load balancers that send the PROXY protocol. */
  readonly isBalancer: NetworkTest;
  /** Beyond so many the kernel resets new connections. */
  readonly maxConnections: number;
  /** A pino Logger fits. */
  readonly logger: Record<'debug' | 'warn', (what: object, text: string) => void>;
}

/**
 * Milliseconds without an octet after which the client's host is asked whether it is still there. Routers forget a silent
 * connection, such as that of a program in IDLE, after some more: then neither side would hear of the other.
 */
const KEEPALIVE_MS = 10 * 60_000;

/** Milliseconds for a load balancer to send its header. */
const HEADER_TIMEOUT = 3_000;

/** Serves one client. */
export interface Served {
  /** Resolves when nothing is under way for the client any more, who may have left before. Never rejects. */
  run(): Promise<void>;
  /** Ends it at once. */
  destroy(): void;
}

export abstract class Listener<Connection extends Served> {
  readonly #options: ListenerOptions;
  readonly #server: Server;
  /** Connections for which a load balancer has not named the client yet. */
  readonly #waiting = new Set<Socket>();
  readonly #served = new Set<Connection>();
  readonly #running = new Set<Promise<void>>();
  #secureContext: SecureContext;
  #address = { host: '', port: 0 };

  constructor(options: ListenerOptions) {
    this.#options = options;
    this.#secureContext = contextOf(options.tls);
    const keepAlive = { keepAlive: true, keepAliveInitialDelay: KEEPALIVE_MS };
    this.#server = createServer({ allowHalfOpen: true, noDelay: true, ...keepAlive }, (socket) =>
      this.#accept(socket),
    );
    this.#server.maxConnections = options.maxConnections;
  }

  /** Takes a client that is still connected. @param address an IPv4 address in its own form */
  protected abstract admit(socket: Socket, address: string): void;

  /** Of the certificate to use now. */
  get secureContext(): SecureContext {
    return this.#secureContext;
  }

  get address(): { readonly host: string; readonly port: number } {
    return this.#address;
  }

  get isListening(): boolean {
    return this.#server.listening;
  }

  /** Uses another certificate from now on. @throws OpenSSL's error where it cannot use it */
  setTls(tls: Certificate): void {
    this.#secureContext = contextOf(tls);
  }

  /** @throws the error of the socket, e.g. with `code: 'EADDRINUSE'` where the port is in use */
  async listen(port: number, host: string): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    this.#server.once('error', reject);
    this.#server.listen(port, host, resolve);
    await promise;
    this.#server.off('error', reject);
    // For example, no file descriptor is left: the next connection may get one again.
    this.#server.on('error', (error) =>
      this.#options.logger.warn({ err: error }, 'a connection could not be accepted'),
    );
    // A listening TCP socket has an address of this form; strings are for pipes.
    const bound = this.#server.address() as AddressInfo;
    this.#address = { host: bound.address, port: bound.port };
  }

  /** The connections whose sockets are open. */
  get served(): ReadonlySet<Connection> {
    return this.#served;
  }

  /** Runs the connection of a client. */
  serve(socket: Socket, connection: Connection): void {
    this.#served.add(connection);
    socket.once('close', () => this.#served.delete(connection));
    const running = connection.run();
    this.#running.add(running);
    void running.then(() => this.#running.delete(running));
  }

  /**
   * Accepts no more. Resolves when all connections are closed and nothing is under way for them, or at the deadline; never
   * rejects.
   *
   * @param deadline milliseconds after which open connections are cut off
   */
  async close(deadline: number): Promise<void> {
    const closed = Promise.withResolvers<void>();
    const late = Promise.withResolvers<void>();
    this.#server.close(() => closed.resolve());
    for (const socket of this.#waiting) socket.destroy();
    const timer = setTimeout(() => {
      for (const connection of this.#served) connection.destroy();
      late.resolve();
    }, deadline);
    await Promise.race([Promise.all([closed.promise, ...this.#running]), late.promise]);
    clearTimeout(timer);
    await closed.promise;
  }

  #accept(socket: Socket): void {
    const { logger, isBalancer } = this.#options;
    // Sockets often fail because of the other side; `close` follows.
    socket.on('error', (error) => logger.debug({ err: error }, 'connection failed'));
    // The client has left already: no later event would subtract it from the counts.
    if (socket.destroyed || !socket.remoteAddress) {
      socket.destroy();
      return;
    }
    const address = plainAddress(socket.remoteAddress);
    if (isBalancer(address)) void this.#acceptBehind(socket, address);
    else this.admit(socket, address);
  }

  /** Accepts a connection from a load balancer: the client is the one that its header names. */
  async #acceptBehind(socket: Socket, balancer: string): Promise<void> {
    const { logger } = this.#options;
    this.#waiting.add(socket);
    const address = await readProxyHeader(socket, HEADER_TIMEOUT);
    this.#waiting.delete(socket);
    if (address === undefined || socket.destroyed || !this.isListening) {
      logger.debug(
        { remoteAddress: balancer },
        'a connection came without a PROXY header and was closed',
      );
      socket.destroy();
    } else this.admit(socket, plainAddress(address));
  }
}

/** An IPv4 address in its own form, also from an IPv6 socket (RFC 4291 section 2.5.5.2). */
function plainAddress(address: string): string {
  return address.replace(/^::ffff:(?=\d+\.)/i, '');
}

/**
 * TLS 1.0 and 1.1 must not be used (RFC 8996). With TLS 1.2 a client could ask for a new handshake as often as it likes,
 * and each costs us a signature: Node's limit holds for its own servers alone. So it is refused (`no_renegotiation`, RFC 5246
 * section 7.2.2).
 */
function contextOf(tls: Certificate): SecureContext {
  const secureOptions = constants.SSL_OP_NO_RENEGOTIATION;
  return createSecureContext({ ...tls, minVersion: 'TLSv1.2', secureOptions });
}

/* A socket that is read and written, in turn or at the same time, first in plaintext and then by TLS. */

/** Milliseconds for a client to hang up after we did; after that the socket is destroyed. */
const LINGER = 5_000;

const NOTHING = Buffer.alloc(0);

export class Wire {
  #socket: Socket;
  #isEnded = false;
  #isInterrupted = false;
  /** A read and a write at most wait for the socket: each call continues one of them. */
  #waiting: (() => void)[] = [];
  readonly #onEvent = (): void => this.#wake();
  #waitingSince: number | undefined;
  #waited = 0;

  /** @param socket with `allowHalfOpen`: a client may end its side and still expect replies */
  constructor(socket: Socket) {
    this.#socket = socket;
    this.#listen();
  }

  /** Whether nothing that is written can reach the client any more. */
  get isClosed(): boolean {
    return this.#isEnded || this.#socket.destroyed || !this.#socket.writable;
  }

  /** Whether we wait for the client, and not it for us. */
  get isWaiting(): boolean {
    return this.#waitingSince !== undefined;
  }

  /** Milliseconds that we have waited for the client, in all. @param now by the monotonic clock */
  waitedUntil(now: number): number {
    const since = this.#waitingSince;
    return this.#waited + (since === undefined ? 0 : Math.max(0, now - since));
  }

  /** Protocol and cipher (RFC 8446 section B.4), after the first bytes were read by TLS. */
  get tls(): string | undefined {
    const socket = this.#socket;
    if (!(socket instanceof TLSSocket)) return undefined;
    // A socket that was just closed no longer knows its protocol.
    return `${socket.getProtocol() ?? 'TLS'} ${socket.getCipher()?.name ?? ''}`.trimEnd();
  }

  /**
   * What the client sent, at least one octet; undefined at the end of the connection, and nothing where
   * {@link Wire.interrupt} ended the wait.
   */
  async read(): Promise<Buffer | undefined> {
    for (;;) {
      if (this.#isEnded) return undefined;
      const bytes: Buffer | null = this.#socket.read();
      if (bytes) return bytes;
      if (this.#socket.readableEnded || this.#socket.destroyed) return undefined;
      if (this.#isInterrupted) {
        this.#isInterrupted = false;
        return NOTHING;
      }
      await this.#change();
    }
  }

  /** Lets a read that waits, or the next one that would, return without bytes. */
  interrupt(): void {
    this.#isInterrupted = true;
    this.#wake();
  }

  /**
   * Sends octets, or text of one octet a character; several pieces go out together.
   *
   * @returns nothing, or what to wait for: the client has not read yet what was sent before
   */
  write(text: string | Uint8Array | readonly Uint8Array[]): Promise<void> | undefined {
    if (this.#isEnded || !this.#socket.writable) return undefined;
    if (typeof text === 'string' || text instanceof Uint8Array) this.#socket.write(text, 'latin1');
    else {
      this.#socket.cork();
      for (const piece of text) this.#socket.write(piece);
      this.#socket.uncork();
    }
    return this.#socket.writableNeedDrain ? this.#drained() : undefined;
  }

  async #drained(): Promise<void> {
    while (this.#socket.writableNeedDrain && !this.#isEnded && !this.#socket.destroyed) {
      await this.#change();
    }
  }

  /** Waits this many milliseconds. @returns whether the client sent nothing meanwhile */
  async pause(milliseconds: number): Promise<boolean> {
    const timer = setTimeout(this.#onEvent, milliseconds);
    await this.#change();
    clearTimeout(timer);
    return this.#socket.readableLength === 0;
  }

  /**
   * Starts TLS as the server, after STARTTLS. A handshake that fails ends the connection. Plaintext that has come until
   * now is not part of it (RFC 3207 section 6).
   */
  startTls(secureContext: SecureContext): void {
    while (!this.#isEnded && this.#socket.read() !== null);
    this.beginTls(secureContext);
  }

  /**
   * The same where a connection begins with TLS: what has come is the handshake. A load balancer may send its first octets
   * together with its own header.
   */
  beginTls(secureContext: SecureContext): void {
    const plain = this.#socket;
    if (this.#isEnded || plain.destroyed) return;
    for (const event of ['readable', 'end', 'drain']) plain.off(event, this.#onEvent);
    this.#socket = new TLSSocket(plain, { isServer: true, secureContext });
    // The reason does not matter here; `close` follows.
    this.#socket.on('error', () => {});
    this.#listen();
  }

  /** Ends our side after a last text. What the client sends from now on is dropped. */
  end(lastWords: string): void {
    if (this.#isEnded) return;
    this.#isEnded = true;
    const socket = this.#socket;
    socket.end(lastWords, 'latin1');
    // The end of the client's side is seen only while reading continues.
    socket.off('readable', this.#onEvent);
    socket.resume();
    const cut = setTimeout(() => socket.destroy(), LINGER);
    socket.once('close', () => clearTimeout(cut));
    this.#wake();
  }

  /** Ends our side, and lets the other go on: what it sends is read to its end. */
  finish(): void {
    this.#socket.end();
  }

  destroy(): void {
    this.#socket.destroy();
  }

  #wake(): void {
    if (this.#waitingSince !== undefined) this.#waited += performance.now() - this.#waitingSince;
    this.#waitingSince = undefined;
    for (const go of this.#waiting.splice(0)) go();
  }

  #listen(): void {
    for (const event of ['readable', 'end', 'drain', 'close']) {
      this.#socket.on(event, this.#onEvent);
    }
  }

  #change(): Promise<void> {
    this.#waitingSince ??= performance.now();
    return new Promise((resolve) => {
      this.#waiting.push(resolve);
    });
  }
}
