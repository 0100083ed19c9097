/**
 * Numbers of messages that never change: where a message is, how large it is, when it was sent, what it answers. They are
 * made of the rows of messages when a program first asks for them, and those of a span of UIDs are kept in one row: to put
 * ten thousand messages in order reads ten rows then, and parses nothing.
 *
 * A row has, for each of its messages, its UID, how many numbers follow, and these. It may lack messages, which are made
 * again until they are enough to write, and have some that are gone: who asks names those that are there.
 */
import {
  chunks,
  type Database,
  isAmong,
  PreparedQuery,
  refusalOfFailure,
} from '../../platform/database/database.ts';
import { positionOf } from './mailbox-indexes.ts';

/**
 * What the numbers say: of the row of a message, or of its place in a conversation, which without regard to References is
 * known without its source. Other numbers need another kind: rows of before stay.
 */
const KINDS = { facts: 1, threads: 2, subjects: 3 };
export type NumbersKind = keyof typeof KINDS;

/** UIDs of one row. */
const SPAN = 1_024;
const SPANS_AT_A_TIME = 4;
/** Messages that a row lacks before it is written again; fewer where it has all of its span then, and no more can come. */
const LACKING = 64;

/** What was made of messages, by UID; those that are gone are left out. */
export type MadeNumbers = ReadonlyMap<number, readonly number[]>;

export interface AskedNumbers {
  /** Ascending, and all in the mailbox. */
  readonly uids: readonly number[];
  readonly make: (uids: readonly number[]) => Promise<MadeNumbers>;
  /** Called for each message, in order. @param at where its numbers begin */
  readonly take: (uid: number, numbers: Float64Array, at: number, count: number) => void;
}

const keptSpans = new PreparedQuery(
  (value: { mailboxId: number; kind: number; spans: string }, queries) =>
    queries
      .selectFrom('imap_numbers')
      .select(['span', 'numbers'])
      .where('mailbox_id', '=', value.mailboxId)
      .where('kind', '=', value.kind)
      .where(isAmong(queries, 'span', value.spans)),
);

const spanOf = (uid: number) => Math.floor(uid / SPAN);

/** Reads numbers, and makes those that lack. @param all UIDs of the mailbox, ascending */
export async function readNumbers(
  database: Database,
  { mailboxId, kind, all }: { mailboxId: number; kind: NumbersKind; all: readonly number[] },
  { uids, make, take }: AskedNumbers,
): Promise<void> {
  const last = spanOf(all.at(-1) ?? 0);
  for (const spans of chunks([...bySpan(uids)], SPANS_AT_A_TIME)) {
    const names = JSON.stringify(spans.map(([span]) => span));
    const named = { mailboxId, kind: KINDS[kind], spans: names };
    const rows = await keptSpans.all(database.read, named);
    const kept = new Map(rows.map(({ span, numbers }) => [span, fromOctets(numbers)]));
    const keptOf = (span: number) => kept.get(span) ?? new Float64Array();
    const lacking = spans.flatMap(([span, asked]) => without(asked, keptOf(span)));
    const made: MadeNumbers = lacking.length > 0 ? await make(lacking) : new Map();
    const changed: (readonly [number, Float64Array])[] = [];
    for (const [span, asked] of spans) {
      let numbers = keptOf(span);
      const more = asked.filter((uid) => made.has(uid)).length;
      const [from, to] = [positionOf(all, span * SPAN), positionOf(all, (span + 1) * SPAN)];
      const hasOld = countOf(numbers) > 2 * (to - from) + LACKING;
      if (more > 0 || hasOld) numbers = merge(numbers, made, all.slice(from, to));
      const isWhole = more > 0 && span < last && countOf(numbers) === to - from;
      if (more >= LACKING || hasOld || isWhole) changed.push([span, numbers]);
      takeAll(numbers, asked, take);
    }
    // Where the database cannot write now, they are made again.
    if (changed.length > 0) {
      await keep(database, named, changed, all).catch((error: unknown) => {
        if (!refusalOfFailure(error)) throw error;
      });
    }
  }
}

