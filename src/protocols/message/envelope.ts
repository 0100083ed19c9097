/**
 * The meaning of a message's header: its envelope (the ENVELOPE of RFC 3501 section 7.4.2, which is not the SMTP
 * envelope), its date, and the domains of its authors.
 */
import { Buffer } from 'node:buffer';
import { isIP } from 'node:net';
import type { EpochMs } from '../../platform/time/time.ts';
import { MAX_MAILBOXES, type Mailbox, readAddressList } from './address-lists.ts';
import { toDnsName } from './addresses.ts';
import { fieldValue, firstValue, type HeaderField, rawValue } from './header.ts';
import { cleanText, decodeRawHeader, decodeWords } from './text.ts';

/** Storable as JSON. A field that is not in the header is absent, except the subject. */
export interface Envelope {
  /** Instant of the Date field, ISO 8601 in UTC; absent where the field cannot be read. */
  readonly date?: string;
  /** `''` where there is none. */
  readonly subject: string;
  readonly from?: readonly Mailbox[];
  readonly sender?: readonly Mailbox[];
  readonly replyTo?: readonly Mailbox[];
  readonly to?: readonly Mailbox[];
  readonly cc?: readonly Mailbox[];
  readonly bcc?: readonly Mailbox[];
  /** As it stands in the field, angle brackets included. */
  readonly inReplyTo?: string;
  /** As it stands in the field, angle brackets included. */
  readonly messageId?: string;
}

const addressFields = [
  ['from', 'from'],
  ['sender', 'sender'],
  ['replyTo', 'reply-to'],
  ['to', 'to'],
  ['cc', 'cc'],
  ['bcc', 'bcc'],
] as const;

const idFields = [
  ['inReplyTo', 'in-reply-to'],
  ['messageId', 'message-id'],
] as const;

/**
 * Reads the fields of a header. The first of repeated fields counts; the mailboxes of repeated address fields
 * are joined (RFC 5322 section 3.6.3 allows each field once).
 */
export function readEnvelope(fields: readonly HeaderField[]): Envelope {
  const fieldOf = (name: string) => firstValue(fields, name) ?? '';
  const envelope: { -readonly [Field in keyof Envelope]: Envelope[Field] } = {
    subject: cleanText(decodeWords(decodeRawHeader(fieldOf('subject')))),
  };
  const date = parseDate(fieldOf('date'));
  if (date !== undefined) envelope.date = date;
  for (const [key, name] of addressFields) {
    const mailboxes = mailboxesOf(fields, name);
    if (mailboxes.length > 0) envelope[key] = mailboxes;
  }
  for (const [key, name] of idFields) {
    const id = cleanText(decodeRawHeader(fieldOf(name)));
    if (id !== '') envelope[key] = id;
  }
  return envelope;
}

function mailboxesOf(fields: readonly HeaderField[], name: string): Mailbox[] {
  const allowance = { mailboxes: MAX_MAILBOXES };
  const lists = fields.filter((field) => field.name === name);
  return lists.flatMap((field) => readAddressList(rawValue(field), allowance).mailboxes);
}

/** The domains of the From fields (RFC 7489 section 6.6.1). */
export interface Authors {
  /** Lower case, IDNA-encoded, each once, at most {@link MAX_AUTHOR_DOMAINS}. */
  readonly domains: readonly string[];
  /** Whether these are all; if not, the fields may show an author who is not among them. */
  readonly isWhole: boolean;
  /** Whether a From field has an address at all; without one nobody can be judged. */
  readonly hasAddress: boolean;
}

/** The most author domains that are read; mail by several authors has two or three. */
export const MAX_AUTHOR_DOMAINS = 3;

/** The domain of an address; an address literal counts where it could be read as a name. */
function domainsOf(address: string): string[] {
  const at = address.lastIndexOf('@');
  const text = address.slice(at + 1);
  const literal = /^\[(.*)\]$/.exec(text)?.[1];
  if (literal === undefined) return at < 0 ? [] : [toDnsName(text) ?? []].flat();
  return /^IPv6:/i.test(literal) || isIP(literal) !== 0 ? [] : namesBehindAts(`@${literal}`);
}

/** The names after every `@`, without white space around dots, and skipping other separators before them. */
const NAME_BEHIND_AT =
  /@[^@\p{L}\p{M}\p{N}_]*([\p{L}\p{M}\p{N}_-]+(?:\s*[.\u3002\uff61]\s*[\p{L}\p{M}\p{N}_-]+)*)/gu;

function namesBehindAts(text: string): string[] {
  return Array.from(text.matchAll(NAME_BEHIND_AT), ([, name = '']) => {
    const found = name.replace(/\s/g, '');
    // Where IDNA does not allow the name, a reader may show its start.
    return [toDnsName(found) ?? toDnsName(/^[\w.-]*/.exec(found)?.[0] ?? '') ?? []].flat();
  }).flat();
}

