/** What both sides of SMTP and LMTP write in the same way: replies, and the dots of a message. */

export interface Reply {
  /** RFC 5321 section 4.2. */
  readonly code: number;
  /**
   * Enhanced status code (RFC 3463), of the class of `code` (RFC 2034 section 4). Absent where the reply has none,
   * such as the greeting, the answer to EHLO, and every 3xx.
   */
  readonly enhanced?: string;
  /** Without the codes. Several lines are separated by LF. Hostile, if it was read. */
  readonly text: string;
}

/**
 * A reply as it is sent, each of its lines ended by CRLF. Every line has the enhanced code (RFC 2034 section 4).
 *
 * @param reply its text has no control characters except the LF between its lines
 */
export function formatReply({ code, enhanced, text }: Reply): string {
  const lines = text.split('\n');
  const status = enhanced === undefined ? '' : `${enhanced} `;
  return lines
    .map((line, index) => `${code}${index < lines.length - 1 ? '-' : ' '}${status}${line}\r\n`)
    .join('');
}

/**
 * Replies that are no fault of the message: 503 is about the order of commands (RFC 5321 section 4.2.2),
 * the others about encryption and logging in (RFC 3207 section 4, RFC 4954 section 6).
 */
const NOT_THE_MESSAGE = new Set([503, 530, 534, 535, 538]);

/** Whether a reply refuses a message for good. */
export function isFinalRefusal({ code }: Reply): boolean {
  return code >= 500 && !NOT_THE_MESSAGE.has(code);
}

/** The enhanced code of a refusal; the most general of its class where it has none. */
export function enhancedOf({ code, enhanced }: Reply): string {
  // 3xx has no class of its own: such a reply is unexpected there.
  return enhanced ?? (code < 400 ? '4.5.0' : `${Math.floor(code / 100)}.0.0`);
}

/** Why a conversation with a server ended. The message may quote the server. */
export class SmtpFailure extends Error {
  override readonly name = 'SmtpFailure';
  /** The reply that ended it; absent where the connection broke. */
  readonly reply: Reply | undefined;
  /** What was under way, where that matters; while connecting, the message is only the reason. */
  readonly during: 'connect' | 'tls' | 'login' | undefined;

  constructor(message: string, about: { reply?: Reply; during?: SmtpFailure['during'] } = {}) {
    super(message);
    this.reply = about.reply;
    this.during = about.during;
  }
}

const LINE = /^([2-5]\d\d)(?:([ -])(.*))?$/s;
const ENHANCED = /^([245]\.\d{1,3}\.\d{1,3})(?:[ \t]+|$)/;
/** The most octets of a line; RFC 5321 section 4.5.3.1.5 asks for 512. */
const LINE_MAX = 4096;
/** The most lines of a reply; that to EHLO has the most. */
const LINES_MAX = 100;
/** The most characters that are shown of text that is not a reply. */
const SHOWN_MAX = 80;

/** Splits what a server sends into replies. Text that is not a reply, or has no end, is a failure. */
export class ReplyReader {
  #rest: Buffer = Buffer.alloc(0);
  #code = 0;
  #lines: string[] = [];

  /** Whether a reply has begun and not ended. */
  get isWithin(): boolean {
    return this.#rest.length > 0 || this.#lines.length > 0;
  }

  /** @throws SmtpFailure */
  *read(chunk: Buffer): Generator<Reply> {
    let input = this.#rest.length === 0 ? chunk : Buffer.concat([this.#rest, chunk]);
    for (let end = input.indexOf('\n'); end >= 0; end = input.indexOf('\n')) {
      const reply = this.#addLine(input.toString('utf8', 0, end).replace(/\r$/, ''));
      input = input.subarray(end + 1);
      if (reply) yield reply;
    }
    if (input.length > LINE_MAX) throw new SmtpFailure('the server sent a line without an end');
    // A copy: the chunk it lies in may be large.
    this.#rest = Buffer.from(input);
  }

  /** @returns the reply whose last line it is */
  #addLine(line: string): Reply | undefined {
    const [, digits, mark = ' ', text = ''] = LINE.exec(line.slice(0, LINE_MAX)) ?? [];
    const code = Number(digits);
    if (!digits || (this.#lines.length > 0 && code !== this.#code)) {
      throw new SmtpFailure(`the server sent what is no reply: ${line.slice(0, SHOWN_MAX)}`);
    }
    this.#code = code;
    this.#lines.push(text);
    if (this.#lines.length > LINES_MAX) throw new SmtpFailure('the server sent an endless reply');
    if (mark === '-') return undefined;
    const lines = this.#lines;
    this.#lines = [];
    return readReply(code, lines);
  }
}

function readReply(code: number, lines: readonly string[]): Reply {
  const enhanced = ENHANCED.exec(lines[0] ?? '')?.[1];
  if (enhanced === undefined || enhanced[0] !== String(code)[0]) {
    return { code, text: lines.join('\n') };
  }
  return { code, enhanced, text: lines.map((line) => line.replace(ENHANCED, '')).join('\n') };
}

/*
 * The message between `354` and the line with a single dot, without the dots that the client stuffed in (RFC 5321
 * section 4.5.2).
 *
 * Only CRLF ends a line (RFC 5321 section 2.3.8). A dot after a bare LF or a bare CR is ordinary text, so `\n.\n`,
 * `\r\n.\n` and the like neither end the message (SMTP smuggling) nor lose a dot: the message is read as it was sent,
 * bare CR and LF included.
 */

const CR = 0x0d;
const LF = 0x0a;
const DOT = 0x2e;
const LINE_DOT = Buffer.from('\r\n.');
const LONE_CR = Buffer.from('\r');

/** The end of the bytes so far; a dot at the start of a line and a CR after it are held back. */
type Position = 'text' | 'cr' | 'line start' | 'dot' | 'dot cr';

export interface Taken {
  /** Bytes of the message, possibly none. */
  readonly content: Buffer;
  /** What follows the end of the message; undefined while the message goes on. */
  readonly rest: Buffer | undefined;
}

/** Reads one message, chunk by chunk. */
export class DotTransparency {
  #position: Position = 'line start';

