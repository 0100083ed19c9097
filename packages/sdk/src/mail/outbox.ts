/** The queue of the user's changes: which may go now, as what request, and what an answer makes of them. Pure. */
import type { MessageId } from './client.ts';
import type { NewOperation } from './copy.ts';
import { type Place, placesOf } from './fold.ts';
import {
  bySeq,
  isLive,
  isWaiting,
  localId,
  MAX_IDS,
  type NamedPart,
  type OperationRow,
  type Reading,
  readLocalId,
  readLocalPart,
  type StoredError,
} from './rows.ts';

export interface Outbox {
  /** In their order. */
  readonly operations: readonly OperationRow[];
  readonly placeOf: (name: string, box: number | undefined) => Place;
  /** Changes up to this one go whatever happens here: somebody else has them, too. */
  readonly sharedUpTo: number;
}

/**
 * The batches that may go at once: the first of each lane. A mailbox is a lane; each mail that is sent is one of its
 * own, so that one which fails holds up no other; what makes, renames and deletes mailboxes shares one.
 */
export function nextBatches(outbox: Outbox): OperationRow[][] {
  const { operations, placeOf } = outbox;
  const pairs = cancellingPairs(outbox);
  const { isPending, isLost, follow } = readNeeds(operations, pairs);
  const lanes = new Map<Place, OperationRow[]>();
  const closed = new Set<Place>();
  /** Mailboxes that earlier changes use, and those that they make, rename or delete, until the list is as they made it. */
  const used = new Set<string>();
  const remade = new Set<string>();
  for (const operation of operations.filter(isLive)) {
    const { kind, mailbox, to, state } = operation;
    // What the list shows already, holds nobody up; nor do changes of messages that the server has.
    if (state === 'acked' && kind !== 'mailbox') continue;
    const names = to === undefined ? [mailbox] : [mailbox, to];
    const isBarred = names.some(
      (name) => remade.has(name) || (kind === 'mailbox' && used.has(name)),
    );
    for (const name of names) (kind === 'mailbox' ? remade : used).add(name);
    const needed = follow(operation.needs ?? 0);
    // What ends, or is made into a draft, does so first.
    if (pairs.has(operation.seq) || state === 'acked' || isLost(needed)) continue;
    const lane = laneOf(operation, placeOf);
    const batch = lanes.get(lane);
    // The files of a draft that never goes are where it had them from.
    const needs = [needed, ...seqsOf(operation).filter((seq) => !pairs.has(seq))];
    const isReady = !needs.some(isPending);
    // What it needs comes after it, and must not wait for it.
    if (!isReady && needed > operation.seq) continue;
    if (!closed.has(lane) && !isBarred && isReady && (!batch || mayJoin(batch, operation))) {
      if (batch) batch.push(operation);
      else lanes.set(lane, [operation]);
    } else closed.add(lane);
  }
  return [...lanes.values()];
}

/**
 * Operations that never have to go: each was taken back before it went, and nothing came between. What is shown does not
 * ask: a message has the id that the changes give it until the leader ended them, since one that comes meanwhile makes them go.
 *
 * @returns their seqs, with those of what takes them back
 */
function cancellingPairs({ operations, placeOf, sharedUpTo }: Outbox): ReadonlySet<number> {
  const pairs = new Set<number>();
  for (const inverse of operations) {
    const target = bySeq(inverse.inverseOf, operations);
    if (inverse.state !== 'queued' || target?.state !== 'queued') continue;
    const { seq, kind, ids } = target;
    if (seq <= sharedUpTo) continue;
    const places = new Set(placesOf(target, placeOf));
    const isBetween = (one: OperationRow) => {
      // Where its messages are is not known yet: they would have no name.
      if (one.seq <= seq)
        return isWaiting(one) && ids.some((id) => readLocalId(id).seq === one.seq);
      if (one === inverse || kind === 'send' || !isLive(one)) return false;
      // Another draft may have its files all the same.
      if (kind === 'append') return refsOf(one, isFixed).includes(localId(seq, 0));
      return placesOf(one, placeOf).some((place) => places.has(place));
    };
    if (!operations.some(isBetween)) pairs.add(seq).add(inverse.seq);
  }
  return pairs;
}

export function laneOf(operation: OperationRow, placeOf: Outbox['placeOf']): Place {
  if (operation.kind === 'send') return `send ${operation.seq}`;
  if (operation.kind === 'mailbox') return 'mailboxes';
  const place = placeOf(operation.mailbox, operation.box);
  return typeof place === 'number' ? place : `mailbox ${place}`;
}

