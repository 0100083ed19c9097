/**
 * Cuts what a client sends into commands: a line, with the literals in it (RFC 9051 section 2.2.1). Pure; all limits on
 * what a command may hold in memory are here, and are checked before anything is kept.
 */
import { Buffer } from 'node:buffer';
import { GrowingBuffer } from '../../mailboxes/bodies/bodies.ts';

/** A command: text of one character an octet, and between two texts a literal. */
export type CommandParts = readonly (string | Buffer)[];

/** What a command may hold, in octets. */
export interface CommandLimits {
  readonly line: number;
  /** Number of literals. */
  readonly literals: number;
  /** Of all literals together. */
  readonly literalOctets: number;
}

/** A literal of which the client said the size, and nothing came yet. */
export interface AnnouncedLiteral {
  /** The command up to it. */
  readonly parts: CommandParts;
  readonly octets: number;
  /** Whether the client waits for a continuation before it sends it. */
  readonly waits: boolean;
  /** It may have NUL (RFC 3516). */
  readonly isBinary: boolean;
}

export type Reading =
  | { readonly kind: 'command'; readonly parts: CommandParts }
  /** The next call is {@link CommandReader.keep}, {@link CommandReader.take} or {@link CommandReader.drop}. */
  | { readonly kind: 'literal'; readonly literal: AnnouncedLiteral }
  | { readonly kind: 'too long' };

const LF = 0x0a;
const CR = 0x0d;
const NONE = Buffer.alloc(0);
const TOO_LONG = { kind: 'too long' } as const;
/** `{` number, `+` for one that is not waited for, `}` at the end of a line; `~` for one that may have NUL (RFC 3516). */
const LITERAL = /(~?)\{(\d{1,10})(\+?)\}$/;

export class CommandReader {
  limits: CommandLimits;
  #bytes: Buffer = NONE;
  /** Where octets came before the end of a line: these and all after them, and nothing is in `#bytes`. */
  readonly #started = new GrowingBuffer();
  /** Whether a line may end in what came. */
  #hasEnd = false;
  #parts: (string | Buffer)[] = [];
  /** Of the command: to count them anew for each literal would take a command of a thousand long. */
  #kept = { literals: 0, octets: 0 };
  /** Octets of the lines of the command. */
  #lineOctets = 0;
  /** A literal that is being collected. */
  #literal: { readonly held: GrowingBuffer; missing: number } | undefined;

  constructor(limits: CommandLimits) {
    this.limits = limits;
  }

  /** Octets that came and are not used yet. */
  get waiting(): number {
    return this.#bytes.length + this.#started.size;
  }

  /** Octets of the command that is not whole, and all that came after it. */
  get held(): number {
    const literals = this.#parts.reduce((sum, part) => sum + part.length, 0);
    return literals + (this.#literal?.held.size ?? 0) + this.waiting;
  }

  /** Octets are copied a few times at most, however small the pieces are. */
  push(chunk: Buffer): void {
    this.#hasEnd ||= chunk.includes(LF);
    if (this.waiting === 0) {
      this.#bytes = chunk;
      return;
    }
    if (this.#bytes.length > 0) this.#started.add(this.#bytes);
    this.#bytes = NONE;
    this.#started.add(chunk);
  }

  /** The next of what came; undefined where more octets are needed. */
  next(): Reading | undefined {
    if (this.#literal && !this.#collect(this.#literal)) return undefined;
    if (this.#lineOctets + this.waiting > this.limits.line && !this.#hasEnd) return TOO_LONG;
    if (!this.#hasEnd) return undefined;
    this.#join();
    const length = this.#bytes.indexOf(LF);
    this.#hasEnd = length >= 0;
    if (length < 0) return this.next();
    if (this.#lineOctets + length > this.limits.line) return TOO_LONG;
    const end = this.#bytes[length - 1] === CR ? length - 1 : length;
    const line = this.#bytes.toString('latin1', 0, end);
    this.#bytes = this.#bytes.subarray(length + 1);
    this.#lineOctets += length;
    return this.#endLine(line);
  }

  #endLine(line: string): Reading {
    const match = LITERAL.exec(line);
    if (!match) {
      const parts = [...this.#parts, line];
      this.#begin();
      return { kind: 'command', parts };
    }
    this.#parts.push(line.slice(0, match.index));
    const [, tilde, octets, plus] = match;
    const literal = { octets: Number(octets), waits: plus === '', isBinary: tilde === '~' };
    return { kind: 'literal', literal: { parts: this.#parts, ...literal } };
  }

  /** Whether the limits allow to keep this literal in memory. */
  hasRoomFor({ octets }: Pick<AnnouncedLiteral, 'octets'>): boolean {
    const { literals, literalOctets } = this.limits;
    return this.#kept.literals < literals && this.#kept.octets + octets <= literalOctets;
  }

  /** Keeps the announced literal as a part of the command. */
  keep({ octets }: Pick<AnnouncedLiteral, 'octets'>): void {
    this.#kept.literals++;
    this.#kept.octets += octets;
    this.#literal = { held: new GrowingBuffer(), missing: octets };
  }

  /** The command ends here: its literal is read by {@link CommandReader.take}, or the client does not send it. */
  drop(): void {
    this.#begin();
  }

  /** Takes the octets of a literal out of the stream: as many as came, at most `most`. */
  take(most: number): Buffer {
    this.#join();
    const taken = this.#bytes.subarray(0, most);
    this.#bytes = this.#bytes.subarray(taken.length);
    return taken;
  }

  #join(): void {
    if (this.#started.size > 0) this.#bytes = this.#started.take();
  }

  #begin(): void {
    this.#parts = [];
    this.#kept = { literals: 0, octets: 0 };
    this.#lineOctets = 0;
  }

  /** @returns whether the literal is whole */
  #collect(literal: { readonly held: GrowingBuffer; missing: number }): boolean {
    const taken = this.take(literal.missing);
    literal.held.add(taken);
    literal.missing -= taken.length;
    if (literal.missing > 0) return false;
    this.#parts.push(literal.held.take());
    this.#literal = undefined;
    return true;
  }
}
