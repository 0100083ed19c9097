/** A connection to a server of SMTP or LMTP: the socket and the clocks under `smtp-client.ts`. */
import { connect, isIP, type Socket } from 'node:net';
import { connect as connectTls } from 'node:tls';
import { testNetworks } from '../../platform/net/net.ts';
import {
  type ClientOptions,
  type Conversation,
  type Envelope,
  greet,
  type RecipientResult,
  reset,
  type ServerFacts,
  transact,
} from './protocol.ts';
import { type Reply, ReplyReader, SmtpFailure, stuffDots } from './text.ts';

export interface Endpoint {
  readonly host: string;
  readonly port: number;
  /** Sent before the session, such as a header of the PROXY protocol. */
  readonly preface?: string;
}

/**
 * With what a connection to our own listener at `host` begins, if the listener takes this machine for a load balancer and
 * expects its header first: "we connect for ourselves" (PROXY protocol, section 2.1).
 *
 * @param proxyNetworks those of `SMTP_PROXY_NETWORKS`
 */
export function ownPreface(host: string, proxyNetworks: readonly string[]): string | undefined {
  return testNetworks(proxyNetworks)(host) ? 'PROXY UNKNOWN\r\n' : undefined;
}

export interface ConnectionOptions extends ClientOptions {
  /** The server's name, for SNI and the certificate; by default the host of the connection. */
  readonly name?: string;
  /** Whether the certificate is verified. */
  readonly verifiesCertificate?: boolean;
  /** Whether other messages may follow the first. */
  readonly isKept?: boolean;
  /** Called when the server gets the end of a message. */
  readonly onSent?: () => void;
  readonly timeouts: ConnectionTimeouts;
}

/** Milliseconds (RFC 5321 section 4.5.3.2). */
export interface ConnectionTimeouts {
  /** Until the TCP connection is open. */
  readonly connect: number;
  /** For the greeting, a TLS handshake, and the reply to each command. */
  readonly reply: number;
  /** For the server to accept more of the message, and for each reply after its end. */
  readonly message: number;
}

/** The most unread replies; a server sends none without a command. */
const UNREAD_MAX = 1_000;
const QUIT_TIMEOUT_MS = 1_000;

/** After a failure every further call fails in the same way. */
export class SmtpConnection {
  readonly #options: ConnectionOptions;
  #socket: Socket;
  readonly #reader = new ReplyReader();
  readonly #unread: Reply[] = [];
  #waiting: PromiseWithResolvers<Reply> | undefined;
  #drained: PromiseWithResolvers<void> | undefined;
  #secured: PromiseWithResolvers<void> | undefined;
  #failure: SmtpFailure | undefined;
  #facts: ServerFacts | undefined;
  #onEnd: () => void = () => {};
  #onEvent: () => void = () => {};
  readonly #onData = (chunk: Buffer): void => this.#read(chunk);

  private constructor(socket: Socket, options: ConnectionOptions) {
    this.#socket = socket;
    this.#options = options;
    this.#listen(socket);
  }

  /**
   * Connects, and says hello.
   *
   * @param signal ends the connection
   * @throws SmtpFailure
   */
  static async open(
    endpoint: Endpoint,
    options: ConnectionOptions,
    signal: AbortSignal,
  ): Promise<SmtpConnection> {
    const socket = await openSocket(endpoint, options.timeouts.connect, signal);
    if (endpoint.preface !== undefined) socket.write(endpoint.preface);
    const connection = new SmtpConnection(socket, { name: endpoint.host, ...options });
    try {
      connection.#facts = await connection.#run(greet(options), signal);
      return connection;
    } catch (error) {
      // After a refusal the client says QUIT (RFC 5321 section 4.1.1.10).
      if (error instanceof SmtpFailure && error.reply && error.during !== 'tls') connection.quit();
      connection.destroy();
      throw error;
    }
  }