/** What readers leave out: control characters, invisible characters, folds, quotes. */
const LEFT_OUT = /\r?\n[ \t]*|[\p{C}\p{Default_Ignorable_Code_Point}"\\]/gu;

/** The text without comments, also nested ones; a comment without an end includes the rest. */
function withoutComments(text: string): string {
  let depth = 0;
  let kept = '';
  for (const character of text) {
    if (character === '(') depth++;
    if (depth === 0) kept += character;
    if (character === ')' && depth > 0) depth--;
  }
  return kept;
}

/**
 * All readings of a field that breaks the syntax: bytes that are not UTF-8 as text or left out, encoded words
 * decoded or not, comments removed or not, invisible characters dropped or as separators.
 */
function readingsOf(value: string): Set<string> {
  const decoded = [decodeRawHeader(value), Buffer.from(value, 'latin1').toString()];
  return new Set(
    decoded
      .flatMap((text) => [text, decodeWords(text)])
      .map((text) => text.normalize('NFKC'))
      .flatMap((text) => [text, withoutComments(text)])
      .flatMap((text) => [text.replace(LEFT_OUT, ''), text.replace(LEFT_OUT, ',')]),
  );
}

/** Octets of one From field, and the number of From fields, that are read; RFC 5322 section 3.6 allows one. */
const MAX_FROM = 8 * 1024;
const MAX_FROM_FIELDS = 10;

function authorsIn(value: string): Authors {
  const { mailboxes, isExact } = readAddressList(value);
  const shown = mailboxes.flatMap(({ address }) => domainsOf(address));
  const hasAddress = mailboxes.some(({ address }) => address.includes('@'));
  if (isExact) return { domains: shown, isWhole: true, hasAddress };
  const found = Array.from(readingsOf(value), (text) => ({ text, names: namesBehindAts(text) }));
  return {
    domains: [...shown, ...found.flatMap(({ names }) => names)],
    isWhole: found.every(({ text, names }) => names.length > 0 || !text.includes('@')),
    hasAddress,
  };
}

/**
 * Finds the author domains. A field that follows the syntax (RFC 5322 section 3.6.2) has the domains of its
 * mailboxes; none where it has no mailbox. Any other field has every domain that a reader could show for it: a
 * sender who writes so that readers disagree is judged by all of them. A field that looks like an address, but
 * names no domain in any reading, is not whole (RFC 7489 section 6.6.1 lets the receiver refuse such forms).
 *
 * @param values of all From fields, one character per byte, folded or not
 */
export function findAuthors(values: readonly string[]): Authors {
  const domains = new Set<string>();
  let isWhole = values.length <= MAX_FROM_FIELDS;
  let hasAddress = false;
  for (const value of values.slice(0, MAX_FROM_FIELDS)) {
    const found = value.length > MAX_FROM ? undefined : authorsIn(value);
    isWhole &&= found?.isWhole ?? false;
    hasAddress ||= found?.hasAddress ?? false;
    for (const domain of found?.domains ?? []) domains.add(domain);
  }
  const all = [...domains];
  return {
    domains: all.slice(0, MAX_AUTHOR_DOMAINS),
    isWhole: isWhole && all.length <= MAX_AUTHOR_DOMAINS,
    hasAddress,
  };
}

/** A line end after which neither a fold nor the next field begins: readers differ on what follows. */
const STRAY = /[\r\n](?![\n \t])/;

/**
 * The names, in lower case, of lines of a header that are no fields here, but are for a reader that leaves out what it
 * cannot show (`From\0:`, a byte order mark), or that ends lines at a bare CR.
 */
export function hiddenFields(fields: readonly HeaderField[]): string[] {
  return fields.flatMap(({ name, text }) => {
    // Text before the first field is judged whole; the first line of a field is what we read too.
    if (name !== '' && !STRAY.test(text)) return [];
    const lines = text.split(/\r?\n|\r/).slice(name === '' ? 0 : 1);
    const names = lines.map((line) => /^[^ \t:][^:]*(?=:)/.exec(line)?.[0] ?? '');
    return names.map((found) => found.replace(/[^!-~]/g, '').toLowerCase()).filter(Boolean);
  });
}

/** The most characters of a Date field that are read: enough for every form of date with its comments. */
const MAX_LENGTH = 200;

const months = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'];

/**
 * Hours east of UTC of the named zones of RFC 5322 section 4.3. Any other name, also the single letters of the
 * military zones, is unreliable and counts as UTC, as the RFC asks.
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

/** `09:55:06.000 -0600`; text after a zone is ignored. */
const TIME =
  /^(?<hour>\d{1,2}) ?: ?(?<minute>\d\d)(?: ?: ?(?<second>\d\d))?(?:[.,]\d+)? ?(?<zone>[+-]\d\d:?\d\d|[a-z]+)?/i;

/** Minutes east of UTC; no zone at all counts as UTC. */
function zoneOffset(zone: string | undefined): number {
  const numeric = /^([+-])(\d\d):?(\d\d)$/.exec(zone ?? '');
  if (!numeric) return (zones.get((zone ?? '').toLowerCase()) ?? 0) * 60;
  const minutes = Number(numeric[2]) * 60 + Number(numeric[3]);
  return numeric[1] === '-' ? -minutes : minutes;
}

/** Years of two and three digits (RFC 5322 section 4.3). */
function fullYear(digits: string): number {
  const year = Number(digits);
  if (digits.length === 2) return year < 50 ? year + 2000 : year + 1900;
  return digits.length === 3 ? year + 1900 : year;
}

function monthOf(text: string): number {
  const month = months.indexOf(text.toLowerCase());
  return month >= 0 ? month : Number(text) - 1;
}

/** Removes comments, nested ones from the inside out, and turns each run of white space into one space. */
function simplify(value: string): string {
  let text = value.slice(0, MAX_LENGTH);
  for (let before = ''; before !== text; ) {
    before = text;
    text = text.replace(/\([^()]*\)/g, ' ');
  }
  return text.replace(/\s+/g, ' ').trim();
}

/** A date as RFC 5322 section 3.3 has it, in UTC. */
export function formatDate(at: EpochMs): string {
  return new Date(at).toUTCString().replace(/GMT$/, '+0000');
}

/**
 * Reads the value of a Date field.
 *
 * @param zone `ignored`: the day and hour are those that were written, as if in UTC
 * @returns the instant as an ISO 8601 string in UTC (`1997-11-21T15:55:06.000Z`), or undefined where the value
 *   names none
 */
export function parseDate(value: string, zone?: 'ignored'): string | undefined {
  const text = simplify(value);
  const date = (INTERNET.exec(text) ?? ASCTIME.exec(text) ?? ISO.exec(text))?.groups;
  const time = TIME.exec(date?.time ?? '')?.groups;
  if (!date || !time) return undefined;
  const year = fullYear(date.year ?? '');
  const month = monthOf(date.month ?? '');
  const day = Number(date.day);
  const hour = Number(time.hour);
  const minute = Number(time.minute);
  // A leap second (60) becomes the second before it: Date has no leap seconds.
  const second = Math.min(Number(time.second ?? 0), 59);
  if (hour > 23 || minute > 59 || Number(time.second ?? 0) > 60) return undefined;
  const local = new Date(0);
  local.setUTCFullYear(year, month, day);
  local.setUTCHours(hour, minute, second);
  // A day that the month does not have would roll over into the next.
  if (local.getUTCMonth() !== month || local.getUTCDate() !== day) return undefined;
  const offset = zone === 'ignored' ? 0 : zoneOffset(date.zone ?? time.zone);
  const instant = new Date(local.getTime() - offset * 60_000);
  const isoYear = instant.getUTCFullYear();
  return isoYear >= 0 && isoYear <= 9999 ? instant.toISOString() : undefined;
}

/* The ids of earlier messages that a message names (RFC 5322 section 3.6.4). */

/** The most ids that are read of a message: the first, which began the conversation, and the last ones. */
const IDS_MAX = 50;

/** `msg-id`, leniently: any text between angle brackets without white space. */
const MESSAGE_ID = /<([^<>\s]{1,998})>/;
const MESSAGE_IDS = new RegExp(MESSAGE_ID, 'g');

/** The first id in a field, without angle brackets. */
export function readMessageId(field: string): string | undefined {
  return MESSAGE_ID.exec(field)?.[1];
}

/** The ids in a field, without angle brackets, each once, in order. */
function readMessageIds(field: string): string[] {
  const ids = [...new Set(Array.from(field.matchAll(MESSAGE_IDS), ([, id = '']) => id))];
  return ids.length <= IDS_MAX ? ids : [...ids.slice(0, 1), ...ids.slice(1 - IDS_MAX)];
}

/**
 * The ids that References names: the first message of the conversation first, and the answered one last. Where
 * there is no such field, those of In-Reply-To.
 */
export function readReferences(fields: readonly HeaderField[]): string[] {
  for (const name of ['references', 'in-reply-to']) {
    const field = fields.find((one) => one.name === name);
    const ids = field ? readMessageIds(decodeRawHeader(fieldValue(field))) : [];
    if (ids.length > 0) return ids;
  }
  return [];
}
