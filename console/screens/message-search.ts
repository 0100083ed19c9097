/** What the search box of messages knows, and how it asks the API. */
import type { Qualifier, Search } from '../ui/search.ts';

const HOUR_MS = 3_600_000;

/** Times to choose from, by the name in the address. */
export const spans: readonly (readonly [name: string, label: string, ms?: number])[] = [
  ['', 'Any time'],
  ['1h', 'Last hour', HOUR_MS],
  ['6h', 'Last 6 hours', 6 * HOUR_MS],
  ['24h', 'Last 24 hours', 24 * HOUR_MS],
  ['7d', 'Last 7 days', 7 * 24 * HOUR_MS],
  ['30d', 'Last 30 days', 30 * 24 * HOUR_MS],
];

export const qualifiers: readonly Qualifier[] = [
  { name: 'to', hint: 'A recipient', example: 'ada@acme.test' },
  { name: 'from', hint: 'The sender', example: 'grace@elsewhere.test' },
  { name: 'account', hint: 'What an account sent and got', example: 'ada@acme.test' },
  { name: 'domain', hint: 'The domain whose mail it is', example: 'acme.test' },
  {
    name: 'is',
    hint: 'What became of it: delivered, waiting, deferred, held, bounced, failed, refused, deferred_by_us, dropped, cancelled, scheduled or partly; several with commas',
    example: 'deferred,held',
  },
  { name: 'reason', hint: 'Part of the newest answer', example: '"451 4.7.1"' },
  { name: 'dir', hint: 'In, or out for what accounts send', example: 'out', values: ['in', 'out'] },
  { name: 'subject', hint: 'Part of the subject (TRACE_SUBJECTS)', example: 'invoice' },
  { name: 'node', hint: 'The host that took it', example: 'mail-1' },
  { name: 'client', hint: 'The address that brought it', example: '192.0.2.1' },
  { name: 'after', hint: 'Not before this time', example: '2026-11-25T12:00' },
  { name: 'before', hint: 'Before this time', example: '2026-11-26' },
];

/** Their parameters; those of times are written otherwise. */
const parameters: Readonly<Record<string, string>> = {
  to: 'recipient',
  from: 'sender',
  account: 'account',
  domain: 'domain',
  is: 'status',
  reason: 'reason',
  dir: 'direction',
  subject: 'subject',
  node: 'node',
  client: 'client',
};

/** An id of a message: the screen opens it. */
export const isMessageId = (word: string) =>
  /^[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12}$/i.test(word);

interface Asked {
  readonly search: Search;
  /** Of {@link spans}. */
  readonly span: string;
}

/** The query of the API. A word is a Message-ID, an address, or a domain. */
export function toQuery({ search, span }: Asked, now: number): Record<string, string> {
  const query: Record<string, string> = {};
  const [, , ms] = spans.find(([name]) => name === span) ?? [];
  if (ms !== undefined) query.since = new Date(now - ms).toISOString();
  for (const { name, value, isNot } of search.terms) {
    const parameter = parameters[name];
    if (parameter) query[isNot ? `not_${parameter}` : parameter] = value;
    const at = parameter ? Number.NaN : Date.parse(withTime(value));
    if (!Number.isNaN(at)) query[name === 'after' ? 'since' : 'until'] = new Date(at).toISOString();
  }
  for (const word of search.words) query[parameterOf(word)] = word;
  return query;
}

/** Without a time of day, local midnight is meant. */
function withTime(value: string): string {
  return /^\d{4}-\d\d-\d\d$/.test(value) ? `${value}T00:00` : value;
}

function parameterOf(word: string): string {
  if (/^<.*>$/.test(word)) return 'message_id';
  if (word.includes('@')) return 'address';
  return word.includes('.') ? 'domain' : 'subject';
}
