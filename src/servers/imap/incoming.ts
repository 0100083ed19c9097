/** What a client sends: commands, one after another, and the messages of APPEND as they come (RFC 9051 section 4.3). */
import type { Wire } from '../../platform/net/net.ts';
import type { AccountShares, MailAccess } from '../../tenants/accounts/accounts.ts';
import { isMessageOf } from './append.ts';
import {
  type AnnouncedLiteral,
  type CommandLimits,
  type CommandParts,
  CommandReader,
} from './command-reader.ts';
import { timeouts } from './connection-settings.ts';
import { BadCommand } from './cursor.ts';
import { Bye } from './session.ts';

/** Before a login: what a stranger may let us hold. */
const STRANGER: CommandLimits = { line: 64 * 1024, literals: 8, literalOctets: 8 * 4096 };
export const LOGGED_IN: CommandLimits = {
  line: 1024 * 1024,
  literals: 1_000,
  literalOctets: 1024 * 1024,
};
/**
 * Octets of a command that every session may hold: a user has thousands of sessions. How many are longer at once is
 * limited, in all, of one user and of one account; the longest has 2 MiB.
 */
const SHORT = 64 * 1024;
export const LONG_COMMANDS = { account: 4, user: 16, all: 64 };
/** LITERAL- (RFC 7888): the most octets of a literal that is not waited for. */
const UNASKED_MAX = 4_096;

export interface IncomingOptions {
  readonly wire: Wire;
  /** Octets of the largest message. */
  readonly maxMessageBytes: number;
  /** Sends what was not sent yet: the client may wait for it before it goes on. */
  readonly flush: () => Promise<void> | undefined;
  readonly write: (text: string) => Promise<void> | undefined;
  /** Called with how many came. */
  readonly onBytes: (amount: number) => void;
  /** Who has logged in. */
  readonly user: () => MailAccess | undefined;
  /** Slots for long commands, of all connections of a process: {@link LONG_COMMANDS}. */
  readonly longCommands: AccountShares;
  /** Aborts with a Bye where no more of a message may be taken. */
  readonly signal: AbortSignal;
}

export class Incoming {
  readonly #options: IncomingOptions;
  readonly #reader = new CommandReader(STRANGER);
  /** Gives back the slot of the command, where it is a long one. */
  #giveBack: (() => void) | undefined;
  #literal: AnnouncedLiteral | undefined;
  /** Octets of it that did not come yet; undefined before the client was asked for it. */
  #left: number | undefined;
  /** What closes the parenthesis in which it stands. */
  #closing = '';
  /** The messages of the APPEND that runs: octets, and how long we had waited for the client before them. */
  #messages: { octets: number; readonly waited: number } | undefined;

  constructor(options: IncomingOptions) {
    this.#options = options;
  }

  /** Nothing of the last command is needed any more. */
  release(): void {
    this.#giveBack?.();
    this.#giveBack = undefined;
  }

  set limits(limits: CommandLimits) {
    this.#reader.limits = limits;
  }

  /** Octets that came and were not used yet. */
  get waiting(): number {
    return this.#reader.waiting;
  }

  /** Takes octets that came and were not used yet out of the stream. */
  takeWaiting(): Buffer {
    return this.#reader.take(this.#reader.waiting);
  }

  /** The message that comes next in the APPEND that runs. */
  get literal(): AnnouncedLiteral | undefined {
    return this.#literal;
  }

