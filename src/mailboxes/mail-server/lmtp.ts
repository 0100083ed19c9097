/**
 * A client for one LMTP server: a limited number of connections, kept for the next message, and a time limit for each
 * attempt.
 */

import { isAscii } from 'node:buffer';
import { type Party, Turns } from '../../platform/net/net.ts';
import { asBuffer, LineEnds, oneLine } from '../../protocols/message/message.ts';
import {
  type ConnectionTimeouts,
  type Endpoint,
  enhancedOf,
  isFinalRefusal,
  isWritablePath,
  type RecipientResult,
  SmtpConnection,
  SmtpFailure,
  sizeLimit,
} from '../../protocols/smtp-client/smtp-client.ts';
import type { MailboxResult, ServerMail } from '../mailstore/mailstore.ts';

export interface LmtpClientOptions {
  readonly server: Endpoint;
  /** Our name for LHLO. */
  readonly hostname: string;
  /** Connections at a time; 20. The others wait in the order they came. */
  readonly connections?: number;
  readonly timeouts?: Partial<LmtpClientTimeouts>;
}

/** Milliseconds. */
interface LmtpClientTimeouts extends ConnectionTimeouts {
  /**
   * One message, including the wait for a connection. The client that sent it waits meanwhile: at most 10 minutes by
   * RFC 5321 section 4.5.3.2.6, some wait less.
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
/** The part of them for one recipient, and for one domain: a mailbox that stalls leaves the others their slots. */
const OF_RECIPIENT = 0.25;
const OF_DOMAIN = 0.75;

export class LmtpClient {
  readonly #options: LmtpClientOptions;
  readonly #timeouts: LmtpClientTimeouts;
  readonly #turns: Turns;
  readonly #connections: number;
  /** What closes each; the one that was used last is at the end, and is used next. */
  readonly #idle = new Map<SmtpConnection, NodeJS.Timeout>();
  #isClosed = false;

  constructor(options: LmtpClientOptions) {
    this.#options = options;
    this.#timeouts = { ...TIMEOUTS, ...options.timeouts };
    this.#connections = options.connections ?? CONNECTIONS;
    this.#turns = new Turns(this.#connections);
  }

  /**
   * Makes one attempt. It always ends after `timeouts.whole`.
   *
   * @param to forward-paths
   * @param stop ends the attempt, which is temporary then
   * @returns the result for each recipient, in order
   * @throws only errors of the message's source
   */
  async deliver(
    mail: ServerMail,
    to: readonly string[],
    stop?: AbortSignal,
  ): Promise<readonly MailboxResult[]> {
    const deadline = AbortSignal.timeout(this.#timeouts.whole);
    const signal = stop ? AbortSignal.any([stop, deadline]) : deadline;
    try {
      return await this.#turns.run(
        this.#partiesOf(to),
        () => this.#attempt(mail, to, signal),
        signal,
      );
    } catch (error) {
      const isFailure = error instanceof SmtpFailure;
      if (!isFailure && !(signal.aborted && error === signal.reason)) throw error;
      const text = isFailure ? explain(error) : 'no connection to the mail server was free in time';
      return to.map(() => failed('temporary', '4.4.1', text));
    }
  }

