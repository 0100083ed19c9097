/**
 * The Date field (RFC 5322 sections 3.3 and 4.3), read leniently.
 */

/** Enough for every form of date with its comments. */
const MAX_LENGTH = 200;

const months = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'];

/**
 * Hours east of UTC of the named zones of RFC 5322 section 4.3. Any other name, the single letters
 * of the military included, says nothing reliable and counts as UTC, as the RFC asks.
 */
const zones = new Map([
  ['edt', -4],
  ['est', -5],
  ['cdt', -5],
  ['cst', -6],
  ['mdt', -6],
  ['mst', -7],
  ['pdt', -7],
  ['pst', -8],
]);

/** `Fri, 21 Nov 1997 09:55:06 -0600`; day name and seconds may be absent. */
const INTERNET =
  /^(?:[a-z]+\.? ?,? ?)?(?<day>\d{1,2})[ -](?<month>[a-z]{3})[a-z]*[ -](?<year>\d{2,5}),? (?<time>\d{1,2} ?:.*)$/i;

/** `Fri Nov 21 09:55:06 1997`, with or without a zone before the year: the date of C's asctime. */
const ASCTIME =
  /^[a-z]+,? (?<month>[a-z]{3})[a-z]* (?<day>\d{1,2}),? (?<time>\d{1,2}:[\d:]+(?: [a-z]+)?),? (?<year>\d{4})(?: (?<zone>[+-]\d{4}))?$/i;

/** `1997-11-21T09:55:06-06:00` (RFC 3339). */
const ISO = /^(?<year>\d{4})-(?<month>\d\d)-(?<day>\d\d)[T ](?<time>\d\d:.*)$/i;

/** `09:55:06.000 -0600`; what follows a zone is not looked at. */
const TIME =
  /^(?<hour>\d{1,2}) ?: ?(?<minute>\d\d)(?: ?: ?(?<second>\d\d))?(?:[.,]\d+)? ?(?<zone>[+-]\d\d:?\d\d|[a-z]+)?/i;

/** Minutes east of UTC; no zone at all counts as UTC. */
function zoneOffset(zone: string | undefined): number {
  const numeric = /^([+-])(\d\d):?(\d\d)$/.exec(zone ?? '');
  if (!numeric) return (zones.get((zone ?? '').toLowerCase()) ?? 0) * 60;
  const minutes = Number(numeric[2]) * 60 + Number(numeric[3]);
  return numeric[1] === '-' ? -minutes : minutes;
}

/** RFC 5322 section 4.3: how years of two and three digits are meant. */
function fullYear(digits: string): number {
  const year = Number(digits);
  if (digits.length === 2) return year < 50 ? year + 2000 : year + 1900;
  return digits.length === 3 ? year + 1900 : year;
}

function monthOf(text: string): number {
  const month = months.indexOf(text.toLowerCase());
  return month >= 0 ? month : Number(text) - 1;
}

/** Drops comments, nested ones from the inside out, and makes white space single. */
function simplify(value: string): string {
  let text = value.slice(0, MAX_LENGTH);
  for (let before = ''; before !== text; ) {
    before = text;
    text = text.replace(/\([^()]*\)/g, ' ');
  }
  return text.replace(/\s+/g, ' ').trim();
}

/**
 * Reads the value of a Date field.
 *
 * @returns the instant as an ISO 8601 string in UTC (`1997-11-21T15:55:06.000Z`), or undefined
 *   where the value names none
 */
export function parseDate(value: string): string | undefined {
  const text = simplify(value);
  const date = (INTERNET.exec(text) ?? ASCTIME.exec(text) ?? ISO.exec(text))?.groups;
  const time = TIME.exec(date?.time ?? '')?.groups;
  if (!date || !time) return undefined;
  const year = fullYear(date.year ?? '');
  const month = monthOf(date.month ?? '');
  const day = Number(date.day);
  const hour = Number(time.hour);
  const minute = Number(time.minute);
  // A leap second (60) becomes the second before it; Date knows none.
  const second = Math.min(Number(time.second ?? 0), 59);
  if (hour > 23 || minute > 59 || Number(time.second ?? 0) > 60) return undefined;
  const local = new Date(0);
  local.setUTCFullYear(year, month, day);
  local.setUTCHours(hour, minute, second);
  // A day that the month does not have would roll over into the next.
  if (local.getUTCMonth() !== month || local.getUTCDate() !== day) return undefined;
  const instant = new Date(local.getTime() - zoneOffset(date.zone ?? time.zone) * 60_000);
  const isoYear = instant.getUTCFullYear();
  return isoYear >= 0 && isoYear <= 9999 ? instant.toISOString() : undefined;
}
