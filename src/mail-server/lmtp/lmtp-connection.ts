/**
 * One connection to an LMTP server (RFC 2033), for one message after the other.
 *
 * Not nodemailer's client: where the connection breaks between the replies of two recipients, it
 * forgets those that came, and a recipient who has the message would be delivered to again.
 */
import type { MailboxResult } from '../../mailstore/mailstore.ts';
import { failed, resultOf } from './outcome.ts';
import { LmtpFailure, type Reply, textOf } from './reply.ts';
import { type LmtpAddress, openWire, type Wire } from './wire.ts';

/** Milliseconds. */
export interface LmtpTimeouts {
  /** Until the TCP connection stands. */
  readonly connect: number;
  /** For a reply to a command, and for the greeting. */
  readonly reply: number;
  /** For the server to take more of the message, and for each reply after its end. */
  readonly message: number;
}

export interface LmtpEnvelope {
  /** Reverse-path without angle brackets; `''` is the null sender. */
  readonly from: string;
  readonly to: readonly string[];
  /** Octets, for SIZE (RFC 1870). */
  readonly size: number;
}

export interface Transaction {
  /** In the order of the recipients. */
  readonly results: readonly MailboxResult[];
  /** The connection broke before any of the message was sent: another one may do better. */
  readonly isUntouched: boolean;
}

/** What is known of each recipient, in their order. */
type Results = (MailboxResult | undefined)[];

export class LmtpConnection {
  readonly #wire: Wire;
  readonly #timeouts: LmtpTimeouts;
  /** Keywords and their parameters (RFC 5321 section 4.1.1.1). */
  readonly #extensions = new Map<string, string>();
  #isCyrus = false;

  private constructor(wire: Wire, timeouts: LmtpTimeouts) {
    this.#wire = wire;
    this.#timeouts = timeouts;
  }

