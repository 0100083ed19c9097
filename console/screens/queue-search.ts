/** The search box of the queue: what it knows, and what the API is asked for. */
import type { Qualifier, Search, Term } from '../ui/search.ts';

export const qualifiers: readonly Qualifier[] = [
  { name: 'to', hint: 'The receiver, with its whole name', example: 'https://hooks.acme.test' },
  { name: 'from', hint: 'From whom the message is', example: 'ada@acme.test' },
  { name: 'account', hint: 'The account whose mail it is', example: 'ada@acme.test' },
  { name: 'domain', hint: 'The domain whose mail it is', example: 'acme.test' },
  {
    name: 'kind',
    hint: 'What is done',
    example: 'webhook',
    values: ['webhook', 'forward', 'send', 'bounce', 'mailbox', 'copy', 'event'],
  },
  {
    name: 'is',
    hint: 'Its state; waiting is queued and held together',
    example: 'held',
    values: ['waiting', 'queued', 'held', 'failed'],
  },
  { name: 'reason', hint: 'A part of the reason', example: 'greylisted' },
  { name: 'older', hint: 'Queued at least so long ago', example: '1h' },
  { name: 'next', hint: 'The next attempt within so long', example: '10m' },
];

export type QueueQuery = Readonly<Record<string, string>>;

const names: Readonly<Record<string, string>> = {
  to: 'destination',
  from: 'sender',
  account: 'account',
  domain: 'domain',
  kind: 'kind',
  is: 'status',
  reason: 'reason',
  older: 'older_than',
  next: 'due_within',
};

const seconds: Readonly<Record<string, number>> = { s: 1, m: 60, h: 3_600, d: 86_400 };

/** `1h` in seconds; undefined where it is no span. */
function readSpan(value: string): string | undefined {
  const [, amount, unit = ''] = /^[<>]?(\d{1,5})(s|m|h|d)$/.exec(value) ?? [];
  return amount === undefined ? undefined : String(Number(amount) * (seconds[unit] ?? 0));
}

function readTerm({ name, value, isNot }: Term): readonly [string, string] | string {
  if (isNot) return `-${name}: is not possible here.`;
  const span = name === 'older' || name === 'next';
  const read = span ? readSpan(value) : value;
  if (read === undefined) return `${name}: is a span such as 10m, 1h or 2d.`;
  return [names[name] ?? name, read];
}

/**
 * What the API is asked for.
 *
 * @returns why it cannot be asked: an order must not take more than was meant
 */
export function toQuery({ terms, words, problem }: Search): {
  readonly query: QueueQuery;
  readonly problem?: string;
} {
  const read = terms.map(readTerm);
  const wrong = problem ?? read.find((one) => typeof one === 'string');
  if (wrong !== undefined) return { query: {}, problem: wrong };
  const found = read.filter((one) => typeof one !== 'string');
  const text = words.join(' ');
  return { query: { ...Object.fromEntries(found), ...(text !== '' && { q: text }) } };
}

/** The text of a search with other values for some terms; an empty value takes a term away. */
export function rewrite({ terms, words }: Search, changes: QueueQuery): string {
  const kept = terms
    .filter(({ name }) => !(name in changes))
    .map(({ name, value }) => [name, value]);
  const all = [...kept, ...Object.entries(changes)].filter(([, value]) => value !== '');
  const written = all.map(([name, value = '']) =>
    /[\s"]/.test(value) || value.includes('//') ? `${name}:"${value}"` : `${name}:${value}`,
  );
  return [...written, ...words].join(' ');
}
