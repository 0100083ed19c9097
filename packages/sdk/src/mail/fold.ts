/**
 * What is shown = the rows of the copy with the user's changes laid over them. It is computed for the messages that
 * changes touch, each time anew, and stored nowhere: so nothing has to be taken back when the copy moves on.
 */
import type { FlagChange, MessageId } from './client.ts';
import {
  isLive,
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

export interface Overlay {
  /** By box and UID: rows of the copy that are shown otherwise, or not at all. */
  readonly touched: ReadonlyMap<number, ReadonlyMap<number, Shown | undefined>>;
  /** Messages that the copy has no row of. */
  readonly added: ReadonlyMap<Place, readonly Shown[]>;
  /** The row of the copy that is not shown. */
  readonly hiddenRow: (box: number, uid: number) => MessageRow | undefined;
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
  const folding = new Folding(input);
  for (const operation of input.operations.filter(isLive)) folding.apply(operation);
  return folding.result();
}

class Folding {
  readonly #input: FoldInput;
  readonly #real = new Map<string, Entry>();
  readonly #local = new Map<MessageId, Entry>();

  constructor(input: FoldInput) {
    this.#input = input;
  }

  apply(operation: OperationRow): void {
    const { kind, ids, shown, mail, state } = operation;
    const place = this.#input.placeOf(operation.mailbox, operation.box);
    const pending = state !== 'acked';
    if (kind === 'append') this.#make(operation, 0, shown?.[0] ?? undefined, pending);
    if (mail?.draft) this.#hide(operation, this.#named(mail.draft, mail.draft.id, place), pending);
    for (const [index, id] of ids.entries()) {
      const entry = this.#named(operation, id, place);
      // An earlier change took it away: the server will find nothing either.
      if (entry?.hidden) continue;
      if (kind === 'flag') {
        if (entry?.facts) {
          entry.facts = { ...entry.facts, flags: changeFlags(entry.facts.flags, operation) };
          entry.pending ||= pending;
        }
        continue;
      }
      const facts = entry?.facts ?? shown?.[index] ?? undefined;
      if (kind !== 'copy') this.#hide(operation, entry, pending);
      if (kind === 'move' || kind === 'copy') this.#make(operation, index, facts, pending);
    }
  }

  /** Takes a message out of its mailbox, until the copy knows it. */
  #hide(operation: OperationRow, entry: Entry | undefined, pending: boolean): void {
    if (!entry || isSettled(operation, entry.place)) return;
    entry.hidden = true;
    entry.pending ||= pending;
  }

  /** Puts a message where it goes, until the copy has it there. */
  #make(
    operation: OperationRow,
    index: number,
    facts: MessageFacts | undefined,
    pending: boolean,
  ): void {
    const { mailbox, box, to, toBox, seq, placed, placedIn } = operation;
    const place =
      to === undefined ? this.#input.placeOf(mailbox, box) : this.#input.placeOf(to, toBox);
    const id = localId(seq, index);
    // There was no such message: nothing was moved.
    if (placed?.[index] === 0) return;
    // Where the mailbox was made anew before or since, its UIDs are of other messages.
    const uid = this.#isOther(placedIn, place) ? undefined : placed?.[index];
    const real = uid === undefined ? undefined : this.#entry(uid, place);
    if (real?.base) {
      this.#local.set(id, real);
      return;
    }
    if (isSettled(operation, place) || !facts) return;
    const entry = { place, id, base: undefined, facts, hidden: false, pending };
    this.#local.set(id, entry);
    // Later changes name it by its UID, also before the copy has it.
    if (uid !== undefined) this.#real.set(`${place}/${uid}`, entry);
  }

  /** The UIDs of a change mean nothing in a mailbox that was made anew since: the server is going to refuse it. */
  #named(
    { uidvalidity }: Pick<OperationRow, 'uidvalidity'>,
    id: MessageId,
    place: Place,
  ): Entry | undefined {
    const isOld = typeof id === 'number' && this.#isOther(uidvalidity, place);
    return isOld ? undefined : this.#entry(id, place);
  }

  /** Whether the copy has another mailbox of that name. */
  #isOther(uidvalidity: string | undefined, place: Place): boolean {
    const now = typeof place === 'number' ? this.#input.uidvalidityOf(place) : undefined;
    return uidvalidity !== undefined && now !== undefined && uidvalidity !== now;
  }

  #entry(id: MessageId, place: Place): Entry | undefined {
    if (typeof id !== 'number') {
      const found = this.#local.get(id);
      if (found) return found;
      const uid = uidOf(id, this.#input.operations);
      return uid === 0 ? undefined : this.#entry(uid, place);
    }
    if (typeof place !== 'number') return undefined;
    const key = `${place}/${id}`;
    const known = this.#real.get(key);
    if (known) return known;
    const base = this.#input.row(place, id);
    const entry = { place, id, base, facts: base, hidden: false, pending: false };
    this.#real.set(key, entry);
    return entry;
  }

  result(): Overlay {
    const touched = new Map<number, Map<number, Shown | undefined>>();
    for (const entry of this.#real.values()) {
      const { place, base } = entry;
      if (typeof place !== 'number' || !base) continue;
      const rows = touched.get(place) ?? new Map<number, Shown | undefined>();
      touched.set(place, rows.set(base.uid, show(entry)));
    }
    const added = new Map<Place, Shown[]>();
    for (const entry of new Set(this.#local.values())) {
      const shown = entry.base ? undefined : show(entry);
      if (!shown) continue;
      const rows = added.get(entry.place);
      if (rows) rows.push(shown);
      else added.set(entry.place, [shown]);
    }
    const find = (id: MessageId) => {
      const entry = this.#local.get(id);
      return entry && show(entry);
    };
    return { touched, added, hiddenRow: this.#input.row, find };
  }
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