/** @param uids ascending */
function bySpan(uids: readonly number[]): Map<number, number[]> {
  const spans = new Map<number, number[]>();
  let some: number[] = [];
  let span = -1;
  for (const uid of uids) {
    if (spanOf(uid) !== span) {
      span = spanOf(uid);
      some = [];
      spans.set(span, some);
    }
    some.push(uid);
  }
  return spans;
}

/** None where the row is damaged: then they are made again, and written over it. */
function fromOctets(octets: Uint8Array): Float64Array {
  if (octets.length % Float64Array.BYTES_PER_ELEMENT !== 0) return new Float64Array();
  // Copied: a driver may put it anywhere in its memory.
  const numbers = new Float64Array(Uint8Array.from(octets).buffer);
  let at = 0;
  for (let before = 0; at < numbers.length; at = nextAt(numbers, at)) {
    const uid = numbers[at] ?? 0;
    const count = numbers[at + 1] ?? 0;
    if (!(uid > before && count >= 0 && Number.isInteger(count))) return new Float64Array();
    before = uid;
  }
  return at === numbers.length ? numbers : new Float64Array();
}

/** Where the numbers of the next message begin. */
const nextAt = (numbers: Float64Array, at: number) => at + 2 + (numbers[at + 1] ?? 0);

function countOf(numbers: Float64Array): number {
  let count = 0;
  for (let at = 0; at < numbers.length; at = nextAt(numbers, at)) count++;
  return count;
}

/** The UIDs that have no numbers. */
function without(uids: readonly number[], numbers: Float64Array): number[] {
  let at = 0;
  return uids.filter((uid) => {
    while ((numbers[at] ?? Number.POSITIVE_INFINITY) < uid) at = nextAt(numbers, at);
    return numbers[at] !== uid;
  });
}

function takeAll(numbers: Float64Array, uids: readonly number[], take: AskedNumbers['take']): void {
  let at = 0;
  for (const uid of uids) {
    while ((numbers[at] ?? Number.POSITIVE_INFINITY) < uid) at = nextAt(numbers, at);
    if (numbers[at] === uid) take(uid, numbers, at + 2, numbers[at + 1] ?? 0);
  }
}

/** Numbers of those messages that are there, as far as they are known. */
function merge(before: Float64Array, made: MadeNumbers, there: readonly number[]): Float64Array {
  const merged: number[] = [];
  let at = 0;
  for (const uid of there) {
    while ((before[at] ?? Number.POSITIVE_INFINITY) < uid) at = nextAt(before, at);
    const known = before[at] === uid ? before.subarray(at + 2, nextAt(before, at)) : made.get(uid);
    if (known) merged.push(uid, known.length, ...known);
  }
  return Float64Array.from(merged);
}

/** @param all UIDs of the mailbox: what is kept of spans without any is removed */
async function keep(
  { write }: Database,
  { mailboxId, kind }: { readonly mailboxId: number; readonly kind: number },
  changed: readonly (readonly [number, Float64Array])[],
  all: readonly number[],
): Promise<void> {
  const there = JSON.stringify([...bySpan(all).keys()]);
  await write(async (tx) => {
    const mailbox = tx.selectFrom('mailboxes').select('id').where('id', '=', mailboxId);
    if (!(await mailbox.forKeyShare().executeTakeFirst())) return;
    const values = changed.map(([span, numbers]) => ({
      ...{ mailbox_id: mailboxId, kind, span },
      numbers: Buffer.from(numbers.buffer),
    }));
    await tx
      .insertInto('imap_numbers')
      .values(values)
      .onConflict((conflict) =>
        conflict
          .columns(['mailbox_id', 'kind', 'span'])
          .doUpdateSet(({ ref }) => ({ numbers: ref('excluded.numbers') })),
      )
      .execute();
    await tx
      .deleteFrom('imap_numbers')
      .where('mailbox_id', '=', mailboxId)
      .where('kind', '=', kind)
      .where(({ not }) => not(isAmong(tx, 'span', there)))
      .execute();
  });
}
