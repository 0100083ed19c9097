/** Cuts what a client sends into command lines. */
import { isUtf8 } from 'node:buffer';
import type { Reply } from '../net/net.ts';
import { reply } from './replies.ts';

const CR = 0x0d;
const LF = 0x0a;
const NOTHING = Buffer.alloc(0);

/**
 * Longest command line in octets, CRLF included. RFC 5321 section 4.5.3.1.4 asks for 512, the
 * parameters we offer and SMTPUTF8 add to that (RFC 1870, RFC 6531 section 3.4); the rest is slack.
 */
export const MAX_LINE_OCTETS = 2048;
/** Octets of one overlong line that are skipped; a client that goes on is not speaking SMTP. */
const MAX_SKIPPED_OCTETS = 64 * 1024;

/** Anything but printable ASCII, which nearly every line is. */
const UNUSUAL = /[^ -~]/;
const CONTROL = /[\0-\x1f\x7f]/;
const TRAILING_SPACE = /[ \t]+$/;

/** What is wrong with a line before anybody looks at what it says. */
export interface LineFault {
  readonly reply: Reply;
  /** Whether there is nothing safe to go on with. */
  readonly isFatal: boolean;
}

function fault(text: string, isFatal: boolean): LineFault {
  return { reply: reply(500, '5.5.2', text), isFatal };
}

const TOO_LONG = fault('The line is too long', false);
const BAD_CHARACTERS = fault('The line has characters that no command has', false);
const ENDLESS = fault('The line does not end', true);
/**
 * Whether more lines follow depends on what ends a line for the client: the two sides do not agree on
 * what is a command.
 */
const BARE_LF = fault('A line ends with CRLF, not with LF', true);

/**
 * The bytes of a client that nobody has looked at yet. A command line ends with CRLF and with nothing
 * else (RFC 5321 section 2.3.8); memory stays small however long a line is.
 */
export class CommandLines {
  #input: Buffer = NOTHING;
  /** Octets of the current line that were dropped because the line is too long. */
  #skipped = 0;

  add(bytes: Buffer): void {
    this.#input = this.#input.length === 0 ? bytes : Buffer.concat([this.#input, bytes]);
  }

  /** Takes all bytes that are there, for a reader that is not interested in lines. */
  takeAll(): Buffer {
    const bytes = this.#input;
    this.#input = NOTHING;
    this.#skipped = 0;
    return bytes;
  }

  /**
   * Takes the next line.
   *
   * @returns its text without its end and without white space before that, which is tolerated (RFC
   *   5321 section 4.1.1); undefined where no whole line is there
   */
  next(): string | LineFault | undefined {
    const end = this.#input.indexOf(LF);
    if (end < 0) return this.#keepUnfinished();
    const line = this.#input.subarray(0, end + 1);
    const isTooLong = this.#skipped > 0 || line.length > MAX_LINE_OCTETS;
    this.#input = this.#input.subarray(end + 1);
    this.#skipped = 0;
    if (line.at(-2) !== CR) return BARE_LF;
    return isTooLong ? TOO_LONG : readText(line.subarray(0, -2));
  }

  #keepUnfinished(): LineFault | undefined {
    if (this.#input.length <= MAX_LINE_OCTETS) return undefined;
    this.#skipped += this.#input.length - 1;
    // The last byte may be the CR of the line's end.
    this.#input = this.#input.subarray(-1);
    return this.#skipped > MAX_SKIPPED_OCTETS ? ENDLESS : undefined;
  }
}

/** NUL, a bare CR and their like have no place in any command (RFC 5321 section 4.1.2). */
function readText(line: Buffer): string | LineFault {
  const octets = line.toString('latin1').replace(TRAILING_SPACE, '');
  if (!UNUSUAL.test(octets)) return octets;
  if (CONTROL.test(octets) || !isUtf8(line)) return BAD_CHARACTERS;
  return line.toString().replace(TRAILING_SPACE, '');
}
