/**
 * A client for one LMTP server: a bounded number of connections, kept for the next message, and a
 * deadline for each attempt.
 */
import pLimit, { type LimitFunction } from 'p-limit';
import type { MailboxResult, ServerMail } from '../../mailstore/mailstore.ts';
import {
  type ConnectionTimeouts,
  type Endpoint,
  runInTurn,
  SmtpConnection,
  SmtpFailure,
} from '../../net/net.ts';
import { failed, type Sent, sendMail } from './send-mail.ts';

export interface LmtpClientOptions {
  readonly server: Endpoint;
  /** What LHLO says. */
  readonly hostname: string;
  /** Connections at a time; 20. The others wait in the order they came. */
  readonly connections?: number;
  readonly timeouts?: Partial<LmtpClientTimeouts>;
}

/** Milliseconds. */
interface LmtpClientTimeouts extends ConnectionTimeouts {
  /**
   * One message, waiting for a connection included. The client whose message it is waits as well: 10
   * minutes at most by RFC 5321 section 4.5.3.2.6, some less.
   */
  readonly whole: number;
  /** How long a connection is kept for the next message. */
  readonly idle: number;
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
  readonly connection: SmtpConnection;
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
   * @param to forward-paths
   * @param stop ends the attempt, which is temporary then
   * @returns what became of each recipient, in their order
   * @throws what the message's source throws; nothing else
   */
  async deliver(
    mail: ServerMail,
    to: readonly string[],
    stop?: AbortSignal,
  ): Promise<readonly MailboxResult[]> {
    const deadline = AbortSignal.timeout(this.#timeouts.whole);
    const signal = stop ? AbortSignal.any([stop, deadline]) : deadline;
    try {
      return await runInTurn(this.#places, signal, () => this.#attempt(mail, to, signal));
    } catch (error) {
      const isFailure = error instanceof SmtpFailure;
      if (!isFailure && !(signal.aborted && error === signal.reason)) throw error;
      const text = isFailure ? explain(error) : 'no connection to the mail server was free in time';
      return to.map(() => failed('temporary', '4.4.1', text));
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

  async #attempt(
    mail: ServerMail,
    to: readonly string[],
    signal: AbortSignal,
  ): Promise<readonly MailboxResult[]> {
    const kept = this.#nextIdle();
    if (kept) {
      const { results, isUntouched } = await this.#send(kept, mail, to, signal);
      // The server had closed it meanwhile; nothing of the message has been sent.
      if (!isUntouched || signal.aborted) return results;
    }
    const { server, hostname } = this.#options;
    const options = { protocol: 'lmtp', hostname, tls: 'none', isKept: true } as const;
    const timeouts = this.#timeouts;
    const fresh = await SmtpConnection.open(server, { ...options, timeouts }, signal);
    return (await this.#send(fresh, mail, to, signal)).results;
  }

  async #send(
    connection: SmtpConnection,
    mail: ServerMail,
    to: readonly string[],
    signal: AbortSignal,
  ): Promise<Sent> {
    try {
      return await sendMail(connection, mail, to, signal);
    } finally {
      this.#keep(connection);
    }
  }

  #keep(connection: SmtpConnection): void {
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

  #nextIdle(): SmtpConnection | undefined {
    const last = this.#idle.pop();
    if (!last) return undefined;
    clearTimeout(last.timer);
    last.connection.watch(() => {});
    return last.connection;
  }

  #forget(connection: SmtpConnection): void {
    const found = this.#idle.find((idle) => idle.connection === connection);
    if (!found) return;
    clearTimeout(found.timer);
    this.#idle = this.#idle.filter((idle) => idle !== found);
  }
}

function explain({ during, message }: SmtpFailure): string {
  return during === 'connect' ? `no connection to the mail server: ${message}` : message;
}