  /** What the server said about itself. */
  get server(): ServerFacts {
    if (!this.#facts) throw new Error('the connection is not open');
    return this.#facts;
  }

  /** Whether another message can be sent; not to a server that sent something without a command. */
  get isUsable(): boolean {
    return this.#failure === undefined && this.#unread.length === 0 && !this.#reader.isWithin;
  }

  /** Called when the connection ends, or the server sends something unasked. */
  watch(listener: () => void): void {
    this.#onEvent = listener;
  }

  /**
   * Sends one message.
   *
   * @param open reads the message, its lines ended by CRLF; not called where no recipient is accepted
   * @param signal ends the attempt and the connection
   * @returns the result for each recipient, in the order of the envelope
   * @throws errors of the message's source; then the server never gets the end of the message
   */
  async send(
    envelope: Envelope,
    open: () => AsyncIterable<Uint8Array>,
    signal: AbortSignal,
  ): Promise<readonly RecipientResult[]> {
    const { protocol, isKept = false } = this.#options;
    const results = await this.#run(transact(protocol, this.server, envelope), signal, open);
    const isEnded = results.some(({ stage }) => stage === 'sent');
    if (isKept && !isEnded && this.isUsable) {
      await this.#run(reset(), signal).catch((error: unknown) => {
        if (!(error instanceof SmtpFailure)) throw error;
        this.destroy();
      });
    }
    return results;
  }

  /** Sends QUIT; does not wait for an answer. */
  quit(): void {
    this.#onEvent = () => {};
    if (this.#failure) return;
    this.#failure = new SmtpFailure('the connection was closed');
    const socket = this.#socket;
    socket.end('QUIT\r\n');
    const timer = setTimeout(() => socket.destroy(), QUIT_TIMEOUT_MS);
    socket.once('close', () => clearTimeout(timer));
  }

  destroy(): void {
    this.#fail(new SmtpFailure('the connection was closed'));
  }

  /** Does the steps of a conversation. */
  async #run<Result>(
    conversation: Conversation<Result>,
    signal: AbortSignal,
    open?: () => AsyncIterable<Uint8Array>,
  ): Promise<Result> {
    const stop = () => this.#fail(new SmtpFailure(explainStop(signal)));
    signal.addEventListener('abort', stop, { once: true });
    if (signal.aborted) stop();
    try {
      let turn = conversation.next();
      while (!turn.done) {
        const done = await this.#do(turn.value, open).then(
          (reply) => () => conversation.next(reply),
          (error: unknown) => () => conversation.throw(error),
        );
        turn = done();
      }
      return turn.value;
    } finally {
      signal.removeEventListener('abort', stop);
    }
  }

  async #do(
    step: Conversation<unknown> extends Generator<infer Step> ? Step : never,
    open: (() => AsyncIterable<Uint8Array>) | undefined,
  ): Promise<Reply | undefined> {
    const { timeouts } = this.#options;
    switch (step.do) {
      case 'write':
        this.#write(step.text);
        return undefined;
      case 'read':
        return this.#reply(step.after === 'message' ? timeouts.message : timeouts.reply);
      case 'secure':
        await this.#secure();
        return undefined;
      case 'content':
        if (!open) throw new Error('there is no message to send');
        return this.#sendMessage(open());
    }
  }

  /** @returns what the server sent before the end of the message */
  async #sendMessage(message: AsyncIterable<Uint8Array>): Promise<Reply | undefined> {
    const chunks = stuffDots(message);
    let next: IteratorResult<Buffer, void> | undefined;
    try {
      // The first octets are asked for whatever the server said meanwhile: a source that was not begun cannot be closed.
      do {
        // A source that stalls is not waited for once the connection has ended: neither for its next octets nor for its end.
        next = await Promise.race([this.#end(), chunks.next()]);
        if (!this.isUsable || !next || next.done) break;
        if (!this.#write(next.value)) await this.#drain();
      } while (this.isUsable);
    } catch (error) {
      // Without its end the server drops the part of the message that it has.
      this.destroy();
      throw error;
    } finally {
      const closed = chunks.return(undefined).catch(() => {});
      if (next) await closed;
    }
    if (this.isUsable) {
      this.#write('.\r\n');
      this.#options.onSent?.();
      return undefined;
    }
    const early = await this.#reply(this.#options.timeouts.reply);
    this.destroy();
    return early;
  }

  /** Resolves when the connection ends; only for the last that asked. */
  #end(): Promise<undefined> {
    return new Promise((resolve) => {
      this.#onEnd = () => resolve(undefined);
      if (this.#failure) this.#onEnd();
    });
  }

  /** The next reply. Replies from before the connection broke are still returned. */
  async #reply(timeout: number): Promise<Reply> {
    const unread = this.#unread.shift();
    if (unread) return unread;
    if (this.#failure) throw this.#failure;
    this.#waiting = Promise.withResolvers<Reply>();
    return this.#inTime(this.#waiting.promise, timeout);
  }

  /** @returns false where the caller has to wait until the server has read it */
  #write(chunk: Buffer | string): boolean {
    if (this.#failure) throw this.#failure;
    return this.#socket.write(chunk);
  }

  async #drain(): Promise<void> {
    if (this.#failure) throw this.#failure;
    this.#drained = Promise.withResolvers<void>();
    await this.#inTime(this.#drained.promise, this.#options.timeouts.message);
  }

  /** Starts TLS. */
  async #secure(): Promise<void> {
    if (this.#failure) throw this.#failure;
    // It came in plaintext, and would count as sent by TLS (RFC 3207 section 6).
    if (!this.isUsable) throw new SmtpFailure('the server went on in plaintext after STARTTLS');
    const { name = '', verifiesCertificate = true, timeouts } = this.#options;
    this.#socket.removeListener('data', this.#onData);
    const socket = connectTls({
      socket: this.#socket,
      rejectUnauthorized: verifiesCertificate,
      ...(isIP(name) === 0 && { servername: name }),
    });
    const secured = Promise.withResolvers<void>();
    socket.once('secureConnect', secured.resolve);
    this.#secured = secured;
    // The end of the socket below is watched, too: the one that ends first gives the reason.
    this.#listen(socket);
    await this.#inTime(secured.promise, timeouts.reply);
  }

  #listen(socket: Socket): void {
    this.#socket = socket;
    socket.on('data', this.#onData);
    socket.on('drain', () => this.#drained?.resolve());
    socket.on('error', (error) => this.#fail(new SmtpFailure(explain(error))));
    socket.on('end', () => this.#fail(new SmtpFailure('the server closed the connection')));
    socket.on('close', () => this.#fail(new SmtpFailure('the connection was closed')));
  }

  #read(chunk: Buffer): void {
    try {
      for (const reply of this.#reader.read(chunk)) this.#receive(reply);
    } catch (error) {
      this.#fail(error instanceof SmtpFailure ? error : new SmtpFailure(String(error)));
      return;
    }
    this.#onEvent();
  }

  #receive(reply: Reply): void {
    if (this.#waiting) {
      this.#waiting.resolve(reply);
      this.#waiting = undefined;
    } else if (this.#unread.push(reply) > UNREAD_MAX) {
      throw new SmtpFailure('the server talks without being asked');
    }
    // A server that gave up no longer reads: a write that waits for it would wait for ever.
    this.#drained?.resolve();
  }

  /** Breaks the connection; every waiting caller gets the failure. */
  #fail(failure: SmtpFailure): void {
    if (this.#failure) return;
    this.#failure = failure;
    this.#waiting?.reject(failure);
    this.#drained?.reject(failure);
    this.#secured?.reject(failure);
    this.#onEnd();
    this.#socket.destroy();
    this.#onEvent();
  }

  async #inTime<Value>(work: Promise<Value>, timeout: number): Promise<Value> {
    const silent = () => this.#fail(new SmtpFailure('the server did not answer in time'));
    const timer = setTimeout(silent, timeout);
    try {
      return await work;
    } finally {
      clearTimeout(timer);
    }
  }
}

/** Opens a TCP connection. */
function openSocket(
  { host, port }: Endpoint,
  timeout: number,
  signal: AbortSignal,
): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host, port, autoSelectFamily: true, noDelay: true });
    const settle = (failure?: string) => {
      clearTimeout(timer);
      signal.removeEventListener('abort', stop);
      socket.removeListener('error', fail);
      if (failure === undefined) {
        resolve(socket);
        return;
      }
      socket.on('error', () => {}).destroy();
      reject(new SmtpFailure(failure, { during: 'connect' }));
    };
    const stop = () => settle(explainStop(signal));
    const fail = (error: Error) => settle(explain(error));
    const timer = setTimeout(() => settle('timeout'), timeout);
    socket.once('error', fail);
    socket.once('connect', () => settle());
    signal.addEventListener('abort', stop, { once: true });
    if (signal.aborted) stop();
  });
}

function explainStop({ reason }: AbortSignal): string {
  if (reason instanceof SmtpFailure) return reason.message;
  const isDeadline = reason instanceof Error && reason.name === 'TimeoutError';
  return isDeadline ? 'the attempt took too long' : 'the attempt was stopped';
}

/** The code of an error of the network; the reason of one of TLS. */
function explain(error: Error): string {
  return 'syscall' in error && 'code' in error ? String(error.code) : error.message;
}
