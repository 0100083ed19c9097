/** One message over one SMTP connection, by nodemailer. */
import type { Socket } from 'node:net';
import { Readable } from 'node:stream';
import SMTPConnection from 'nodemailer/lib/smtp-connection';
import { oneLine } from '../message/message.ts';
import { judgeFailure, type SessionResult } from './judge-failure.ts';
import { failure, type SendOutcome } from './outcome.ts';

/** A message with its envelope. */
export interface OutgoingMessage {
  /** Reverse-path without angle brackets; `''` is the null sender. */
  readonly from: string;
  /** The one recipient. */
  readonly to: string;
  /** Octets, for SIZE (RFC 1870). */
  readonly size: number;
  /**
   * Whether it has octets above 127. It is then sent as BODY=8BITMIME (RFC 6152); to the rare far end
   * without that extension it goes as it is, since recoding it would break its signatures.
   */
  readonly eightBit: boolean;
  /**
   * Whether its header needs SMTPUTF8 (RFC 6531 section 3.1): it came by SMTPUTF8 and has octets above
   * 127. What the addresses need is seen here.
   */
  readonly smtpUtf8: boolean;
  /** Reads the message from its start; may be called several times. Lines end in CRLF. */
  readonly open: () => AsyncIterable<Uint8Array>;
}

export interface SessionOptions {
  /** The far end's name, for people and for SNI. */
  readonly host: string;
  /** What EHLO says. */
  readonly hostname: string;
  /**
   * - `opportunistic`: STARTTLS where offered, with any certificate (RFC 7435 section 3)
   * - `none`: never
   * - `offered`: STARTTLS where offered, the certificate verified
   * - `required`: STARTTLS, the certificate verified
   * - `implicit`: TLS from the first byte, the certificate verified (RFC 8314 section 3.3)
   */
  readonly tls: 'opportunistic' | 'none' | 'offered' | 'required' | 'implicit';
  readonly login?: { readonly user: string; readonly password: string } | undefined;
  /** Milliseconds for the greeting and for a TLS handshake, each. */
  readonly greetingTimeout: number;
  /** Milliseconds that the far end may keep silent. */
  readonly idleTimeout: number;
  /** Ends the session. */
  readonly signal: AbortSignal;
}

/** Real replies have a few lines. */
const REPLY_MAX = 64 * 1024;
const QUIT_TIMEOUT_MS = 5_000;
const CLOSE_TIMEOUT_MS = 1_000;

/** nodemailer leaves this method out of its types; the version is pinned, and a test watches it. */
interface CommandWriter {
  _sendCommand(command: string, shown?: string): void;
}

type Done<Value> = (error?: Error | null, value?: Value) => void;

/**
 * Sends a message over a connection that has just been made, and takes leave of the far end.
 *
 * @throws what the message's source throws; nothing else
 */
export async function runSession(
  socket: Socket,
  message: OutgoingMessage,
  options: SessionOptions,
): Promise<SessionResult> {
  const session = new Session(socket, message, options);
  const result = await session.run();
  const { outcome } = result;
  session.leave(outcome.result === 'delivered' || outcome.error.status !== undefined);
  return result;
}

class Session {
  readonly #message: OutgoingMessage;
  readonly #options: SessionOptions;
  readonly #connection: SMTPConnection;
  readonly #broken = Promise.withResolvers<never>();
  readonly #stop = () => this.#broken.reject(this.#options.signal.reason);
  #stage: 'setup' | 'login' | 'transaction' = 'setup';
  #sent = false;
  #sourceError: Error | undefined;

