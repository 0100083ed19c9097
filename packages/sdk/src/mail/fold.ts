/**
 * What is shown = the rows of the copy with the user's changes laid over them. It is computed for the messages that
 * changes touch, each time anew, and stored nowhere: so nothing has to be taken back when the copy moves on.
 */
import type { FlagChange, MessageId } from './client.ts';
import {
  isLive,
  isWaiting,
  localId,
  type MessageFacts,
  type MessageRow,
  type OperationRow,
  uidOf,
} from './rows.ts';

/** A box; or the name of a mailbox that the copy does not know yet. */
export type Place = number | string;

/** A message as it is shown. */
export interface Shown {
  readonly id: MessageId;
  readonly facts: MessageFacts;
  /** A change has not reached the server yet. */
  readonly pending: boolean;
  /** Where the copy has it. */
  readonly base: MessageRow | undefined;
}

interface Touched {
  readonly base: MessageRow;
  readonly shown: Shown | undefined;
}

export interface Overlay {
  /** By box and UID: rows of the copy that are shown otherwise, or not at all. */
  readonly touched: ReadonlyMap<number, ReadonlyMap<number, Touched>>;
  /** Messages that the copy has no row of. */
  readonly added: ReadonlyMap<Place, readonly Shown[]>;
  /** Where a local id leads to. */
  readonly find: (id: MessageId) => Shown | undefined;
}

export interface FoldInput {
  readonly operations: readonly OperationRow[];
  readonly placeOf: (name: string, box: number | undefined) => Place;
  readonly uidvalidityOf: (box: number) => string | undefined;
  /** The rows that `touchedRows` named, where they exist. */
  readonly row: (box: number, uid: number) => MessageRow | undefined;
}

/** UIDs by box whose rows a fold needs. */
export function touchedRows({
  operations,
  placeOf,
}: Pick<FoldInput, 'operations' | 'placeOf'>): Map<number, Set<number>> {
  const wanted = new Map<number, Set<number>>();
  const want = (place: Place | undefined, uid: number) => {
    if (typeof place !== 'number' || uid === 0) return;
    const uids = wanted.get(place);
    if (uids) uids.add(uid);
    else wanted.set(place, new Set([uid]));
  };
  for (const operation of operations.filter(isLive)) {
    const places = placesOf(operation, placeOf);
    for (const id of idsOf(operation)) want(places[0], uidOf(id, operations));
    for (const uid of operation.placed ?? []) want(places.at(-1), uid);
  }
  return wanted;
}

/** Messages that it changes: those it names, and the draft that a mail replaces. */
function idsOf({ ids, mail }: OperationRow): readonly MessageId[] {
  return mail?.draft ? [...ids, mail.draft.id] : ids;
}

/** A message while changes are laid over it. */
interface Entry {
  readonly place: Place;
  readonly id: MessageId;
  readonly base: MessageRow | undefined;
  facts: MessageFacts | undefined;
  hidden: boolean;
  pending: boolean;
}

export function fold(input: FoldInput): Overlay {
  const { operations, placeOf } = input;
  const real = new Map<string, Entry>();
  const local = new Map<MessageId, Entry>();

  /** Whether the copy has another mailbox of that name. */
  const isOther = (uidvalidity: string | undefined, place: Place) => {
    const now = typeof place === 'number' ? input.uidvalidityOf(place) : undefined;
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
    const key = `${place}/${id}`;
    const known = real.get(key);
    if (known) return known;
    const base = input.row(place, id);
    const entry = { place, id, base, facts: base, hidden: false, pending: false };
    real.set(key, entry);
    return entry;
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
    if (uid !== undefined) real.set(`${place}/${uid}`, entry);
  };

  for (const operation of operations.filter(isLive)) {
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

  return toOverlay(real.values(), local);
}

function toOverlay(real: Iterable<Entry>, local: ReadonlyMap<MessageId, Entry>): Overlay {
  const touched = new Map<number, Map<number, Touched>>();
  for (const entry of real) {
    const { place, base } = entry;
    if (typeof place !== 'number' || !base) continue;
    const rows = touched.get(place) ?? new Map<number, Touched>();
    touched.set(place, rows.set(base.uid, { base, shown: show(entry) }));
  }
  const added = new Map<Place, Shown[]>();
  for (const entry of new Set(local.values())) {
    const shown = entry.base ? undefined : show(entry);
    if (!shown) continue;
    const rows = added.get(entry.place) ?? [];
    rows.push(shown);
    added.set(entry.place, rows);
  }
  const find = (id: MessageId) => {
    const entry = local.get(id);
    return entry && show(entry);
  };
  return { touched, added, find };
}

function show({ id, base, facts, hidden, pending }: Entry): Shown | undefined {
  return hidden || !facts ? undefined : { id, base, facts, pending };
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

const lower = (flag: string) => flag.toLowerCase();

export function placesOf(operation: OperationRow, placeOf: FoldInput['placeOf']): readonly Place[] {
  const { mailbox, box, to, toBox } = operation;
  const source = placeOf(mailbox, box);
  return to === undefined ? [source] : [source, placeOf(to, toBox)];
}
