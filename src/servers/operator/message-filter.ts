/** The filters of the operators' list of messages: what they say of a row of the trace, and of a message as a whole. */
import type { TraceRow } from '../../mail/trace/trace.ts';
import type { EpochMs } from '../../platform/time/time.ts';
import type { Message, MessageStatus } from './message-state.ts';

/** Filters; one that is left out matches all. Addresses are in lower case. */
export interface MessageFilter {
  readonly recipient?: string | undefined;
  readonly sender?: string | undefined;
  /** Sender or recipient. */
  readonly address?: string | undefined;
  /** The same of an account's address: both must match where both are given. */
  readonly account?: string | undefined;
  readonly messageId?: string | undefined;
  readonly domain?: string | undefined;
  readonly domainIds?: readonly number[] | undefined;
  readonly statuses?: readonly MessageStatus[] | undefined;
  readonly direction?: 'in' | 'out' | undefined;
  readonly node?: string | undefined;
  readonly client?: string | undefined;
  /** Part of it, in lower case. */
  readonly subject?: string | undefined;
  /** Part of the newest answer, in lower case. */
  readonly reason?: string | undefined;
  readonly since?: EpochMs | undefined;
  /** Not included. */
  readonly until?: EpochMs | undefined;
  /** What must not match. */
  readonly not?: Omit<MessageFilter, 'not' | 'since' | 'until'> | undefined;
}

/** Filters that an index answers alone. */
const INDEXED = ['recipient', 'sender', 'address', 'account', 'messageId', 'domain', 'statuses'];
const OF_SPAN = ['since', 'until', 'domainIds'];

/** Whether few of the rows that are found may match. */
export function isPicky(filter: MessageFilter): boolean {
  const given = Object.entries(filter)
    .filter(([name, value]) => value !== undefined && !OF_SPAN.includes(name))
    .map(([name]) => name);
  return given.length > 1 || given.some((name) => !INDEXED.includes(name));
}

export function isWithin(
  at: EpochMs,
  { since, until }: Pick<MessageFilter, 'since' | 'until'>,
): boolean {
  return at >= (since ?? 0) && at < (until ?? Number.POSITIVE_INFINITY);
}

export type OpeningRow = Omit<TraceRow, 'subject'> & { readonly subject?: string | null };

/** What a row says against the filters; rows that do not begin a message say nothing. */
export function rowFits(row: OpeningRow, filter: MessageFilter): boolean {
  if (row.sender === null) return true;
  const equal = (value: string | undefined, found: string | null) =>
    value === undefined || value === found;
  const { direction, subject } = filter;
  const isParty = (address: string | undefined) =>
    address === undefined || address === row.sender || address === row.recipient;
  return (
    equal(filter.sender, row.sender) &&
    equal(filter.recipient, row.recipient) &&
    equal(filter.messageId, row.message_id) &&
    equal(filter.domain, row.domain) &&
    equal(filter.client, row.client) &&
    equal(filter.node, row.node) &&
    isParty(filter.address) &&
    isParty(filter.account) &&
    (direction === undefined || (direction === 'out') === (row.event === 'submitted')) &&
    (subject === undefined || (row.subject?.toLowerCase().includes(subject) ?? false))
  );
}

export function fits(message: Message, filter: MessageFilter): boolean {
  const { not } = filter;
  if (!isWithin(message.at, filter) || !hasAll(message, filter)) return false;
  return !not || !hasAny(message, not);
}

function hasAll(message: Message, filter: Omit<MessageFilter, 'not'>): boolean {
  const { statuses, reason } = filter;
  if (statuses && !statuses.some((status) => hasStatus(message, status))) return false;
  if (reason !== undefined && !hasReason(message, reason)) return false;
  // One row has all that is asked of rows.
  return message.events.some((event) => event.sender !== null && rowFits(event, filter));
}

function hasAny(message: Message, not: Omit<MessageFilter, 'not'>): boolean {
  return Object.entries(not).some(
    ([name, value]) => value !== undefined && hasAll(message, { [name]: value }),
  );
}

/** Of any recipient: one who bounced makes the message one of those that bounced. */
function hasStatus({ status, counts }: Message, asked: MessageStatus): boolean {
  return status === asked || (asked !== 'partly' && (counts[asked] ?? 0) > 0);
}

function hasReason({ recipients }: Message, reason: string): boolean {
  return recipients.some((one) => one.reason?.toLowerCase().includes(reason) ?? false);
}
