/** Dates and instants (RFC 9051 section 9: date, date-time). They are written in UTC. */
import type { EpochMs } from '../../platform/time/time.ts';

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];
const DATE = `(\\d{1,2})-(${MONTHS.join('|')})-(\\d{4})`;
const DAY = new RegExp(`^${DATE}$`, 'i');
const DATE_TIME = new RegExp(`^\\s?${DATE} (\\d\\d:\\d\\d:\\d\\d) ([+-]\\d{4})$`, 'i');

/** `1-Jan-1970`. */
export function imapDate(instant: EpochMs): string {
  const date = new Date(instant);
  const year = `${date.getUTCFullYear()}`.padStart(4, '0');
  return `${date.getUTCDate()}-${MONTHS[date.getUTCMonth()]}-${year}`;
}

/** `17-Jul-1996 02:44:25 +0000`; the day has two characters. */
export function imapDateTime(instant: EpochMs): string {
  return `${imapDate(instant).padStart(11)} ${new Date(instant).toISOString().slice(11, 19)} +0000`;
}

/** Reads `1-Feb-1994`, as the begin of that day; undefined for anything else, such as a day that its month does not have. */
export function readDate(text: string): EpochMs | undefined {
  const [, day = '', month = '', year = ''] = DAY.exec(text) ?? [];
  return instantOf(day, month, year, '00:00:00', '+0000');
}

/** Reads `17-Jul-1996 02:44:25 -0700`; undefined for anything else, as {@link readDate} does. */
export function readDateTime(text: string): EpochMs | undefined {
  const [, day = '', month = '', year = '', time = '', zone = ''] = DATE_TIME.exec(text) ?? [];
  return instantOf(day, month, year, time, zone);
}

function instantOf(
  day: string,
  month: string,
  year: string,
  time: string,
  zone: string,
): EpochMs | undefined {
  // `Date` takes 30 February for 1 March.
  const midnight = new Date(`${day} ${month} ${year} 00:00:00 +0000`);
  if (midnight.getUTCDate() !== Number(day)) return undefined;
  const instant = Date.parse(`${day} ${month} ${year} ${time} ${zone}`);
  return Number.isNaN(instant) ? undefined : instant;
}
