/** Listens for clients of a protocol that begins TLS itself, and says who they are, also behind load balancers. */
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net';
import { createSecureContext, type SecureContext } from 'node:tls';
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
  /** Takes a client that is still connected; an IPv4 address in its own form. */
  readonly onClient: (socket: Socket, address: string) => void;
}

/** Milliseconds for a load balancer to send its header. */
const HEADER_TIMEOUT = 3_000;

export class Listener {
  readonly #options: ListenerOptions;
  readonly #server: Server;
  /** Connections for which a load balancer has not named the client yet. */
  readonly #waiting = new Set<Socket>();
  #secureContext: SecureContext;
  #address = { host: '', port: 0 };

  constructor(options: ListenerOptions) {
    this.#options = options;
    this.#secureContext = contextOf(options.tls);
    this.#server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) =>
      this.#accept(socket),
    );
    this.#server.maxConnections = options.maxConnections;
  }

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

  /** Accepts no more. Resolves when all connections are closed, also those of clients. */
  async close(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    this.#server.close(() => resolve());
    for (const socket of this.#waiting) socket.destroy();
    await promise;
  }

  #accept(socket: Socket): void {
    const { logger, isBalancer, onClient } = this.#options;
    // Sockets often fail because of the other side; `close` follows.
    socket.on('error', (error) => logger.debug({ err: error }, 'connection failed'));
    // The client has left already: no later event would subtract it from the counts.
    if (socket.destroyed || !socket.remoteAddress) {
      socket.destroy();
      return;
    }
    const address = plainAddress(socket.remoteAddress);
    if (isBalancer(address)) void this.#acceptBehind(socket, address);
    else onClient(socket, address);
  }

  /** Accepts a connection from a load balancer: the client is the one that its header names. */
  async #acceptBehind(socket: Socket, balancer: string): Promise<void> {
    const { logger, onClient } = this.#options;
    this.#waiting.add(socket);
    const address = await readProxyHeader(socket, HEADER_TIMEOUT);
    this.#waiting.delete(socket);
    if (address === undefined || socket.destroyed || !this.isListening) {
      logger.debug(
        { remoteAddress: balancer },
        'a connection came without a PROXY header and was closed',
      );
      socket.destroy();
    } else onClient(socket, plainAddress(address));
  }
}

/** An IPv4 address in its own form, also from an IPv6 socket (RFC 4291 section 2.5.5.2). */
function plainAddress(address: string): string {
  return address.replace(/^::ffff:(?=\d+\.)/i, '');
}

/** TLS 1.0 and 1.1 must not be used (RFC 8996). */
function contextOf(tls: Certificate): SecureContext {
  return createSecureContext({ ...tls, minVersion: 'TLSv1.2' });
}
