/**
 * The lines of a mail server's batch: newline-delimited JSON, one event on each line. Any line is an event, is
 * rejected with a reason, or is blank; a bad line does not affect the others.
 */
import { isUtf8 } from 'node:buffer';

export interface MailserverEvent {
  /** Counts from 1. */
  readonly line: number;
  readonly eventId: string;
  /** Address of the account. */
  readonly user: string;
  readonly eventType: string;
  readonly mailbox: string;
  readonly uidvalidity: string;
  readonly highestmodseq: string;
}

export interface RejectedLine {
  readonly line: number;
  /** Set where the line has a usable one. */
  readonly event_id?: string;
  readonly reason: string;
}

/** The content of some of the lines. */
interface LineSlice {
  readonly events: MailserverEvent[];
  readonly rejected: RejectedLine[];
}

/** The most bytes of one line; the longest event, fully escaped, has about 11,000. */
const LINE_MAX = 65_536;
/** Limits of one slice, and so of how long reading it holds the thread: some milliseconds. */
const SLICE_LINES = 1_000;
const SLICE_BYTES = 1_048_576;

const NEWLINE = 0x0a;
const BYTE_ORDER_MARK = Buffer.from([0xef, 0xbb, 0xbf]);

const TEXT_MAX = { event_id: 255, user: 320, event_type: 255, mailbox: 1_024 };

const UINT32_MAX = 4_294_967_295;
const MODSEQ_MAX = '9223372036854775807';
/** A number as IMAP writes it, but without leading zeros: clients compare these as text. */
const DECIMAL = /^(?:0|[1-9]\d{0,18})$/;
/** C0 controls, which no name may have; PostgreSQL cannot store NUL. */
const CONTROLS = /[\0-\x1f]/;

/** Reads the lines of one body, slice by slice. */
export class EventLines {
  readonly #body: Buffer;
  /** Whether all of it is UTF-8, which is much faster to check at once than line by line. */
  readonly #utf8: boolean;
  #position: number;
  #line = 0;

  constructor(body: Buffer) {
    this.#body = body;
    this.#utf8 = isUtf8(body);
    // RFC 8259 section 8.1 lets a parser ignore a byte order mark.
    this.#position = body.subarray(0, 3).equals(BYTE_ORDER_MARK) ? 3 : 0;
  }

  get hasMore(): boolean {
    return this.#position < this.#body.length;
  }

  /** The next lines, or undefined at the end. A slice may be empty: then all its lines are blank. */
  next(): LineSlice | undefined {
    const body = this.#body;
    if (!this.hasMore) return undefined;
    const events: MailserverEvent[] = [];
    const rejected: RejectedLine[] = [];
    const bytesEnd = this.#position + SLICE_BYTES;
    while (this.#position < Math.min(body.length, bytesEnd)) {
      const start = this.#position;
      const newline = body.indexOf(NEWLINE, start);
      const end = newline === -1 ? body.length : newline;
      this.#position = end + 1;
      this.#line++;
      if (isBlank(body, start, end)) continue;
      const found = this.#read(start, end);
      if ('reason' in found) rejected.push(found);
      else events.push(found);
      if (events.length + rejected.length >= SLICE_LINES) break;
    }
    return { events, rejected };
  }

  #read(start: number, end: number): MailserverEvent | RejectedLine {
    const line = this.#line;
    if (end - start > LINE_MAX) return { line, reason: `is longer than ${LINE_MAX} bytes` };
    if (!this.#utf8 && !isUtf8(this.#body.subarray(start, end))) {
      return { line, reason: 'is not UTF-8' };
    }
    const text = this.#body.toString('utf8', start, end);
    let value: unknown;
    try {
      value = JSON.parse(text);
    } catch {
      return { line, reason: 'is not JSON' };
    }
    if (!isObject(value)) return { line, reason: 'is not a JSON object' };
    // JSON can have control characters and halves of surrogate pairs only as escapes.
    return readEvent(line, value, text.includes('\\') ? isCleanText : isText);
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Whether there is only space, tab and CR, the white space of JSON besides the newline. */
function isBlank(body: Buffer, start: number, end: number): boolean {
  for (let at = start; at < end; at++) {
    const byte = body[at];
    if (byte !== 0x20 && byte !== 0x0d && byte !== 0x09) return false;
  }
  return true;
}

type TextCheck = (value: unknown, max: number) => value is string;

function readEvent(
  line: number,
  fields: Record<string, unknown>,
  fits: TextCheck,
): MailserverEvent | RejectedLine {
  const { event_id, user, event_type, mailbox, uidvalidity, highestmodseq } = fields;
  if (!fits(event_id, TEXT_MAX.event_id)) return { line, reason: textReason('event_id') };
  const reject = (reason: string) => ({ line, event_id, reason });
  if (!fits(user, TEXT_MAX.user)) return reject(textReason('user'));
  if (!fits(event_type, TEXT_MAX.event_type)) return reject(textReason('event_type'));
  if (!fits(mailbox, TEXT_MAX.mailbox)) return reject(textReason('mailbox'));
  if (!isUidvalidity(uidvalidity)) {
    return reject('uidvalidity must be a string with a decimal number of at most 32 bits');
  }
  if (!isModseq(highestmodseq)) {
    return reject('highestmodseq must be a string with a decimal number of at most 63 bits');
  }
  const eventType = event_type;
  return { line, eventId: event_id, user, eventType, mailbox, uidvalidity, highestmodseq };
}

function isText(value: unknown, max: number): value is string {
  return typeof value === 'string' && value.length > 0 && value.length <= max;
}

function isCleanText(value: unknown, max: number): value is string {
  return isText(value, max) && !CONTROLS.test(value) && value.isWellFormed();
}

function textReason(field: keyof typeof TEXT_MAX): string {
  return `${field} must be a string of 1 to ${TEXT_MAX[field]} characters, none a control character`;
}

/** RFC 3501 section 2.3.1.1: 32 bits. */
function isUidvalidity(value: unknown): value is string {
  return typeof value === 'string' && DECIMAL.test(value) && Number(value) <= UINT32_MAX;
}

/** RFC 7162 section 3.1: 63 bits. */
function isModseq(value: unknown): value is string {
  if (typeof value !== 'string' || !DECIMAL.test(value)) return false;
  return value.length < MODSEQ_MAX.length || value <= MODSEQ_MAX;
}
