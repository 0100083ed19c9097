/**
 * What a mailbox has to show, computed a second time and in another way than the engine does: all rows of the store are
 * taken, and each change of the user is carried out on them, one after the other.
 */
import { changeFlags } from '../../src/mail/fold.ts';
import {
  isLive,
  localId,
  type MailboxRow,
  type MessageRow,
  type OperationRow,
  readLocalId,
} from '../../src/mail/rows.ts';
import type { MessageId } from '../../src/mail.ts';

/** All that a store has of an account, as it was at one time. */
export interface Rows {
  readonly mailboxes: readonly MailboxRow[];
  readonly messages: readonly MessageRow[];
  readonly operations: readonly OperationRow[];
}

interface Letter {
  readonly uid: number | undefined;
  readonly subject: string;
  flags: readonly string[];
  /** An earlier change took it away: a later one finds nothing. */
  isGone?: boolean;
}

const textOf = ({ subject, flags }: Letter) => `${subject}: ${[...flags].sort().join(' ')}`;

export class Replay {
  readonly #rows: Rows;
  /** By the number of a mailbox, or by its name where the copy does not know it. */
  readonly #boxes = new Map<number | string, Letter[]>();
  readonly #made = new Map<MessageId, Letter>();

  constructor(rows: Rows) {
    this.#rows = rows;
    const generations = new Map(rows.mailboxes.map(({ box, generation }) => [box, generation]));
    for (const { box, generation, uid, envelope, flags } of rows.messages) {
      if (generations.get(box) !== generation) continue;
      this.#box(box).push({ uid, subject: envelope.subject ?? '', flags });
    }
    for (const operation of rows.operations.filter(isLive)) this.#carryOut(operation);
  }

  /** Subject and flags of each message, sorted. */
  shown(name: string): string[] {
    const letters = this.#box(this.#placeOf(name, undefined));
    return letters
      .filter(({ isGone }) => !isGone)
      .map(textOf)
      .sort();
  }

  /** Whether the copy has all of it. */
  isWhole(name: string): boolean {
    return this.#rows.mailboxes.some((row) => row.name === name && !row.gone && row.complete);
  }

  #box(place: number | string): Letter[] {
    const letters = this.#boxes.get(place) ?? [];
    this.#boxes.set(place, letters);
    return letters;
  }

  #placeOf(name: string, box: number | undefined): number | string {
    const known = this.#rows.mailboxes.find((row) => row.box === box);
    const wanted = known?.name ?? name;
    const there = this.#rows.mailboxes.find((row) => row.name === wanted && !row.gone);
    return known && !known.gone ? known.box : (there?.box ?? name);
  }

  #carryOut(operation: OperationRow): void {
    const { kind, seq, ids, mailbox, box, to, toBox, placed, placedIn } = operation;
    const { shown = [], mail } = operation;
    const source = this.#placeOf(mailbox, box);
    const target = to === undefined ? source : this.#placeOf(to, toBox);
    // A mailbox whose copy is from after the answer has the change in it.
    const has = (place: number | string) =>
      operation.state === 'acked' && !operation.awaits?.some((one) => one === place);
    const take = (letter: Letter | undefined) => {
      if (letter && !has(source)) letter.isGone = true;
    };
    const give = (index: number, facts: Omit<Letter, 'uid'> | undefined) => {
      if (placed?.[index] === 0) return;
      // In a mailbox that was made anew before, as the copy will find, it is another message's.
      const uid = this.#isOther(target, placedIn) ? undefined : placed?.[index];
      const there = this.#box(target).find((letter) => letter.uid === uid);
      if (uid !== undefined && there) this.#made.set(localId(seq, index), there);
      else if (facts && !has(target)) {
        const letter = { uid, subject: facts.subject, flags: facts.flags };
        this.#made.set(localId(seq, index), letter);
        this.#box(target).push(letter);
      }
    };
    const noted = (index: number) => {
      const facts = shown[index];
      return facts ? { subject: facts.envelope.subject ?? '', flags: facts.flags } : undefined;
    };
    if (kind === 'append') give(0, noted(0));
    if (mail?.draft) take(this.#find(mail.draft.id, source));
    for (const [index, id] of ids.entries()) {
      // A UID of a mailbox that was made anew since means nothing there.
      const isOld = typeof id === 'number' && this.#isOther(source, operation.uidvalidity);
      const letter = isOld ? undefined : this.#find(id, source);
      if (letter?.isGone) continue;
      if (kind === 'flag') {
        if (letter) letter.flags = changeFlags(letter.flags, operation);
        continue;
      }
      if (kind !== 'copy') take(letter);
      if (kind === 'move' || kind === 'copy') give(index, letter ?? noted(index));
    }
  }

  #isOther(place: number | string, uidvalidity: string | undefined): boolean {
    const now = this.#rows.mailboxes.find(({ box }) => box === place)?.uidvalidity;
    return now !== undefined && uidvalidity !== undefined && now !== uidvalidity;
  }

  #find(id: MessageId, place: number | string): Letter | undefined {
    if (typeof id === 'number') return this.#box(place).find(({ uid }) => uid === id);
    const { seq, index } = readLocalId(id) ?? {};
    const uid = this.#rows.operations.find((one) => one.seq === seq)?.placed?.[index ?? 0];
    return this.#made.get(id) ?? (uid ? this.#find(uid, place) : undefined);
  }
}
