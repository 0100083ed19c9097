/**
 * A client for one LMTP server: a bounded number of connections, kept for the next message, and a
 * deadline for each attempt.
 */
import pLimit, { type LimitFunction } from 'p-limit';
import type { MailboxResult } from '../../mailstore/mailstore.ts';
import { runInTurn } from '../../net/net.ts';
import {
  LmtpConnection,
  type LmtpEnvelope,
  type LmtpTimeouts,
  type Transaction,
} from './lmtp-connection.ts';
import { failed } from './outcome.ts';
import { LmtpFailure } from './reply.ts';
import type { LmtpAddress } from './wire.ts';

export interface LmtpClientOptions {
  readonly server: LmtpAddress;
  /** What LHLO says. */
  readonly hostname: string;
  /** Connections at a time; 20. The others wait in the order they came. */
  readonly connections?: number;
  readonly timeouts?: Partial<LmtpClientTimeouts>;
}

/** Milliseconds. */
export interface LmtpClientTimeouts extends LmtpTimeouts {
  /**
   * One message, waiting for a connection included. The client whose message it is waits as well: 10
   * minutes at most by RFC 5321 section 4.5.3.2.6, some less.
   */
  readonly whole: number;
  /** How long a connection is kept for the next message. */
  readonly idle: number;
}

/** What an attempt needs to know of the server before it writes the envelope. */
export interface LmtpServer {
  readonly takesUtf8: boolean;
}

/** A message, ready to be sent. */
export interface LmtpMessage {
  envelope(server: LmtpServer): LmtpEnvelope;
  /** The message as it goes over the line; may be called again for another connection. */
  content(server: LmtpServer): AsyncIterable<Buffer>;
}

const TIMEOUTS: LmtpClientTimeouts = {
  connect: 10_000,
  reply: 30_000,
  message: 120_000,
  whole: 240_000,
  idle: 30_000,
};
const CONNECTIONS = 20;

interface Idle {
  readonly connection: LmtpConnection;
  readonly timer: NodeJS.Timeout;
}

export class LmtpClient {
  readonly #options: LmtpClientOptions;
  readonly #timeouts: LmtpClientTimeouts;
  readonly #places: LimitFunction;
  /** The one used last comes last, and is used next. */
  #idle: Idle[] = [];
  #isClosed = false;

  constructor(options: LmtpClientOptions) {
    this.#options = options;
    this.#timeouts = { ...TIMEOUTS, ...options.timeouts };
    this.#places = pLimit(options.connections ?? CONNECTIONS);
  }

  /**
   * Makes one attempt. Never hangs: it is over after `timeouts.whole`.
   *
   * @param recipients how many the envelope has
   * @param stop ends the attempt, which is temporary then
   * @returns what became of each recipient, in the order of the envelope
   * @throws what the content throws; nothing else
   */
  async deliver(
    message: LmtpMessage,
    recipients: number,
    stop?: AbortSignal,
  ): Promise<readonly MailboxResult[]> {
    const deadline = AbortSignal.timeout(this.#timeouts.whole);
    const signal = stop ? AbortSignal.any([stop, deadline]) : deadline;
    try {
      return await runInTurn(this.#places, signal, () => this.#attempt(message, signal));
    } catch (error) {
      const isFailure = error instanceof LmtpFailure;
      if (!isFailure && !(signal.aborted && error === signal.reason)) throw error;
      const reason = 'no connection to the mail server was free in time';
      const result = failed('temporary', '4.4.1', isFailure ? error.message : reason);
      return Array.from({ length: recipients }, () => result);
    }
  }

  /** Ends the connections that nothing is sent on; the others end with their message. */
  close(): void {
    this.#isClosed = true;
    for (const { connection, timer } of this.#idle.splice(0)) {
      clearTimeout(timer);
      connection.quit();
    }
  }

  async #attempt(message: LmtpMessage, signal: AbortSignal): Promise<readonly MailboxResult[]> {
    const kept = this.#takeIdle();
    if (kept) {
      const { results, isUntouched } = await this.#send(kept, message, signal);
      // The server had closed it meanwhile; nothing of the message has been sent.
      if (!isUntouched || signal.aborted) return results;
    }
    const { server, hostname } = this.#options;
    const fresh = await LmtpConnection.open(server, hostname, this.#timeouts, signal);
    return (await this.#send(fresh, message, signal)).results;
  }

  async #send(
    connection: LmtpConnection,
    message: LmtpMessage,
    signal: AbortSignal,
  ): Promise<Transaction> {
    try {
      const envelope = message.envelope(connection);
      return await connection.send(envelope, () => message.content(connection), signal);
    } finally {
      this.#keep(connection);
    }
  }

  #keep(connection: LmtpConnection): void {
    if (!connection.isUsable) {
      connection.destroy();
      return;
    }
    if (this.#isClosed) {
      connection.quit();
      return;
    }
    const timer = setTimeout(() => {
      this.#forget(connection);
      connection.quit();
    }, this.#timeouts.idle);
    timer.unref();
    this.#idle.push({ connection, timer });
    connection.watch(() => {
      this.#forget(connection);
      connection.destroy();
    });
  }

  #takeIdle(): LmtpConnection | undefined {
    const last = this.#idle.pop();
    if (!last) return undefined;
    clearTimeout(last.timer);
    last.connection.watch(() => {});
    return last.connection;
  }

  #forget(connection: LmtpConnection): void {
    const found = this.#idle.find((idle) => idle.connection === connection);
    if (!found) return;
    clearTimeout(found.timer);
    this.#idle = this.#idle.filter((idle) => idle !== found);
  }
}
