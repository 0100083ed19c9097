/** One message to the mailboxes of a mail server, by whichever protocol reaches each of them. */
import { isAscii } from 'node:buffer';
import { Refusal } from '../../errors/errors.ts';
import type {
  AppendTarget,
  MailboxResult,
  MailOrigin,
  MailUser,
} from '../../mailstore/mailstore.ts';
import { LineEnds } from '../../message/message.ts';
import { LmtpClient, type LmtpClientOptions, type LmtpServer } from './lmtp-client.ts';
import { toWire, withoutReturnPath } from './message-content.ts';
import { failed } from './outcome.ts';

/** What IMAP APPEND needs (RFC 3501 section 6.3.11). */
export interface ImapAppend {
  /** Reads the message, every line of it ending in CRLF; may be called several times. */
  readonly open: () => AsyncIterable<Uint8Array>;
  /** Octets as `open` gives them. */
  readonly size: number;
  readonly flags: readonly string[];
  /** Milliseconds since 1970. */
  readonly internalDate?: number | undefined;
  /** Ends the attempt, which counts as failed from then on: what is added later comes twice. */
  readonly signal: AbortSignal;
}

export interface TransportOptions {
  /** The LMTP server; without one all goes by IMAP. */
  readonly lmtp?: LmtpClientOptions | undefined;
  /**
   * Adds a message to a mailbox by IMAP, and makes the mailbox where it is missing. Without it all
   * goes by LMTP, with a field that says the mailbox (`X-Postroom-Mailbox`) for the server's filter.
   *
   * @throws Refusal mailbox_refused, mailbox_full where that is for good; anything else: not now
   */
  readonly appendByImap?: (user: MailUser, mailbox: string, message: ImapAppend) => Promise<void>;
  readonly log: DeliveryLog;
}

/** What delivery tells the log; a pino Logger fits. */
export interface DeliveryLog {
  warn(fields: object, message: string): void;
}

/** A message with its trace fields. */
export interface Source {
  readonly open: () => AsyncIterable<Uint8Array>;
  readonly size: number;
  /** Absent: not known, it goes from the null sender. */
  readonly origin: MailOrigin | undefined;
}

export type Addressed = Pick<AppendTarget, 'user' | 'mailbox'>;

export interface TargetResult {
  readonly target: AppendTarget;
  readonly result: MailboxResult;
}

/** As long as a message by LMTP may take. */
const APPEND_TIMEOUT_MS = 240_000;

/** Where LMTP delivers to. */
const INBOX = 'INBOX';

export class Transport {
  readonly #options: TransportOptions;
  readonly #lmtp: LmtpClient | undefined;

