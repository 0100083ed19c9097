/** The indexes in which the operators' list of messages finds what its filters ask for. */
import {
  type DeliveryError,
  describeError,
  type OpenState,
  readUndelivered,
} from '../../mail/queue/queue.ts';
import { isOnWay, type RareEvent, readWay, type TraceWay } from '../../mail/trace/trace.ts';
import type { Database } from '../../platform/database/database.ts';
import type { EpochMs } from '../../platform/time/time.ts';
import { isWithin, type MessageFilter, type OpeningRow, rowFits } from './message-filter.ts';
import type { Message, MessageStatus } from './message-state.ts';

export interface MessageParts {
  readonly database: Pick<Database, 'read'>;
  readonly now: () => EpochMs;
}

/** A row of an index that names a message. */
export interface Found {
  readonly at: EpochMs;
  readonly id: number;
  readonly mailId: string;
}

/** Where a way continues. */
export type Position = Pick<Found, 'at' | 'id'>;

export interface Way {
  /** Rows in their order, after a position: those that may match, where the read ended, and whether there are more. */
  read(after: Position | undefined, limit: number): Promise<Step>;
  /** The newest position of a message on this way; undefined where it is not on it. */
  positionOf(message: Message): Position | undefined;
}

interface Step {
  readonly rows: readonly Found[];
  readonly last: Position | undefined;
  readonly isEnd: boolean;
  readonly read: number;
}

/** What deliveries are in for a status, and the rare events that show one. */
const OPEN: Partial<Record<MessageStatus, OpenState>> = {
  waiting: 'queued',
  deferred: 'queued',
  scheduled: 'queued',
  held: 'held',
  failed: 'failed',
};
const RARE: Partial<Record<MessageStatus, RareEvent>> = {
  refused: 'refused',
  deferred_by_us: 'deferred',
  bounced: 'bounced',
  dropped: 'dropped',
  cancelled: 'cancelled',
};

/** The indexes in which the messages of a filter are found: those that the fewest rows match. */
export function waysOf(parts: MessageParts, filter: MessageFilter): Way[] {
  const { messageId, sender, recipient, domain, statuses } = filter;
  const address = filter.account ?? filter.address;
  const trace = (way: TraceWay) => traceWay(parts, filter, way);
  if (messageId !== undefined) return [trace({ by: 'message_id', value: messageId })];
  if (sender !== undefined) return [trace({ by: 'sender', value: sender })];
  if (recipient !== undefined) return [trace({ by: 'recipient', value: recipient })];
  if (address !== undefined) {
    const either = ['sender', 'recipient'] as const;
    return either.map((by) => trace({ by, value: address }));
  }
  const found = statuses && statusWays(parts, filter, statuses);
  if (found) return found;
  return [trace(domain === undefined ? { by: 'time' } : { by: 'domain', value: domain })];
}

/** @returns undefined where a status has no index */
function statusWays(
  parts: MessageParts,
  filter: MessageFilter,
  statuses: readonly MessageStatus[],
): Way[] | undefined {
  const states = new Set<OpenState>();
  const events = new Set<RareEvent>();
  for (const status of statuses) {
    const state = OPEN[status];
    const event = RARE[status];
    if (state) states.add(state);
    if (event) events.add(event);
    if (!state && !event) return undefined;
  }
  const { domainIds } = filter;
  const ways = [...states].flatMap((state) =>
    (domainIds ?? [undefined]).map((domainId) => queueWay(parts, filter, { state, domainId })),
  );
  for (const value of events) ways.push(traceWay(parts, filter, { by: 'event', value }));
  return ways;
}

function traceWay({ database }: MessageParts, filter: MessageFilter, way: TraceWay): Way {
  const { since, until } = filter;
  // What happened to a message later may be after the span.
  const isLater = way.by === 'event' && way.value !== 'refused' && way.value !== 'deferred';
  const span = isLater ? { since } : { since, until };
  const isMeant = (row: OpeningRow) =>
    isOnWay(way, row) && isWithin(row.at, span) && rowFits(row, filter);
  return {
    async read(after, limit) {
      const rows = await readWay(database.read, way, { span, after, limit });
      const found = rows
        .filter(isMeant)
        .map(({ at, id, mail_id }) => ({ at, id, mailId: mail_id }));
      return { rows: found, last: rows.at(-1), isEnd: rows.length < limit, read: rows.length };
    },
    positionOf: ({ events }) => newestOf(events.filter(isMeant)),
  };
}

/** Clocks of nodes may differ so much; a message is queued after it was received. */
const SLACK_MS = 300_000;

function queueWay(
  { database, now }: MessageParts,
  { statuses = [], reason = '', since, until }: MessageFilter,
  position: { readonly state: OpenState; readonly domainId: number | undefined },
): Way {
  const { state, domainId } = position;
  const span = {
    since: since === undefined ? undefined : since - SLACK_MS,
    until: until === undefined ? undefined : until + SLACK_MS,
  };
  const isMeant = ({ attempts, dueAt, lastError }: Waiting) =>
    (state !== 'queued' || statuses.some((status) => mayBe(status, attempts, dueAt, now()))) &&
    (reason === '' ||
      (lastError ? describeError(lastError).toLowerCase().includes(reason) : false));
  return {
    async read(after, limit) {
      const hasErrors = reason !== '';
      const rows = await readUndelivered(database.read, {
        ...position,
        ...span,
        after,
        limit,
        hasErrors,
      });
      const found = rows.flatMap((row) => {
        const { createdAt: at, id, mailId } = row;
        const isFound = mailId !== undefined && isMeant(row);
        return isFound ? { at, id, mailId } : [];
      });
      const last = rows.at(-1);
      const isEnd = rows.length < limit;
      return {
        rows: found,
        last: last && { at: last.createdAt, id: last.id },
        isEnd,
        read: rows.length,
      };
    },
    positionOf: ({ deliveries }) =>
      newestOf(
        [...deliveries.values()]
          .filter((one) => one.status === state && one.domainId === (domainId ?? one.domainId))
          .filter((one) => isWithin(one.createdAt, span) && isMeant(one))
          .map(({ id, createdAt: at }) => ({ id, at })),
      ),
  };
}

/** What decides whether a waiting delivery is meant. */
interface Waiting {
  readonly attempts: number;
  readonly dueAt: EpochMs;
  readonly lastError?: DeliveryError | undefined;
}

function newestOf(positions: readonly Position[]): Position | undefined {
  const [first, ...others] = positions;
  return others.reduce((newest, one) => (newest && isAfter(one, newest) ? one : newest), first);
}

/** Whether a recipient of a queued delivery may have the status. */
function mayBe(status: MessageStatus, attempts: number, dueAt: EpochMs, now: EpochMs): boolean {
  if (status === 'waiting') return attempts === 0;
  if (status === 'scheduled') return attempts === 0 && dueAt > now;
  return status === 'deferred';
}

export function isAfter(position: Position, other: Position): boolean {
  return position.at > other.at || (position.at === other.at && position.id > other.id);
}