  /**
   * Connects and says LHLO.
   *
   * @param hostname what LHLO says
   * @throws LmtpFailure
   */
  static async open(
    address: LmtpAddress,
    hostname: string,
    timeouts: LmtpTimeouts,
    signal: AbortSignal,
  ): Promise<LmtpConnection> {
    const wire = await openWire(address, timeouts.connect, signal);
    const connection = new LmtpConnection(wire, timeouts);
    try {
      await wire.until(signal, () => connection.#greet(hostname));
    } catch (error) {
      connection.destroy();
      throw error;
    }
    return connection;
  }

  /** Whether another message can be sent; a server that said something unasked is done with us. */
  get isUsable(): boolean {
    return this.#wire.isQuiet;
  }

  /** Whether the server takes reverse-paths outside ASCII (RFC 6531). */
  get takesUtf8(): boolean {
    return this.#extensions.has('SMTPUTF8');
  }

  /** Told when the connection ends or the server talks while nothing is sent. */
  watch(listener: () => void): void {
    this.#wire.onEvent = listener;
  }

  /**
   * Sends one message.
   *
   * @param content the message as it goes over the line; not read where nobody takes it
   * @param signal ends the attempt and the connection
   * @throws what `content` throws; the server never sees the message's end then
   */
  async send(
    envelope: LmtpEnvelope,
    content: () => AsyncIterable<Buffer>,
    signal: AbortSignal,
  ): Promise<Transaction> {
    return this.#wire.until(signal, () => this.#transact(envelope, content));
  }

  /** Takes leave of the server. */
  quit(): void {
    this.#wire.quit();
  }

  destroy(): void {
    this.#wire.fail(new LmtpFailure('the connection was closed'));
  }

  async #greet(hostname: string): Promise<void> {
    const { reply } = this.#timeouts;
    const greeting = expect(await this.#wire.reply(reply), 220, 'the greeting');
    this.#isCyrus = /\bCyrus\b/i.test(textOf(greeting));
    this.#wire.write(`LHLO ${hostname}\r\n`);
    // RFC 2033 section 4.1: the answer lists the extensions as that of EHLO does.
    const { lines } = expect(await this.#wire.reply(reply), 250, 'LHLO');
    for (const line of lines.slice(1)) {
      const [keyword = ''] = /^\S+/.exec(line) ?? [];
      this.#extensions.set(keyword.toUpperCase(), line.slice(keyword.length).trim());
    }
  }

  async #transact(
    envelope: LmtpEnvelope,
    content: () => AsyncIterable<Buffer>,
  ): Promise<Transaction> {
    const results: Results = envelope.to.map(() => undefined);
    try {
      const refused = await this.#address(envelope, results);
      if (refused) {
        await this.#reset();
        return settle(results, refused, isLeaving(refused));
      }
    } catch (error) {
      return settle(results, brokenOff(error, false), true);
    }
    const accepted = results.flatMap((result, index) => (result ? [] : [index]));
    const progress = { isSent: false };
    try {
      const refused = await this.#sendContent(content, progress);
      if (refused) return settle(results, refused);
      // One reply for each recipient that RCPT took, in that order (RFC 2033 section 4.2).
      for (const index of accepted) {
        results[index] = resultOf(await this.#wire.reply(this.#timeouts.message));
      }
      return settle(results, noAnswer);
    } catch (error) {
      return settle(results, brokenOff(error, progress.isSent));
    }
  }

  /**
   * MAIL and RCPT. Recipients that are refused get their result.
   *
   * @returns what holds for all the others where the message itself is refused, or nobody takes it
   */
  async #address(
    { from, to, size }: LmtpEnvelope,
    results: Results,
  ): Promise<MailboxResult | undefined> {
    const limit = Number(this.#extensions.get('SIZE') ?? 0);
    // RFC 1870 section 3: no limit is announced as 0.
    if (limit > 0 && size > limit) {
      return failed('permanent', '5.3.4', `the mail server takes ${limit} octets at most`);
    }
    const asked: number[] = [];
    for (const [index, address] of to.entries()) {
      if (this.#isCyrus && address.includes('^')) results[index] = anothersMailbox;
      else asked.push(index);
    }
    if (asked.length === 0) return noAnswer;
    const [mail, ...recipients] = await this.#exchange([
      this.#mail(from, size),
      ...asked.map((index) => `RCPT TO:<${to[index]}>\r\n`),
    ]);
    if (mail && mail.code >= 300) return resultOf(mail);
    for (const [at, reply] of recipients.entries()) {
      const index = asked[at];
      if (index !== undefined && reply.code >= 300) results[index] = resultOf(reply);
    }
    return results.includes(undefined) ? undefined : noAnswer;
  }

  /** Commands in one go where the server allows it; else one by one, as long as the first is taken. */
  async #exchange(commands: readonly string[]): Promise<Reply[]> {
    // RFC 2920 section 3.1; RFC 2033 section 5 asks every server for it.
    const isPipelined = this.#extensions.has('PIPELINING');
    if (isPipelined) this.#wire.write(commands.join(''));
    const replies: Reply[] = [];
    for (const command of commands) {
      if (!isPipelined) this.#wire.write(command);
      replies.push(await this.#wire.reply(this.#timeouts.reply));
      if (!isPipelined && (replies[0]?.code ?? 0) >= 300) break;
    }
    return replies;
  }

  #mail(from: string, size: number): string {
    const parameters = [
      ...(this.#extensions.has('SIZE') ? [`SIZE=${size}`] : []),
      // RFC 6152; a server without it gets the message as it is: recoding would break signatures.
      ...(this.#extensions.has('8BITMIME') ? ['BODY=8BITMIME'] : []),
      // RFC 6531 section 3.4. Header fields may be UTF-8 whatever the reverse-path is.
      ...(this.takesUtf8 ? ['SMTPUTF8'] : []),
    ];
    return `${[`MAIL FROM:<${from}>`, ...parameters].join(' ')}\r\n`;
  }

  /** @returns what holds for all recipients where DATA is refused */
  async #sendContent(
    content: () => AsyncIterable<Buffer>,
    progress: { isSent: boolean },
  ): Promise<MailboxResult | undefined> {
    const wire = this.#wire;
    wire.write('DATA\r\n');
    const reply = await wire.reply(this.#timeouts.reply);
    if (reply.code !== 354) {
      await this.#reset();
      return reply.code < 400 ? unexpected(reply) : resultOf(reply);
    }
    try {
      for await (const chunk of content()) {
        if (!wire.write(chunk)) await wire.drain(this.#timeouts.message);
      }
    } catch (error) {
      // Without its end the server drops what it has of the message.
      this.destroy();
      throw error;
    }
    // A server that gave up early has said so, and does not answer each recipient any more.
    if (!wire.isQuiet) {
      const { unread } = wire;
      const said = unread ? `${unread.code} ${textOf(unread)}` : 'half a reply';
      this.destroy();
      throw new LmtpFailure(`the server answered before the message's end: ${said}`);
    }
    progress.isSent = true;
    wire.write('.\r\n');
    return undefined;
  }

  /** Ends a transaction that came to nothing; a server that does not go along is left. */
  async #reset(): Promise<void> {
    try {
      this.#wire.write('RSET\r\n');
      expect(await this.#wire.reply(this.#timeouts.reply), 250, 'RSET');
    } catch (error) {
      if (!(error instanceof LmtpFailure)) throw error;
      this.destroy();
    }
  }
}

/** For those without a reply of their own where none is missing. */
const noAnswer = failed('temporary', '4.5.0', 'the mail server did not answer');

/**
 * Cyrus writes the dots of a name as `^` where `/` separates mailboxes, and tells them apart no more:
 * mail for `a^b@` would lie in the mailbox of `a.b@`.
 */
const anothersMailbox = failed('permanent', '5.1.3', 'the mail server takes "^" for a dot');

function settle(results: Results, rest: MailboxResult, isUntouched = false): Transaction {
  return { results: results.map((result) => result ?? rest), isUntouched };
}

/** 421: the server closes the connection, whatever was asked (RFC 5321 section 3.8). */
function isLeaving(result: MailboxResult): boolean {
  return result.result !== 'delivered' && result.error.status === 421;
}

function unexpected({ code }: Reply): MailboxResult {
  return failed('temporary', '4.5.0', `the mail server answered DATA with ${code}`);
}

function expect(reply: Reply, code: number, what: string): Reply {
  if (reply.code === code) return reply;
  throw new LmtpFailure(`the server answered ${what} with ${reply.code} ${textOf(reply)}`);
}

/** Half a conversation says nothing about the message: it is tried again. */
function brokenOff(error: unknown, isSent: boolean): MailboxResult {
  if (!(error instanceof LmtpFailure)) throw error;
  const doubt = ', after the whole message was sent: it may have been taken';
  return failed('temporary', '4.4.2', isSent ? `${error.message}${doubt}` : error.message);
}