  /**
   * Reads the next chunk, however the network split it.
   *
   * The dots are removed in place: `chunk` belongs to this call, and `content` and `rest` are parts of
   * it. A chunk without dots at line starts costs one native search and no copy.
   */
  take(chunk: Buffer): Taken {
    const input = this.#withHeldCr(chunk);
    let position = this.#position;
    let read = 0;
    let written = 0;
    while (read < input.length) {
      switch (position) {
        case 'text': {
          const found = input.indexOf(LINE_DOT, read);
          const end = found < 0 ? input.length : found + 2;
          // Checked before the copy below overwrites these bytes.
          position = found < 0 ? positionAfter(input, read) : 'line start';
          if (written < read) input.copyWithin(written, read, end);
          written += end - read;
          read = end;
          break;
        }
        case 'cr':
          // The LF of a CRLF that two chunks share: text again, which includes this byte.
          position = 'text';
          if (input[read] === LF) {
            written += 1;
            read += 1;
            position = 'line start';
          }
          break;
        case 'line start':
          position = input[read] === DOT ? 'dot' : 'text';
          if (position === 'dot') read += 1;
          break;
        case 'dot':
          position = input[read] === CR ? 'dot cr' : 'text';
          if (position === 'dot cr') read += 1;
          break;
        case 'dot cr':
          if (input[read] === LF) {
            return { content: input.subarray(0, written), rest: input.subarray(read + 1) };
          }
          // The CR is alone, so the dot before it was a stuffed one and the CR is text.
          read -= 1;
          position = 'text';
          break;
      }
    }
    this.#position = position;
    return { content: input.subarray(0, written), rest: undefined };
  }

  /** Puts a CR that was held back from the last chunk before this one, if it is text. */
  #withHeldCr(chunk: Buffer): Buffer {
    if (this.#position !== 'dot cr' || chunk.length === 0 || chunk[0] === LF) return chunk;
    this.#position = 'text';
    return Buffer.concat([LONE_CR, chunk]);
  }
}

/** The position after text that runs from `start` to the end of `input`. */
function positionAfter(input: Buffer, start: number): Position {
  const last = input.at(-1);
  if (last === CR) return 'cr';
  const crlf = last === LF && input.length - start >= 2 && input.at(-2) === CR;
  return crlf ? 'line start' : 'text';
}

/**
 * The opposite: what a client sends between `354` and the line with a single dot, which is not included. A dot at the
 * start of a line is doubled, and a missing line end is added.
 *
 * @param message its lines end in CRLF
 */
export async function* stuffDots(message: AsyncIterable<Uint8Array>): AsyncGenerator<Buffer> {
  /** The last two octets. */
  let end = '\r\n';
  for await (const piece of message) {
    const chunk = Buffer.from(piece.buffer, piece.byteOffset, piece.length);
    if (chunk.length === 0) continue;
    yield stuff(chunk, end);
    end = (end + chunk.toString('latin1', Math.max(chunk.length - 2, 0))).slice(-2);
  }
  if (end !== '\r\n') yield Buffer.from('\r\n');
}

/** Chunks without a dot at the start of a line are passed through, not copied. */
function stuff(chunk: Buffer, before: string): Buffer {
  const starts: number[] = [];
  // The end of a line may be in the chunk before, or in both.
  const isLineStart = (at: number) =>
    (before + chunk.toString('latin1', 0, at)).endsWith('\r\n') && chunk[at] === DOT;
  for (const at of [0, 1]) if (isLineStart(at)) starts.push(at);
  for (let at = chunk.indexOf(LINE_DOT); at >= 0; at = chunk.indexOf(LINE_DOT, at + 2)) {
    starts.push(at + 2);
  }
  if (starts.length === 0) return chunk;
  const stuffed = Buffer.allocUnsafe(chunk.length + starts.length);
  let read = 0;
  let written = 0;
  for (const start of starts) {
    written += chunk.copy(stuffed, written, read, start);
    stuffed[written++] = DOT;
    read = start;
  }
  chunk.copy(stuffed, written, read);
  return stuffed;
}

/** Whether the text has characters that need SMTPUTF8 (RFC 6531 section 3.3). */
export function isInternationalized(text: string): boolean {
  return /[^\0-\x7f]/.test(text);
}
