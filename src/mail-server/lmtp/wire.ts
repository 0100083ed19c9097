/** The bytes between us and an LMTP server: what is written, and the replies in their order. */
import { connect, type Socket } from 'node:net';
import { LmtpFailure, type Reply, ReplyParser } from './reply.ts';

export interface LmtpAddress {
  readonly host: string;
  readonly port: number;
}

/** Replies that nobody waits for; a server has no more to say than it was asked. */
const UNREAD_MAX = 1_000;
const QUIT_TIMEOUT_MS = 1_000;

/** A connection. Once it has failed, all that is asked of it fails in the same way. */
export class Wire {
  readonly #socket: Socket;
  readonly #parser = new ReplyParser();
  readonly #unread: Reply[] = [];
  #waiting: PromiseWithResolvers<Reply> | undefined;
  #drained: PromiseWithResolvers<void> | undefined;
  #failure: LmtpFailure | undefined;
  /** Called when the server talks and when the connection ends. */
  onEvent: () => void = () => {};

  constructor(socket: Socket) {
    this.#socket = socket;
    socket.on('data', (chunk: Buffer) => this.#read(chunk));
    socket.on('drain', () => this.#drained?.resolve());
    socket.on('error', (error) => this.fail(new LmtpFailure(codeOf(error))));
    socket.on('end', () => this.fail(new LmtpFailure('the server closed the connection')));
    socket.on('close', () => this.fail(new LmtpFailure('the connection was closed')));
  }

  /** Whether the connection stands and the server has said nothing that was not asked for. */
  get isQuiet(): boolean {
    return this.#failure === undefined && this.#unread.length === 0 && !this.#parser.isWithin;
  }

  /** A reply that came unasked, if any. */
  get unread(): Reply | undefined {
    return this.#unread[0];
  }

  /**
   * The next reply. Those that came before the connection broke are still good.
   *
   * @param timeout milliseconds
   * @throws LmtpFailure
   */
  async reply(timeout: number): Promise<Reply> {
    const unread = this.#unread.shift();
    if (unread) return unread;
    if (this.#failure) throw this.#failure;
    this.#waiting = Promise.withResolvers<Reply>();
    return this.#inTime(this.#waiting.promise, timeout);
  }

  /**
   * @returns false where {@link Wire.drain} is to be waited for before more is written
   * @throws LmtpFailure
   */
  write(chunk: Buffer | string): boolean {
    if (this.#failure) throw this.#failure;
    return this.#socket.write(chunk);
  }

  /** Waits until the server has taken what was written. @throws LmtpFailure */
  async drain(timeout: number): Promise<void> {
    if (this.#failure) throw this.#failure;
    this.#drained = Promise.withResolvers<void>();
    await this.#inTime(this.#drained.promise, timeout);
  }

  /** Breaks the connection off; who waits for something gets the failure. */
  fail(failure: LmtpFailure): void {
    if (this.#failure) return;
    this.#failure = failure;
    this.#waiting?.reject(failure);
    this.#drained?.reject(failure);
    this.#socket.destroy();
    this.onEvent();
  }

  /** Takes leave; does not wait for an answer. */
  quit(): void {
    this.onEvent = () => {};
    if (this.#failure) return;
    this.#socket.end('QUIT\r\n');
    const timer = setTimeout(() => this.#socket.destroy(), QUIT_TIMEOUT_MS);
    this.#socket.once('close', () => clearTimeout(timer));
  }

  /** Runs something that the signal ends by breaking the connection off. */
  async until<Value>(signal: AbortSignal, work: () => Promise<Value>): Promise<Value> {
    const stop = () => this.fail(new LmtpFailure('the attempt was ended'));
    signal.addEventListener('abort', stop, { once: true });
    if (signal.aborted) stop();
    try {
      return await work();
    } finally {
      signal.removeEventListener('abort', stop);
    }
  }

  #read(chunk: Buffer): void {
    try {
      for (const reply of this.#parser.push(chunk)) this.#take(reply);
    } catch (error) {
      this.fail(error instanceof LmtpFailure ? error : new LmtpFailure(String(error)));
      return;
    }
    this.onEvent();
  }

  #take(reply: Reply): void {
    if (this.#waiting) {
      this.#waiting.resolve(reply);
      this.#waiting = undefined;
    } else if (this.#unread.push(reply) > UNREAD_MAX) {
      throw new LmtpFailure('the server talks without being asked');
    }
  }

  async #inTime<Value>(work: Promise<Value>, timeout: number): Promise<Value> {
    const silent = () => this.fail(new LmtpFailure('the server did not answer in time'));
    const timer = setTimeout(silent, timeout);
    try {
      return await work;
    } finally {
      clearTimeout(timer);
    }
  }
}

/**
 * Opens a TCP connection.
 *
 * @param timeout milliseconds
 * @throws LmtpFailure
 */
export function openWire(
  { host, port }: LmtpAddress,
  timeout: number,
  signal: AbortSignal,
): Promise<Wire> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host, port, autoSelectFamily: true, noDelay: true });
    const settle = (failure?: string) => {
      clearTimeout(timer);
      signal.removeEventListener('abort', stop);
      socket.removeListener('error', fail);
      if (failure === undefined) {
        resolve(new Wire(socket));
        return;
      }
      socket.on('error', () => {}).destroy();
      reject(new LmtpFailure(`no connection to the mail server: ${failure}`));
    };
    const stop = () => settle('the attempt was ended');
    const fail = (error: Error) => settle(codeOf(error));
    const timer = setTimeout(() => settle('timeout'), timeout);
    socket.once('error', fail);
    socket.once('connect', () => settle());
    signal.addEventListener('abort', stop, { once: true });
    if (signal.aborted) stop();
  });
}

function codeOf(error: Error): string {
  return 'code' in error ? String(error.code) : error.message;
}
