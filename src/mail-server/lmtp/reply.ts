/** What an LMTP server answers (RFC 5321 section 4.2, which RFC 2033 takes over). */
import { oneLine } from '../../message/message.ts';

export interface Reply {
  readonly code: number;
  /** RFC 3463, where the reply has one of the class of its code (RFC 2034 section 4). */
  readonly enhancedStatus: string | undefined;
  /** The lines without their codes, hostile text. */
  readonly lines: readonly string[];
}

/** How the connection failed; a bug is no such thing. */
export class LmtpFailure extends Error {
  override readonly name = 'LmtpFailure';
}

const LINE = /^([2-5]\d\d)(?:([ -])(.*))?$/s;
const ENHANCED = /^([245]\.\d{1,3}\.\d{1,3})(?:[ \t]+|$)/;
/** Octets of a line; RFC 5321 section 4.5.3.1.5 asks for 512. */
const LINE_MAX = 4096;
const LINES_MAX = 100;

/** A reply's text on one line of at most 500 characters, without its codes. */
export function textOf(reply: Reply): string {
  return oneLine(reply.lines.map((line) => line.replace(ENHANCED, '')).join(' '));
}

/** Cuts what the server sends into replies. What is no reply, or has no end, is a failure. */
export class ReplyParser {
  #rest: Buffer = Buffer.alloc(0);
  #code = 0;
  #lines: string[] = [];

  /** Whether the server has begun to say something that is not at its end. */
  get isWithin(): boolean {
    return this.#rest.length > 0 || this.#lines.length > 0;
  }

  /** @throws LmtpFailure */
  *push(chunk: Buffer): Generator<Reply> {
    let input = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    for (let end = input.indexOf('\n'); end >= 0; end = input.indexOf('\n')) {
      const reply = this.#take(input.toString('utf8', 0, end).replace(/\r$/, ''));
      input = input.subarray(end + 1);
      if (reply) yield reply;
    }
    if (input.length > LINE_MAX) throw new LmtpFailure('the server sent a line without an end');
    // A copy: the chunk it lies in may be large.
    this.#rest = Buffer.from(input);
  }

  #take(line: string): Reply | undefined {
    const [, digits, mark = ' ', text = ''] = LINE.exec(line.slice(0, LINE_MAX)) ?? [];
    const code = Number(digits);
    if (!digits || (this.#lines.length > 0 && code !== this.#code)) {
      throw new LmtpFailure(`the server sent what is no reply: ${oneLine(line.slice(0, 80))}`);
    }
    this.#code = code;
    this.#lines.push(text);
    if (this.#lines.length > LINES_MAX) throw new LmtpFailure('the server sent an endless reply');
    if (mark === '-') return undefined;
    const lines = this.#lines;
    this.#lines = [];
    const enhanced = ENHANCED.exec(lines[0] ?? '')?.[1];
    return { code, enhancedStatus: enhanced?.[0] === digits[0] ? enhanced : undefined, lines };
  }
}
