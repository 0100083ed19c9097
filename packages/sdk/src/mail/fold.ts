/**
 * What is shown = the rows of the copy with the user's changes laid over them. It is computed for the messages that
 * changes touch, each time anew, and stored nowhere: so nothing has to be taken back when the copy moves on.
 */
import type { FlagChange, MessageId, WatchOptions } from './client.ts';
import {
  isLive,
  isWaiting,
  localId,
  type MailboxRow,
  type MessageFacts,
  type MessageRow,
  type OperationRow,
  uidOf,
} from './rows.ts';

/** A box; or the name of a mailbox that the copy does not know yet. */
export type Place = number | string;

/** A message as it is shown. */
export interface Shown {
  readonly place: Place;
  readonly id: MessageId;
  readonly facts: MessageFacts;
  /** A change has not reached the server yet. */
  readonly pending: boolean;
  /** Where the copy has it. */
  readonly base: MessageRow | undefined;
}

/** A message while changes are laid over it. */
interface Entry extends Omit<Shown, 'facts'> {
  facts: MessageFacts | undefined;
  hidden: boolean;
  pending: boolean;
}

export interface Overlay {
  /** What is shown of a row of the copy: undefined where it is nothing. */
  readonly over: (row: MessageRow) => Shown | undefined;
  /** The rows that changes touch. */
  readonly touched: readonly MessageRow[];
  /** Messages that the copy has no row of. */
  readonly added: readonly Shown[];
  /** Where a local id leads to. */
  readonly find: (id: MessageId) => Shown | undefined;
}

/** What changes are laid over: the copy. */
export interface Base {
  readonly operations: readonly OperationRow[];
  readonly placeOf: (name: string, box: number | undefined) => Place;
  box(box: number): MailboxRow | undefined;
  rows(box: number, uids: readonly number[]): Promise<ReadonlyMap<number, MessageRow>>;
}

/** UIDs by box whose rows changes touch. */
function touchedUids(live: readonly OperationRow[], { operations, placeOf }: Base) {
  const wanted = new Map<number, Set<number>>();
  const want = (place: Place | undefined, uid: number) => {
    if (typeof place !== 'number' || uid === 0) return;
    wanted.set(place, (wanted.get(place) ?? new Set()).add(uid));
  };
  for (const operation of live) {
    const { ids, mail, placed = [] } = operation;
    const places = placesOf(operation, placeOf);
    // Those that it names, the draft that a mail replaces, and what it made.
    for (const id of mail?.draft ? [...ids, mail.draft.id] : ids)
      want(places[0], uidOf(id, operations));
    for (const uid of placed) want(places.at(-1), uid);
  }
  return wanted;
}

const keyOf = (place: Place, uid: number) => `${place}/${uid}`;

export function toShown(row: MessageRow): Shown {
  return { place: row.box, id: row.uid, base: row, facts: row, pending: false };
}