  /** Each recipient, then each domain, both sorted: two messages to the same two never wait for each other. */
  #partiesOf(to: readonly string[]): Party[] {
    const share = (part: number) => Math.max(1, Math.floor(this.#connections * part));
    const addresses = new Set(to.map((address) => address.toLowerCase()));
    const domains = new Set([...addresses].map((one) => one.slice(one.lastIndexOf('@') + 1)));
    const parties = (names: Set<string>, most: number) =>
      [...names].sort().map((name) => ({ name, most }));
    return [...parties(addresses, share(OF_RECIPIENT)), ...parties(domains, share(OF_DOMAIN))];
  }

  /** Closes idle connections; the others close after their message. */
  close(): void {
    this.#isClosed = true;
    for (const connection of this.#idle.keys()) {
      this.#take(connection);
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
      // The server had closed it meanwhile; nothing of the message was sent.
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
    const end = () => {
      this.#take(connection);
      connection.quit();
    };
    this.#idle.set(connection, setTimeout(end, this.#timeouts.idle).unref());
    connection.watch(() => {
      this.#take(connection);
      connection.destroy();
    });
  }

  #nextIdle(): SmtpConnection | undefined {
    const last = [...this.#idle.keys()].at(-1);
    if (last) this.#take(last);
    last?.watch(() => {});
    return last;
  }

  #take(connection: SmtpConnection): void {
    clearTimeout(this.#idle.get(connection));
    this.#idle.delete(connection);
  }
}

function explain({ during, message }: SmtpFailure): string {
  return during === 'connect' ? `no connection to the mail server: ${message}` : message;
}

/* One message over one LMTP connection, and the meaning of the server's answers for each recipient. */

export interface Sent {
  /** In the order of the recipients. */
  readonly results: readonly MailboxResult[];
  /** The connection ended before any of the message was sent: another connection may be tried. */
  readonly isUntouched: boolean;
}

/** @throws errors of the message's source */
async function sendMail(
  connection: SmtpConnection,
  { open, size, from }: ServerMail,
  recipients: readonly string[],
  signal: AbortSignal,
): Promise<Sent> {
  const { server } = connection;
  const limit = sizeLimit(server);
  if (size > limit) {
    const text = `the mail server takes ${limit} octets at most`;
    return {
      results: recipients.map(() => failed('permanent', '5.3.4', text)),
      isUntouched: false,
    };
  }
  const isCyrus = /\bCyrus\b/i.test(server.greeting.text);
  const to = recipients.filter((address) => !(isCyrus && address.includes('^')));
  // A server without SMTPUTF8 (RFC 6531 section 3.2) gets the message from the null sender; then only our own
  // Return-Path shows the sender.
  const smtpUtf8 = server.extensions.has('SMTPUTF8');
  const isKnown = isWritablePath(from) && (smtpUtf8 || isAscii(Buffer.from(from)));
  // Header fields may be UTF-8 whatever the reverse-path is, and bodies have 8 bits.
  const envelope = { from: isKnown ? from : '', to, size, eightBit: true, smtpUtf8 };
  const source = () => withLineEnds(isKnown ? withoutReturnPath(open()) : open());
  const answers = to.length > 0 ? await connection.send(envelope, source, signal) : [];
  const isUntouched = answers.length > 0 && answers.every(isLeftBefore);
  const results = [...answers];
  return {
    results: recipients.map((address) => {
      if (!to.includes(address)) return anothersMailbox;
      const answer = results.shift();
      return answer ? resultOf(answer) : failed('temporary', '4.5.0', 'no result');
    }),
    isUntouched,
  };
}

/**
 * Where `/` separates mailboxes, Cyrus writes a dot of a name as `^`, and does not distinguish the two: mail for
 * `a^b@` would be put into the mailbox of `a.b@`.
 */
const anothersMailbox = failed('permanent', '5.1.3', 'the mail server takes "^" for a dot');

/** 421: the server closes the connection, whatever was asked (RFC 5321 section 3.8). */
function isLeftBefore(result: RecipientResult): boolean {
  return result.stage === 'envelope' && (!('reply' in result) || result.reply.code === 421);
}

function resultOf(result: RecipientResult): MailboxResult {
  if ('reply' in result) {
    const { code, text } = result.reply;
    if (code < 300) return { result: 'delivered' };
    const error = { status: code, enhancedStatus: enhancedOf(result.reply), text: oneLine(text) };
    return { result: isFinalRefusal(result.reply) ? 'permanent' : 'temporary', error };
  }
  // A session that broke off says nothing about the message: it is tried again.
  const isSent = result.stage === 'sent';
  const doubt = ', after the whole message was sent: it may have been accepted';
  return failed('temporary', '4.4.2', isSent ? `${result.failure}${doubt}` : result.failure);
}

/** A failure on our side, without a reply of the server. */
export function failed(
  result: 'temporary' | 'permanent',
  enhancedStatus: string,
  text: string,
): Exclude<MailboxResult, { readonly result: 'delivered' }> {
  return { result, error: { enhancedStatus, text: oneLine(text) } };
}

/* A stored message in the form for a mail server. */

const RETURN_PATH = Buffer.from('Return-Path: ');
/** Longer than any line of ours. */
const RETURN_PATH_MAX = 4096;

/**
 * Removes the Return-Path line that we put in front of every message: by LMTP the server makes the final delivery and
 * writes its own from the reverse-path (RFC 5321 section 4.4).
 */
export async function* withoutReturnPath(
  source: AsyncIterable<Uint8Array>,
): AsyncGenerator<Buffer> {
  let start: Buffer | undefined = Buffer.alloc(0);
  for await (const chunk of source) {
    if (!start) {
      yield asBuffer(chunk);
      continue;
    }
    start = Buffer.concat([start, chunk]);
    const mayBe = start
      .subarray(0, RETURN_PATH.length)
      .equals(RETURN_PATH.subarray(0, start.length));
    if (mayBe && !start.includes('\n') && start.length < RETURN_PATH_MAX) continue;
    yield cutReturnPath(start);
    start = undefined;
  }
  if (start) yield cutReturnPath(start);
}

function cutReturnPath(start: Buffer): Buffer {
  if (!start.subarray(0, RETURN_PATH.length).equals(RETURN_PATH)) return start;
  return start.subarray(start.indexOf('\n') + 1);
}

/** Every line ends in CRLF (RFC 5321 section 2.3.8). */
export async function* withLineEnds(source: AsyncIterable<Uint8Array>): AsyncGenerator<Buffer> {
  const lineEnds = new LineEnds();
  for await (const chunk of source) yield lineEnds.write(chunk);
  yield lineEnds.end();
}
