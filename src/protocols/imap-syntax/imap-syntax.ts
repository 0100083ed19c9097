/** What IMAP clients and servers write alike: sets of UIDs and sequence numbers, names of mailboxes, and dates. Pure. */

import { Buffer } from 'node:buffer';
import type { EpochMs } from '../../platform/time/time.ts';

export { UID_MAX, UidSet } from './uid-set.ts';

/* Dates and instants (RFC 9051 section 9: date, date-time). They are written in UTC. */

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];
const DATE = `(?<day>\\d{1,2})-(?<month>${MONTHS.join('|')})-(?<year>\\d{4})`;
const DAY = new RegExp(`^${DATE}$`, 'i');
const DATE_TIME = new RegExp(
  `^\\s?${DATE} (?<time>\\d\\d:\\d\\d:\\d\\d) (?<hours>[+-]\\d\\d)(?<minutes>\\d\\d)$`,
  'i',
);

/* A year has four digits: an instant before the first or after the last of them counts as that. */
const FIRST = Date.parse('0000-01-01T00:00:00Z');
const LAST = Date.parse('9999-12-31T23:59:59Z');
const writable = (instant: EpochMs): EpochMs => Math.min(Math.max(instant, FIRST), LAST);

/** `1-Jan-1970`. */
export function imapDate(instant: EpochMs): string {
  return dayOf(new Date(writable(instant)));
}

/** `17-Jul-1996 02:44:25 +0000`; the day has two characters. */
export function imapDateTime(instant: EpochMs): string {
  // Number by number: to write it as ISO 8601 and to cut that took a fifth of a FETCH of ENVELOPE and INTERNALDATE.
  const at = new Date(writable(instant));
  const time = `${digits(at.getUTCHours())}:${digits(at.getUTCMinutes())}:${digits(at.getUTCSeconds())}`;
  return `${dayOf(at).padStart(11)} ${time} +0000`;
}

const dayOf = (at: Date) =>
  `${at.getUTCDate()}-${MONTHS[at.getUTCMonth()]}-${digits(at.getUTCFullYear(), 4)}`;

const digits = (number: number, count = 2) => `${number}`.padStart(count, '0');

/** Reads `1-Feb-1994`, as the begin of that day; undefined for anything else, such as a day that its month does not have. */
export function readDate(text: string): EpochMs | undefined {
  return instantOf(DAY.exec(text)?.groups);
}

/** Reads `17-Jul-1996 02:44:25 -0700`; undefined for anything else, as {@link readDate} does. */
export function readDateTime(text: string): EpochMs | undefined {
  return instantOf(DATE_TIME.exec(text)?.groups);
}

function instantOf(groups: Record<string, string | undefined> = {}): EpochMs | undefined {
  const { day = '', month = '', year, time = '00:00:00', hours = '+00', minutes = '00' } = groups;
  const number = MONTHS.findIndex((one) => one.toLowerCase() === month.toLowerCase()) + 1;
  const date = [year, `${number}`.padStart(2, '0'), day.padStart(2, '0')].join('-');
  // `Date` takes 30 February for 1 March, and knows no leap second: it becomes the one before it, as in a Date field.
  if (new Date(`${date}T00:00:00Z`).getUTCDate() !== Number(day)) return undefined;
  const instant = Date.parse(`${date}T${time.replace(/60$/, '59')}${hours}:${minutes}`);
  return Number.isNaN(instant) ? undefined : writable(instant);
}

/* Names of mailboxes on the wire of IMAP4rev1: modified UTF-7 (RFC 3501 section 5.1.3). */

/** Text that is not printable ASCII; `&` begins the encoding itself. */
const ENCODED = /[^ -~]+|&/g;
/** `&`, base64 with `,` in place of `/`, and `-`. */
const SHIFT = /&([A-Za-z0-9+,]*)-/g;

/** Writes a name in printable ASCII. */
export function encodeMailboxName(name: string): string {
  return name.replace(ENCODED, (text) => (text === '&' ? '&-' : `&${encodeUtf16(text)}-`));
}

/**
 * Reads a name as a client wrote it. Text that no server could have encoded so is taken as it stands: Thunderbird sends
 * a bare `&`, and clients that have enabled UTF-8 send UTF-8. So is NUL, which no name has and no database takes.
 */
export function decodeMailboxName(text: string): string {
  return text.replace(SHIFT, (shift, base64: string) => {
    if (base64 === '') return '&';
    const decoded = decodeUtf16(base64);
    const isName = decoded.isWellFormed() && !decoded.includes('\0');
    return isName && encodeUtf16(decoded) === base64 ? decoded : shift;
  });
}

function encodeUtf16(text: string): string {
  const base64 = Buffer.from(text, 'utf16le').swap16().toString('base64');
  return base64.replace(/=+$/, '').replaceAll('/', ',');
}

function decodeUtf16(base64: string): string {
  const bytes = Buffer.from(base64.replaceAll(',', '/'), 'base64');
  const whole = bytes.subarray(0, bytes.length - (bytes.length % 2));
  return Buffer.from(whole).swap16().toString('utf16le');
}
