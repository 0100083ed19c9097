/** What a server of SMTP or LMTP answers: one type for those that we write and those that we read. */

export interface Reply {
  /** RFC 5321 section 4.2. */
  readonly code: number;
  /**
   * Enhanced status code (RFC 3463), of the class of `code` (RFC 2034 section 4). Absent where the
   * reply has none, as the greeting, the answer to EHLO, and every 3xx.
   */
  readonly enhanced?: string;
  /** Without the codes. The lines of a reply with several are separated by LF. Hostile, where read. */
  readonly text: string;
}

/**
 * A reply as it goes over the line, each of its lines ended by CRLF. The enhanced code stands on every
 * line (RFC 2034 section 4).
 *
 * @param reply its text has no control characters but the LF between its lines
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

/** The enhanced code of a reply that refuses; the vaguest of its class where it has none. */
export function enhancedOf({ code, enhanced }: Reply): string {
  // 3xx has no class of its own: the server said what makes no sense there.
  return enhanced ?? (code < 400 ? '4.5.0' : `${Math.floor(code / 100)}.0.0`);
}

/** Why a conversation with a server came to its end. The message may hold what the server said. */
export class SmtpFailure extends Error {
  override readonly name = 'SmtpFailure';
  /** The reply that ended it; absent where the connection broke. */
  readonly reply: Reply | undefined;
  /** What was under way, where that matters; while connecting the message is the reason alone. */
  readonly during: 'connect' | 'tls' | 'login' | undefined;

  constructor(message: string, about: { reply?: Reply; during?: SmtpFailure['during'] } = {}) {
    super(message);
    this.reply = about.reply;
    this.during = about.during;
  }
}

const LINE = /^([2-5]\d\d)(?:([ -])(.*))?$/s;
const ENHANCED = /^([245]\.\d{1,3}\.\d{1,3})(?:[ \t]+|$)/;
/** Octets of a line; RFC 5321 section 4.5.3.1.5 asks for 512. */
const LINE_MAX = 4096;
/** Lines of a reply; that to EHLO has the most. */
const LINES_MAX = 100;
/** Characters of nonsense that are shown. */
const SHOWN_MAX = 80;

/** Cuts what a server sends into replies. What is no reply, or has no end, is a failure. */
export class ReplyReader {
  #rest: Buffer = Buffer.alloc(0);
  #code = 0;
  #lines: string[] = [];

  /** Whether the server has begun to say something that is not at its end. */
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