  /** Whether the messages of an APPEND take too long: others wait for its turn. @param now by the monotonic clock */
  isSlow(now: number): boolean {
    if (!this.#messages) return false;
    const { octets, waited } = this.#messages;
    const most = Math.min(timeouts.messages, timeouts.slow + octets);
    return this.#options.wire.waitedUntil(now) - waited > most;
  }

  /** The next command, whole but for the messages of an APPEND. @throws Bye where it is too large */
  async next(): Promise<CommandParts | 'interrupted' | undefined> {
    this.#messages = undefined;
    // An interruption may have come in the middle of a command.
    if (this.#reader.held === 0) this.release();
    for (;;) {
      const reading = this.#reader.next();
      if (reading?.kind === 'command') return reading.parts;
      if (reading?.kind === 'too long') throw new Bye('[TOOBIG] The command is too long');
      if (reading?.kind === 'literal') {
        const parts = await this.#takeLiteral(reading.literal);
        if (parts) return parts;
        continue;
      }
      const bytes = await this.#options.wire.read();
      if (bytes === undefined) return undefined;
      if (bytes.length === 0) return 'interrupted';
      this.#options.onBytes(bytes.length);
      this.#push(bytes);
    }
  }

  /** @throws Bye where the account has too many long commands */
  #push(bytes: Buffer): void {
    this.#reader.push(bytes);
    const user = this.#options.user();
    // Before a login all commands are short.
    if (!user || this.#giveBack || this.#reader.held <= SHORT) return;
    const slot = this.#options.longCommands.take(user);
    if (typeof slot === 'string') {
      throw new Bye('[LIMIT] The account or its user has too many long commands at once');
    }
    this.#giveBack = slot;
  }

  /** @returns the command, where the literal is a message */
  async #takeLiteral(literal: AnnouncedLiteral): Promise<CommandParts | undefined> {
    if (this.#options.user() && isMessageOf(literal.parts)) {
      this.#begin(literal);
      return literal.parts;
    }
    const isUnasked = !literal.waits && literal.octets > UNASKED_MAX;
    if (isUnasked || !this.#reader.hasRoomFor(literal)) {
      throw new Bye('[TOOBIG] The literal is too large');
    }
    this.#reader.keep(literal);
    if (literal.waits) await this.#options.write('+ Go on\r\n');
    return undefined;
  }

  #begin(literal: AnnouncedLiteral): void {
    this.#reader.drop();
    const before = literal.parts.at(-1);
    this.#closing = typeof before === 'string' && before.endsWith('(') ? ')' : '';
    const waited = this.#options.wire.waitedUntil(performance.now());
    this.#messages ??= { octets: 0, waited };
    this.#literal = literal;
    this.#left = undefined;
  }

  /** Octets of the message; the client is told to send it first. @throws Bye where the client leaves */
  async *readLiteral(): AsyncGenerator<Uint8Array> {
    if (!this.#literal) return;
    await this.#options.flush();
    if (this.#literal.waits) await this.#options.write('+ Send the message\r\n');
    this.#left = this.#literal.octets;
    while (this.#left > 0) {
      const taken = this.#reader.take(this.#left);
      this.#left -= taken.length;
      if (taken.length > 0) yield taken;
      else await this.#fill();
    }
  }

  /**
   * What follows a message that was read to its end.
   *
   * @returns what stands before one more message (RFC 3502), which is {@link Incoming.literal} then; undefined where the
   *   command ends
   * @throws BadCommand where something else follows
   */
  async nextMessage(): Promise<CommandParts | undefined> {
    this.#literal = undefined;
    for (;;) {
      const reading = this.#reader.next();
      if (reading?.kind === 'too long') throw new Bye('[TOOBIG] The command is too long');
      if (reading) {
        const closing = this.#closing;
        if (reading.kind === 'literal') this.#begin(reading.literal);
        const { parts } = reading.kind === 'literal' ? reading.literal : reading;
        const [first = '', ...others] = parts;
        if (typeof first === 'string' && first.startsWith(closing)) {
          const rest = first.slice(closing.length);
          if (this.#literal) return [rest, ...others];
          if (rest === '' && others.length === 0) return undefined;
        }
        throw new BadCommand('Expected the end of APPEND after its message');
      }
      await this.#fill();
    }
  }

  /** Reads what is left of an APPEND that was refused, so that it is not taken for commands. */
  async finish(): Promise<void> {
    while (this.#literal) {
      const { octets, waits } = this.#literal;
      // A client that waits sends nothing where the command was refused.
      if (waits && this.#left === undefined) {
        this.#literal = undefined;
        return;
      }
      this.#left ??= octets;
      if (octets > this.#options.maxMessageBytes) {
        throw new Bye('[TOOBIG] The message is too large');
      }
      while (this.#left > 0) {
        this.#left -= this.#reader.take(this.#left).length;
        if (this.#left > 0) await this.#fill();
      }
      await this.nextMessage().catch((error: unknown) => {
        throw error instanceof BadCommand ? new Bye(error.message) : error;
      });
    }
  }

  /** @throws Bye where the client left, or is too slow */
  async #fill(): Promise<void> {
    const bytes = await this.#options.wire.read();
    this.#options.signal.throwIfAborted();
    if (bytes === undefined) throw new Bye('The client left');
    this.#options.onBytes(bytes.length);
    if (this.#messages) this.#messages.octets += bytes.length;
    if (bytes.length > 0) this.#push(bytes);
    else if (this.isSlow(performance.now())) throw new Bye('The message came too slowly');
  }
}