/** Neighbours of one kind go in one request. What went together before, goes together again. */
function mayJoin(batch: readonly OperationRow[], next: OperationRow): boolean {
  const [first] = batch;
  if (!first || first.kind !== next.kind || first.state !== next.state) return false;
  if (first.state === 'inflight') return first.batch === next.batch;
  const isJoinable = first.kind === 'flag' || first.kind === 'move' || first.kind === 'delete';
  const count = batch.reduce((sum, { ids }) => sum + ids.length, next.ids.length);
  const what = ({ uidvalidity, to, add, remove }: OperationRow) =>
    JSON.stringify([uidvalidity, to, add, remove]);
  return isJoinable && count <= MAX_IDS && what(first) === what(next);
}

/** Messages that mail names. */
function namedBy({ mail = {} }: OperationRow, isWanted = (_: NamedPart): boolean => true) {
  const files = mail.attachments?.flatMap(({ from }) => (from && isWanted(from) ? from : [])) ?? [];
  return [mail.draft, mail.inReplyTo, ...files].flatMap((one) => one ?? []);
}

/** Whether a file is at the server: one of a draft that waits is found without it. */
const isFixed = ({ part }: NamedPart) => readLocalPart(part) === undefined;

/** Messages that a request of it names. */
function refsOf(one: OperationRow, isWanted?: (file: NamedPart) => boolean): MessageId[] {
  return [...one.ids, ...namedBy(one, isWanted).map(({ id }) => id)];
}

/** The changes that make these. */
const seqsOf = (one: OperationRow) => refsOf(one).map((id) => readLocalId(id).seq);

/** What changes need, also where that was written in place of others: of drafts, the last one. */
function readNeeds(operations: readonly OperationRow[], pairs: ReadonlySet<number>) {
  const states = new Map(operations.map(({ seq, state }) => [seq, state]));
  // What is not kept any more ended long ago.
  const isIn = (seq: number, ...some: readonly OperationRow['state'][]) =>
    some.includes(states.get(seq) ?? 'done');
  const isBack = (seq: number) => pairs.has(seq) || isIn(seq, 'cancelled');
  /** By those that were taken back: what takes their place. */
  const takers = new Map<number, number>();
  for (const { seq, inverseOf = seq, needs = inverseOf } of operations)
    if (needs !== inverseOf && isBack(seq) && isBack(inverseOf)) takers.set(inverseOf, needs);
  const isPending = (seq: number) => isIn(seq, 'queued', 'inflight');
  /** Whether it was refused, or taken back with nothing in its place: what needs it can never be carried out. */
  const isLost = (seq: number) =>
    !takers.has(seq) && isIn(seq, 'rejected', 'cancelled', 'uncertain');
  const follow = (needs: number): number => {
    const taker = takers.get(needs);
    return taker === undefined || isLost(taker) ? needs : follow(taker);
  };
  return { takers, isPending, isLost, follow };
}

/**
 * What ends without going: what needs something that is lost, and what was taken back. A draft whose place another one takes
 * is kept until that is at the server, since it may be refused; of several that wait, only the one before the last.
 */
export function endings(outbox: Outbox): OperationRow[] {
  const { operations } = outbox;
  const pairs = cancellingPairs(outbox);
  const { takers, isPending, isLost, follow } = readNeeds(operations, pairs);
  const isNeeded = (taker: number) =>
    operations.some(({ needs, state }) => needs === taker && state === 'queued');
  return operations.filter(({ seq, state, needs = 0, inverseOf = seq }) => {
    if (state === 'queued' && isLost(follow(needs))) return true;
    const taker = takers.get(seq) ?? takers.get(inverseOf) ?? 0;
    // One that is lost keeps it while what takes it back needs that one: then it goes after all.
    const isKept = isPending(taker) || (isLost(taker) && isNeeded(taker));
    return pairs.has(seq) && (takers.has(taker) || !isKept);
  });
}

/**
 * What a batch leaves when its answer came.
 *
 * @param awaits what it changed, where the copy has it or is going to have it
 */
export function acked(
  operation: OperationRow,
  answer: Partial<OperationRow>,
  awaits: readonly Reading[],
): OperationRow {
  const { request: _, ...kept } = operation;
  return settle({ ...kept, ...answer, awaits, state: 'acked' });
}

/** What was read shows it by itself now. */
export function settledIn(operation: OperationRow, read: Reading): OperationRow {
  return settle({ ...operation, awaits: operation.awaits?.filter((one) => one !== read) ?? [] });
}

function settle(operation: OperationRow): OperationRow {
  if (operation.awaits?.length) return operation;
  const { shown: _, ...kept } = operation;
  return { ...kept, state: 'done' };
}

/** It ends without having been carried out. */
export function ended(
  operation: OperationRow,
  state: 'rejected' | 'cancelled' | 'uncertain',
  error?: StoredError,
): OperationRow {
  const { shown, request: _, ...kept } = operation;
  // Mail can be a draft again.
  return { ...kept, shown: kept.mail && shown, state, error };
}

