/**
 * Delivers one message to the mailboxes of a mail server: by LMTP (RFC 2033) into INBOX, by IMAP APPEND into other
 * mailboxes. Without LMTP all messages use APPEND, which bypasses the server's filters.
 */
import { Refusal, when } from '../../platform/errors/errors.ts';
import { inTime } from '../../platform/net/net.ts';
import type { AppendTarget, MailboxResult, ServerMail } from '../mailstore/mailstore.ts';
import type { ImapAppend } from './imap-client/append-message.ts';
import type { ImapMailstore } from './imap-client/imap.ts';
import { failed, LmtpClient, type LmtpClientOptions, withLineEnds } from './lmtp.ts';

export interface ServerDeliveryOptions {
  /** The LMTP server; without one all mail goes by IMAP. */
  readonly lmtp?: LmtpClientOptions | undefined;
  readonly imap: Pick<ImapMailstore, 'appendByImap' | 'hasReceived' | 'changeOf'>;
  /** A pino Logger fits. */
  readonly log: { warn(fields: object, message: string): void };
}

/** As long as a message by LMTP may take. */
const APPEND_TIMEOUT_MS = 240_000;

/** The mailbox that LMTP delivers to. */
const INBOX = 'INBOX';

type Results = readonly (readonly [AppendTarget, MailboxResult])[];

const noResult = failed('temporary', '4.5.0', 'no result');

export class ServerDelivery {
  readonly imap: ServerDeliveryOptions['imap'];
  readonly #log: ServerDeliveryOptions['log'];
  readonly #lmtp: LmtpClient | undefined;

  constructor({ imap, log, lmtp }: ServerDeliveryOptions) {
    this.imap = imap;
    this.#log = log;
    this.#lmtp = lmtp && new LmtpClient(lmtp);
  }

  /**
   * Makes one attempt for each target.
   *
   * @param signal ends the attempt
   * @returns the results in the order of the targets
   * @throws only errors of the source
   */
  async deliver(
    mail: ServerMail,
    targets: readonly AppendTarget[],
    signal?: AbortSignal,
  ): Promise<readonly MailboxResult[]> {
    const byLmtp = targets.filter(({ mailbox }) => mailbox === INBOX && this.#lmtp);
    const byImap = targets.filter((target) => !byLmtp.includes(target));
    const [sent, appended] = await Promise.all([
      this.#sendByLmtp(mail, byLmtp, signal),
      this.#appendAll(mail, byImap, signal),
    ]);
    const results = new Map([...sent, ...appended]);
    return targets.map((target) => results.get(target) ?? noResult);
  }

  /** Ends the connections that are not in use. */
  close(): void {
    this.#lmtp?.close();
  }

  async #sendByLmtp(
    mail: ServerMail,
    targets: readonly AppendTarget[],
    signal: AbortSignal | undefined,
  ): Promise<Results> {
    if (!this.#lmtp || targets.length === 0) return [];
    const addresses = targets.map(({ user }) => user.address);
    const results = await this.#lmtp.deliver(mail, addresses, signal);
    return targets.map((target, index) => [target, results[index] ?? noResult]);
  }

  /** One after the other: there are several only where one message is for several accounts. */
  async #appendAll(
    { open }: ServerMail,
    targets: readonly AppendTarget[],
    signal: AbortSignal | undefined,
  ): Promise<Results> {
    if (targets.length === 0) return [];
    const lines = () => withLineEnds(open());
    const deadline = AbortSignal.timeout(APPEND_TIMEOUT_MS);
    const ending = signal ? AbortSignal.any([signal, deadline]) : deadline;
    const count = async () => {
      let octets = 0;
      for await (const chunk of lines()) octets += chunk.length;
      return octets;
    };
    // Once it is aborted, no target is tried.
    const size = await inTime(ending, count()).catch(when(() => ending.aborted, 0));
    const results: [AppendTarget, MailboxResult][] = [];
    for (const target of targets) {
      results.push([target, await this.#append(target, lines, size, ending)]);
    }
    return results;
  }

  async #append(
    { user, mailbox, flags = [], internalDate }: AppendTarget,
    open: ImapAppend['open'],
    size: number,
    signal: AbortSignal,
  ): Promise<MailboxResult> {
    if (signal.aborted) return failed('temporary', '4.4.2', 'there was no time left for it');
    try {
      const message = { open, size, flags, internalDate, signal };
      await inTime(signal, this.imap.appendByImap(user, mailbox, message));
      return { result: 'delivered' };
    } catch (error) {
      if (error instanceof Refusal && error.code === 'mailbox_full') {
        return failed('permanent', '5.2.2', error.message);
      }
      if (error instanceof Refusal && error.code === 'mailbox_refused') {
        return failed('permanent', '5.2.0', error.message);
      }
      this.#log.warn(
        { err: error, mailbox },
        'a message could not be added to a mailbox on the mail server: it is tried again',
      );
      return failed('temporary', '4.3.0', 'the mailbox could not be written to');
    }
  }
}
