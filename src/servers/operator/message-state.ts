/** What became of a message and of each of its recipients: from the events of the trace and the deliveries as they are now. */
import { describeError, type KnownDelivery } from '../../mail/queue/queue.ts';
import { ROWS_MAX, type TraceItem } from '../../mail/trace/trace.ts';
import type { EpochMs } from '../../platform/time/time.ts';

/** The states of a recipient, the worst first: a recipient with several deliveries has the worst of theirs. */
export const recipientStatuses = [
  'failed',
  'bounced',
  'dropped',
  'held',
  'deferred',
  'waiting',
  'scheduled',
  'refused',
  'deferred_by_us',
  'cancelled',
  'delivered',
] as const;
export type RecipientStatus = (typeof recipientStatuses)[number];
/** `partly`: the recipients have different states. */
export type MessageStatus = RecipientStatus | 'partly';

export interface RecipientState {
  /** Undefined where the message was refused before any was named. */
  readonly address: string | undefined;
  readonly status: RecipientStatus;
  /** What was answered last, or where it is. */
  readonly reason: string | undefined;
  /** When that was. */
  readonly at: EpochMs;
  /** Those that have not ended, and that failed. */
  readonly deliveries: readonly number[];
}

export interface Message {
  readonly id: string;
  readonly at: EpochMs;
  readonly direction: 'in' | 'out';
  readonly status: MessageStatus;
  readonly counts: Partial<Record<RecipientStatus, number>>;
  readonly recipients: readonly RecipientState[];
  /** Of the row that begins it; the deliveries of a bounce that came from here have none. */
  readonly opening: TraceItem | undefined;
  readonly events: readonly TraceItem[];
  /** Whether it has more events than are read. */
  readonly isCut: boolean;
  /** By id; those that are still listed. */
  readonly deliveries: ReadonlyMap<number, KnownDelivery>;
  readonly nextAttemptAt: EpochMs | undefined;
  /** The newest answer about a recipient who does not have it. */
  readonly reason: string | undefined;
}

/** What one delivery, or a mailbox, did for a recipient. */
interface Track {
  status: RecipientStatus;
  reason: string | undefined;
  at: EpochMs;
  readonly deliveryId: number | undefined;
}

/** By delivery, `stored` or `answered`. */
type Tracks = Map<number | string, Track>;

/** The deliveries that the events of a message name. */
export function deliveriesOf(events: readonly TraceItem[]): number[] {
  const ids = events.flatMap(({ delivery_id: id }) => id ?? []);
  return [...new Set(ids)];
}

/** @param events at least one, the oldest first */
export function messageOf(
  id: string,
  events: readonly TraceItem[],
  deliveries: ReadonlyMap<number, KnownDelivery>,
  now: EpochMs,
): Message {
  const openings = events.filter(({ sender }) => sender !== null);
  // One that was refused before its message came does not have the Message-ID.
  const opening = openings.find(({ message_id }) => message_id !== null) ?? openings[0];
  const byAddress = new Map<string | undefined, Tracks>();
  const named = openings.length > 0 ? openings.map(({ recipient }) => recipient) : namesIn(events);
  for (const address of named) byAddress.set(address ?? undefined, new Map());
  for (const event of events) follow(byAddress, event);
  const recipients = [...byAddress].map(([address, tracks]) =>
    stateOf(address, [...tracks.values()], { deliveries, now, at: opening?.at ?? 0 }),
  );
  const counts: Partial<Record<RecipientStatus, number>> = {};
  for (const { status } of recipients) counts[status] = (counts[status] ?? 0) + 1;
  const [status = 'delivered', ...others] = Object.keys(counts) as RecipientStatus[];
  const missing = recipients.filter((one) => one.status !== 'delivered');
  const newest = missing.toSorted((a, b) => b.at - a.at).find(({ reason }) => reason !== undefined);
  const nexts = [...deliveries.values()].flatMap(({ nextAttemptAt }) => nextAttemptAt ?? []);
  return {
    id,
    at: (openings[0] ?? events[0])?.at ?? 0,
    direction: opening?.event === 'submitted' ? 'out' : 'in',
    status: others.length > 0 ? 'partly' : status,
    counts,
    recipients,
    opening,
    events,
    isCut: events.length >= ROWS_MAX,
    deliveries,
    nextAttemptAt: nexts.length > 0 ? Math.min(...nexts) : undefined,
    reason: newest?.reason,
  };
}

function namesIn(events: readonly TraceItem[]): (string | null)[] {
  return events.flatMap(({ recipient }) => recipient?.split(', ') ?? []);
}

const ATTEMPTED: Readonly<Record<string, RecipientStatus>> = {
  delivered: 'delivered',
  deferred: 'deferred',
  failed: 'failed',
  expired: 'failed',
  held: 'held',
};