  constructor(options: TransportOptions) {
    this.#options = options;
    this.#lmtp = options.lmtp && new LmtpClient(options.lmtp);
    if (!this.#lmtp && !options.appendByImap) throw new Error('no way to the mail server');
  }

  /**
   * Makes one attempt for each target.
   *
   * @param signal ends it
   * @throws what the source throws; nothing else
   */
  async deliver(
    source: Source,
    targets: readonly AppendTarget[],
    signal?: AbortSignal,
  ): Promise<TargetResult[]> {
    const { appendByImap } = this.#options;
    const byImap: AppendTarget[] = [];
    const byLmtp = new Map<string, AppendTarget[]>();
    for (const target of targets) {
      const { mailbox } = target;
      if (appendByImap && (mailbox !== INBOX || !this.#lmtp)) byImap.push(target);
      else byLmtp.set(mailbox, [...(byLmtp.get(mailbox) ?? []), target]);
    }
    const sessions = [...byLmtp].map(([mailbox, some]) =>
      this.#sendByLmtp(source, mailbox, some, signal),
    );
    const appends = byImap.length > 0 ? [this.#appendAll(source, byImap, signal)] : [];
    return (await Promise.all([...sessions, ...appends])).flat();
  }

  close(): void {
    this.#lmtp?.close();
  }

  async #sendByLmtp(
    { open, size, origin }: Source,
    mailbox: string,
    targets: readonly AppendTarget[],
    signal: AbortSignal | undefined,
  ): Promise<TargetResult[]> {
    if (!this.#lmtp) throw new Error('LMTP was not asked for');
    const from = writable(origin?.from ?? '');
    // A server without SMTPUTF8 (RFC 6531 section 3.2) gets the message from the null sender; then
    // our own Return-Path is the one place where the sender stands.
    const isKnown = (server: LmtpServer) => isAscii(Buffer.from(from)) || server.takesUtf8;
    const read = (server: LmtpServer) =>
      origin && isKnown(server) ? withoutReturnPath(open()) : open();
    const message = {
      envelope: (server: LmtpServer) => ({
        from: isKnown(server) ? from : '',
        to: targets.map(({ user }) => user.address),
        size,
      }),
      content: (server: LmtpServer) => toWire(marked(mailbox, read(server))),
    };
    const results = await this.#lmtp.deliver(message, targets.length, signal);
    return targets.map((target, index) => ({
      target,
      result: results[index] ?? failed('temporary', '4.5.0', 'no result'),
    }));
  }

  /** One after the other: they are many only where one message is for many. */
  async #appendAll(
    { open }: Source,
    targets: readonly AppendTarget[],
    signal: AbortSignal | undefined,
  ): Promise<TargetResult[]> {
    const lines = () => withLineEnds(open());
    let size = 0;
    for await (const chunk of lines()) size += chunk.length;
    const results: TargetResult[] = [];
    const deadline = AbortSignal.timeout(APPEND_TIMEOUT_MS);
    const ending = signal ? AbortSignal.any([signal, deadline]) : deadline;
    for (const target of targets) {
      results.push({ target, result: await this.#append(target, lines, size, ending) });
    }
    return results;
  }

  async #append(
    { user, mailbox, flags = [], internalDate }: AppendTarget,
    open: ImapAppend['open'],
    size: number,
    signal: AbortSignal,
  ): Promise<MailboxResult> {
    const { appendByImap, log } = this.#options;
    if (signal.aborted) return failed('temporary', '4.4.2', 'there was no time left for it');
    const stopped = Promise.withResolvers<never>();
    stopped.promise.catch(() => {});
    const stop = () => stopped.reject(signal.reason);
    signal.addEventListener('abort', stop, { once: true });
    try {
      const message = { open, size, flags, internalDate, signal };
      await Promise.race([appendByImap?.(user, mailbox, message), stopped.promise]);
      return { result: 'delivered' };
    } catch (error) {
      if (error instanceof Refusal && error.code === 'mailbox_full') {
        return failed('permanent', '5.2.2', error.message);
      }
      if (error instanceof Refusal && error.code === 'mailbox_refused') {
        return failed('permanent', '5.2.0', error.message);
      }
      log.warn({ err: error, mailbox }, 'a message was not added to a mailbox');
      return failed('temporary', '4.3.0', 'the mailbox could not be written to');
    } finally {
      signal.removeEventListener('abort', stop);
    }
  }
}

/** A reverse-path that cannot end its command; what can, no sender of ours has. */
function writable(path: string): string {
  return /[\p{Cc}<>]/u.test(path) ? '' : path;
}

/** Says in front which mailbox it is for, unless that is where it goes anyhow. */
async function* marked(
  mailbox: string,
  source: AsyncIterable<Uint8Array>,
): AsyncGenerator<Uint8Array> {
  if (mailbox !== INBOX && /^[ -~]{1,200}$/.test(mailbox)) {
    yield Buffer.from(`X-Postroom-Mailbox: ${mailbox}\r\n`);
  }
  yield* source;
}

async function* withLineEnds(source: AsyncIterable<Uint8Array>): AsyncGenerator<Buffer> {
  const lineEnds = new LineEnds();
  for await (const chunk of source) yield lineEnds.write(chunk);
  yield lineEnds.end();
}