export async function fold(copy: Base): Promise<Overlay> {
  const { operations, placeOf } = copy;
  const live = operations.filter(isLive);
  const real = new Map<string, Entry>();
  const local = new Map<MessageId, Entry>();
  for (const [box, uids] of touchedUids(live, copy))
    for (const [uid, row] of await copy.rows(box, [...uids]))
      real.set(keyOf(box, uid), { ...toShown(row), hidden: false });

  /** Whether the copy has another mailbox of that name. */
  const isOther = (uidvalidity: string | undefined, place: Place) => {
    const now = typeof place === 'number' ? copy.box(place)?.uidvalidity : undefined;
    return uidvalidity !== undefined && now !== undefined && uidvalidity !== now;
  };

  const entryOf = (id: MessageId, place: Place): Entry | undefined => {
    if (typeof id !== 'number') {
      const found = local.get(id);
      if (found) return found;
      const uid = uidOf(id, operations);
      return uid === 0 ? undefined : entryOf(uid, place);
    }
    if (typeof place !== 'number') return undefined;
    const key = keyOf(place, id);
    const none = { place, id, base: undefined, facts: undefined, hidden: false, pending: false };
    if (!real.has(key)) real.set(key, none);
    return real.get(key);
  };

  /** The UIDs of a change mean nothing in a mailbox that was made anew since: the server is going to refuse it. */
  const named = (uidvalidity: string | undefined, id: MessageId, place: Place) =>
    typeof id === 'number' && isOther(uidvalidity, place) ? undefined : entryOf(id, place);

  /** Takes a message out of its mailbox, until the copy knows it. */
  const hide = (operation: OperationRow, entry: Entry | undefined) => {
    if (!entry || isSettled(operation, entry.place)) return;
    entry.hidden = true;
    entry.pending ||= isWaiting(operation);
  };

  /** Puts a message where it goes, until the copy has it there. */
  const make = (operation: OperationRow, index: number, facts?: MessageFacts | null) => {
    const { seq, placed, placedIn } = operation;
    const place = placesOf(operation, placeOf).at(-1) ?? '';
    const id = localId(seq, index);
    // There was no such message: nothing was moved.
    if (placed?.[index] === 0) return;
    // Where the mailbox was made anew before or since, its UIDs are of other messages.
    const uid = isOther(placedIn, place) ? undefined : placed?.[index];
    const there = uid === undefined ? undefined : entryOf(uid, place);
    if (there?.base) {
      local.set(id, there);
      return;
    }
    if (isSettled(operation, place) || !facts) return;
    const pending = isWaiting(operation);
    const entry = { place, id, base: undefined, facts, hidden: false, pending };
    local.set(id, entry);
    // Later changes name it by its UID, also before the copy has it.
    if (uid !== undefined) real.set(keyOf(place, uid), entry);
  };

  for (const operation of live) {
    const { kind, ids, shown, mail, uidvalidity } = operation;
    const place = placeOf(operation.mailbox, operation.box);
    if (kind === 'append') make(operation, 0, shown?.[0]);
    if (mail?.draft) hide(operation, named(mail.draft.uidvalidity, mail.draft.id, place));
    for (const [index, id] of ids.entries()) {
      const entry = named(uidvalidity, id, place);
      // An earlier change took it away: the server will find nothing either.
      if (entry?.hidden) continue;
      if (kind === 'flag') {
        if (!entry?.facts) continue;
        entry.facts = { ...entry.facts, flags: changeFlags(entry.facts.flags, operation) };
        entry.pending ||= isWaiting(operation);
        continue;
      }
      const facts = entry?.facts ?? shown?.[index];
      if (kind !== 'copy') hide(operation, entry);
      if (kind === 'move' || kind === 'copy') make(operation, index, facts);
    }
  }

  return toOverlay(real, local);
}

function toOverlay(
  real: ReadonlyMap<string, Entry>,
  local: ReadonlyMap<MessageId, Entry>,
): Overlay {
  return {
    over: (row) => {
      const entry = real.get(keyOf(row.box, row.uid));
      return entry?.base ? show(entry) : toShown(row);
    },
    touched: [...real.values()].flatMap(({ base }) => base ?? []),
    added: [...new Set(local.values())].flatMap((entry) => (entry.base ? [] : (show(entry) ?? []))),
    find: (id) => show(local.get(id)),
  };
}

function show(entry: Entry | undefined): Shown | undefined {
  const facts = entry?.hidden ? undefined : entry?.facts;
  return entry && facts && { ...entry, facts };
}

/** Whether a mailbox shows an operation by itself: a sync that began after its answer is complete. */
function isSettled({ state, awaits }: OperationRow, place: Place): boolean {
  return state === 'acked' && !awaits?.some((box) => box === place);
}

/** A flag that is both added and removed is removed, as the server does it. Case makes no difference. */
export function changeFlags(
  flags: readonly string[],
  { add = [], remove = [] }: FlagChange,
): readonly string[] {
  const removed = new Set(remove.map(lower));
  const kept = flags.filter((flag) => !removed.has(lower(flag)));
  const known = new Set([...kept.map(lower), ...removed]);
  return [...kept, ...add.filter((flag) => !known.has(lower(flag)))];
}

/** Whether a message has all of some flags, and none of others. Case makes no difference. */
export function hasFlags(
  flags: readonly string[],
  { flags: all = [], notFlags: none = [] }: Pick<WatchOptions, 'flags' | 'notFlags'>,
): boolean {
  const has = (flag: string) => flags.some((one) => lower(one) === lower(flag));
  return all.every(has) && !none.some(has);
}

const lower = (flag: string) => flag.toLowerCase();

export function placesOf(operation: OperationRow, placeOf: Base['placeOf']): readonly Place[] {
  const { mailbox, box, to, toBox } = operation;
  const source = placeOf(mailbox, box);
  return to === undefined ? [source] : [source, placeOf(to, toBox)];
}