/** Notes one event for the recipients that it is about. */
function follow(byAddress: ReadonlyMap<string | undefined, Tracks>, event: TraceItem): void {
  const { event: name, delivery_id: deliveryId } = event;
  if (name === 'received' || name === 'reported') return;
  for (const tracks of concerned(byAddress, event)) {
    if (name === 'cancelled') {
      for (const track of tracks.values()) Object.assign(track, { status: name, at: event.at });
      continue;
    }
    const key = deliveryId ?? (name === 'stored' ? name : 'answered');
    const known = tracks.get(key);
    // A bounce of ours on its way back: its attempts tell nothing about who was to get the message.
    if (!known && name === 'bounce_attempt') continue;
    const status = statusAfter(event, known?.status);
    // A server that took the message may report later that it did not bring it.
    const later = known?.status === 'delivered' && name === 'bounced' ? event.detail : undefined;
    const reason = reasonOf(event) ?? later ?? known?.reason;
    tracks.set(key, { status, reason, at: event.at, deliveryId: deliveryId ?? undefined });
  }
}

function statusAfter(event: TraceItem, before: RecipientStatus | undefined): RecipientStatus {
  switch (event.event) {
    case 'refused':
      return 'refused';
    case 'deferred':
      return 'deferred_by_us';
    case 'stored':
      return 'delivered';
    case 'held':
    case 'dropped':
      return before === 'delivered' ? before : event.event;
    case 'bounced':
      return before === 'dropped' ? before : 'bounced';
    case 'submitted':
    case 'queued':
    case 'retried':
      return 'waiting';
    case 'released':
      return before === 'held' ? 'waiting' : (before ?? 'waiting');
    default:
      return ATTEMPTED[event.status ?? ''] ?? before ?? 'waiting';
  }
}

/** What the event says to people; of orders and of what was only queued nothing is of interest. */
function reasonOf({ event, status, detail }: TraceItem): string | undefined {
  if (event === 'refused' || event === 'deferred')
    return [status, detail].filter(Boolean).join(' ');
  if (event === 'stored' || event.endsWith('_attempt')) return detail ?? undefined;
  return undefined;
}

/** The recipients that an event is about: an account stands for its addresses with a tag. */
function concerned(
  byAddress: ReadonlyMap<string | undefined, Tracks>,
  { recipient, delivery_id: id }: TraceItem,
): Tracks[] {
  const names = new Set(recipient?.split(', ') ?? []);
  const matches = [...byAddress].filter(
    ([address = '']) => names.has(address) || names.has(withoutTag(address)),
  );
  if (matches.length > 0) return matches.map(([, tracks]) => tracks);
  const all = [...byAddress.values()];
  const own = id === null ? [] : all.filter((tracks) => tracks.has(id));
  return own.length > 0 ? own : all;
}

function withoutTag(address: string): string {
  return address.replace(/\+[^@]*(?=@)/, '');
}

interface Surroundings {
  readonly deliveries: ReadonlyMap<number, KnownDelivery>;
  readonly now: EpochMs;
  readonly at: EpochMs;
}

function stateOf(
  address: string | undefined,
  tracks: readonly Track[],
  { deliveries, now, at }: Surroundings,
): RecipientState {
  const current = tracks.map((track) => {
    const delivery = track.deliveryId === undefined ? undefined : deliveries.get(track.deliveryId);
    return delivery ? withDelivery(track, delivery, now) : track;
  });
  const [worst] = current.toSorted(
    (a, b) => recipientStatuses.indexOf(a.status) - recipientStatuses.indexOf(b.status),
  );
  const open = current.filter((track) => isOpen(track, deliveries));
  return {
    address,
    status: worst?.status ?? 'delivered',
    reason: worst?.reason,
    at: worst?.at ?? at,
    deliveries: open.flatMap(({ deliveryId }) => deliveryId ?? []),
  };
}

/** Whether something can still be done for this recipient: not where only others wait for the same delivery. */
function isOpen({ status, deliveryId = 0 }: Track, deliveries: Surroundings['deliveries']) {
  const isWaiting = ['waiting', 'scheduled', 'deferred', 'held'].includes(status);
  return isWaiting || (status !== 'delivered' && deliveries.get(deliveryId)?.status === 'failed');
}

/** A delivery for several recipients may wait for some of them only: who has an end keeps it. */
function withDelivery(track: Track, delivery: KnownDelivery, now: EpochMs): Track {
  if (!['waiting', 'deferred', 'held'].includes(track.status)) return track;
  const { lastError } = delivery;
  const reason = track.reason ?? (lastError && describeError(lastError));
  if (delivery.status !== 'queued') return { ...track, reason, status: delivery.status };
  if (delivery.attempts > 0) return { ...track, reason, status: 'deferred' };
  if (track.status === 'deferred') return track;
  const isLater = !delivery.isTried && delivery.dueAt > now;
  return { ...track, status: isLater ? 'scheduled' : 'waiting' };
}