  constructor(socket: Socket, message: OutgoingMessage, options: SessionOptions) {
    this.#message = message;
    this.#options = options;
    this.#connection = openClient(socket, options);
    this.#broken.promise.catch(() => {});
    this.#connection.on('error', this.#broken.reject);
    options.signal.addEventListener('abort', this.#stop, { once: true });
    if (options.signal.aborted) this.#stop();
  }

  async run(): Promise<SessionResult> {
    try {
      await this.#step<void>((done) => this.#connection.connect(done));
      // The reply to the last EHLO, or to HELO.
      const extensions = readExtensions(this.#connection.lastServerResponse || '');
      await this.#login();
      this.#stage = 'transaction';
      const lacking = this.#missing(extensions);
      const outcome = lacking ?? (await this.#transact());
      return { outcome, about: 'message', tryNext: lacking !== undefined, tlsFailed: false };
    } catch (error) {
      if (this.#sourceError) {
        this.leave(false);
        throw this.#sourceError;
      }
      const { host, signal } = this.#options;
      return judgeFailure(error, {
        host,
        stage: this.#stage,
        upgrading: this.#connection.upgrading === true,
        sent: this.#sent,
        stopped: signal.aborted ? reasonOf(signal) : undefined,
      });
    }
  }

  /** @param politely whether the far end waits for a command */
  leave(politely: boolean): void {
    this.#options.signal.removeEventListener('abort', this.#stop);
    const connection = this.#connection;
    if (!politely || connection.destroyed) {
      connection.close();
      return;
    }
    connection.quit();
    const timer = setTimeout(() => connection.close(), QUIT_TIMEOUT_MS);
    connection.once('end', () => clearTimeout(timer));
  }

  /** Waits for a callback, or for the connection to break or the time to be over. */
  #step<Value>(start: (done: Done<Value>) => void): Promise<Value | undefined> {
    const step = Promise.withResolvers<Value | undefined>();
    start((error, value) => (error ? step.reject(error) : step.resolve(value)));
    return Promise.race([step.promise, this.#broken.promise]);
  }

  async #login(): Promise<void> {
    const { login } = this.#options;
    if (!login) return;
    this.#stage = 'login';
    const auth = { user: login.user, pass: login.password };
    await this.#step<boolean>((done) => this.#connection.login(auth, done));
  }

  /** What the message needs and the far end has not. */
  #missing(extensions: ReadonlyMap<string, string>): SendOutcome | undefined {
    const { host } = this.#options;
    const { size, from, to, smtpUtf8 } = this.#message;
    const limit = Number(extensions.get('SIZE') ?? 0);
    // RFC 1870 section 3: no limit is announced as 0.
    if (limit > 0 && size > limit) {
      return failure('permanent', '5.3.4', `the far end takes ${limit} octets at most`, host);
    }
    if (extensions.has('SMTPUTF8')) return undefined;
    // RFC 6531 section 3.2: nothing is sent to who may not understand it.
    if (isInternationalized(from + to)) {
      return failure('permanent', '5.6.7', 'the far end takes no address outside ASCII', host);
    }
    if (!smtpUtf8) return undefined;
    return failure('permanent', '5.6.9', 'the far end takes no header outside ASCII', host);
  }

  async #transact(): Promise<SendOutcome> {
    const { from, to, size, eightBit, smtpUtf8, open } = this.#message;
    // nodemailer asks for SMTPUTF8 only where an address needs it.
    if (smtpUtf8 && !isInternationalized(from + to)) addSmtpUtf8(this.#connection);
    const source = Readable.from(open(), { objectMode: false });
    source.once('end', () => {
      this.#sent = true;
    });
    source.on('error', (error) => {
      this.#sourceError = error;
    });
    try {
      const sent = await this.#step<{ readonly response: string }>((done) =>
        this.#connection.send({ from, to, size, use8BitMime: eightBit }, source, done),
      );
      const detail = oneLine(sent?.response ?? '');
      return { result: 'delivered', host: this.#options.host, detail };
    } finally {
      source.destroy();
    }
  }
}

function openClient(socket: Socket, options: SessionOptions): SMTPConnection {
  const { host, hostname, tls, greetingTimeout, idleTimeout } = options;
  return new SMTPConnection({
    connection: socket,
    host,
    name: hostname,
    secure: tls === 'implicit',
    ignoreTLS: tls === 'none',
    requireTLS: tls === 'required',
    tls: { rejectUnauthorized: tls !== 'opportunistic' },
    greetingTimeout,
    // Greeting and handshake together.
    connectionTimeout: 2 * greetingTimeout,
    socketTimeout: idleTimeout,
    socketCloseTimeout: CLOSE_TIMEOUT_MS,
    maxResponseSize: REPLY_MAX,
    logger: false,
  });
}

function addSmtpUtf8(connection: SMTPConnection): void {
  // The method is there; see CommandWriter.
  const writer = connection as unknown as CommandWriter;
  const send = writer._sendCommand.bind(connection);
  writer._sendCommand = (command, shown) =>
    send(command.startsWith('MAIL FROM:') ? `${command} SMTPUTF8` : command, shown);
}

/** Keywords and their parameters (RFC 5321 section 4.1.1.1). */
function readExtensions(reply: string): Map<string, string> {
  const extensions = new Map<string, string>();
  for (const line of reply.split(/\r?\n/).slice(1)) {
    const [start = '', keyword = ''] = /^250[ -](\S+)/.exec(line) ?? [];
    extensions.set(keyword.toUpperCase(), line.slice(start.length).trim());
  }
  return extensions;
}

function isInternationalized(text: string): boolean {
  return /[^\0-\x7f]/.test(text);
}

function reasonOf({ reason }: AbortSignal): 'timeout' | 'stop' {
  return reason instanceof Error && reason.name === 'TimeoutError' ? 'timeout' : 'stop';
}