/** Whether it was not carried out. */
export const isOver = ({ state }: OperationRow): boolean =>
  state === 'rejected' || state === 'cancelled';

/** The first that takes a change back, and was not refused itself. */
export const takerOf = (
  seq: number | undefined,
  operations: readonly OperationRow[],
): OperationRow | undefined => operations.find((one) => one.inverseOf === seq && !isOver(one));

/** Whether it was refused and is not settled. A draft that takes a mail back is told of as that mail. */
export const isUnsettled = (row: OperationRow, all: readonly OperationRow[]): boolean =>
  !!row.error && !(row.mail && row.inverseOf) && !takerOf(row.seq, all);

/** How many ended operations are kept, for those who still ask what became of them. */
const KEPT = 50;
/** Octets of mail that was refused: while the later ones have less, one is kept. */
const KEPT_OCTETS = 50_000_000;

/** @param now milliseconds since 1970 */
export function outdated(operations: readonly OperationRow[], now: number): OperationRow[] {
  // What goes out later can be taken back until then, and says what it was made of.
  const isNeeded = (one: OperationRow) =>
    isLive(one) ||
    (!one.error &&
      (Date.parse(one.mail?.sendAt ?? '') > now ||
        Number(one.sentAt) + 1000 * Number(one.undoSeconds) > now));
  // What takes a change back may be refused: then that one counts again.
  const named = new Set(
    operations.filter(isNeeded).flatMap((one) => [one.inverseOf, ...seqsOf(one)]),
  );
  const over = operations.filter((operation) => !isLive(operation)).reverse();
  // As many of mail, which is written on for long, and that were refused: of those somebody may want the text.
  const counts = { refused: 0, mail: 0, other: 0 };
  let octets = 0;
  return over.filter((one) => {
    const isRefused = isUnsettled(one, operations);
    const isMail = one.mail ?? bySeq(one.inverseOf, operations)?.mail;
    const isKept = counts[isRefused ? 'refused' : isMail ? 'mail' : 'other']++ < KEPT;
    if (isKept && !(isRefused && octets >= KEPT_OCTETS)) {
      if (isRefused) octets += octetsOf(one);
      return false;
    }
    return !named.has(one.seq) && !isNeeded(one);
  });
}

/** Of a mail with its files, roughly. */
const octetsOf = ({ mail: { text = '', html = '', attachments = [] } = {} }: OperationRow) =>
  attachments.reduce((sum, { size = 0 }) => sum + size, text.length + html.length);

/**
 * What takes an operation back.
 *
 * @throws TypeError where nothing does
 */
export function inverse(operation: OperationRow): NewOperation[] {
  const { kind, ids, mailbox, box, to = '', toBox, shown, action, mail } = operation;
  const { seq: inverseOf } = operation;
  // The leader makes a draft of it where the mail, or the draft that it was, did not go.
  if (kind === 'send' || operation.error)
    return [{ kind: 'send', mailbox, box, ids: [], inverseOf, needs: inverseOf, mail, shown }];
  const made = ids.map((_, index) => localId(inverseOf, index));
  if (kind === 'flag') return restoreFlags(operation);
  const there = { mailbox: to, box: toBox, ids: made, inverseOf };
  if (kind === 'move') return [{ kind, ...there, to: mailbox, toBox: box, shown }];
  if (kind === 'copy') return [{ kind: 'delete', ...there }];
  if (kind === 'append')
    return [{ kind: 'delete', mailbox, box, ids: [localId(inverseOf, 0)], inverseOf }];
  if (action === 'create') return [{ kind, mailbox, ids, action: 'delete', inverseOf }];
  if (action === 'rename') return [{ kind, mailbox: to, ids, action, to: mailbox, inverseOf }];
  throw new TypeError(`${kind} cannot be taken back`);
}

/** Each message gets the flags back that the change took or gave. */
function restoreFlags({
  seq,
  mailbox,
  box,
  uidvalidity,
  before = [],
}: OperationRow): NewOperation[] {
  const alike = new Map<
    string,
    { add: readonly string[]; remove: readonly string[]; ids: MessageId[] }
  >();
  for (const [id, added, removed] of before) {
    const key = JSON.stringify([added, removed]);
    const group = alike.get(key) ?? { add: removed, remove: added, ids: [] };
    group.ids.push(id);
    alike.set(key, group);
  }
  const inverseOf = alike.size === 1 ? seq : undefined;
  return [...alike.values()].map((group) => {
    return { kind: 'flag', mailbox, box, uidvalidity, ...group, inverseOf };
  });
}
