/**
 * The UIDs, MODSEQs and flags of mailboxes, in memory for all IMAP sessions: programs ask for all of them again and again,
 * and most of the time little has changed. What is kept is of one state of a mailbox (its MODSEQ) and never changes; for a
 * later state a copy is made, from the changes alone. Every use compares it with the row of the mailbox, so no event has to
 * reach this process.
 */
import { sql } from 'kysely';
import { LRUCache } from 'lru-cache';
import type { Queries, Row } from '../../platform/database/database.ts';
import { isSurviving } from './append-messages.ts';
import { type MailUser, partiesOf, takeTurnOf } from './mail-user.ts';
import type { MailboxRow } from './store.ts';

/** Ascending by UID: one message has the same place in all three. */
export interface MailboxIndex {
  readonly uids: readonly number[];
  readonly modseqs: readonly number[];
  /** As they are stored. Equal ones are one text. */
  readonly flags: readonly string[];
}

interface Kept {
  readonly uidvalidity: number;
  readonly modseq: number;
  readonly index: MailboxIndex;
  readonly parties: readonly string[];
}

type Entry = Pick<Row<'messages'>, 'uid' | 'modseq' | 'flags'>;

/** Messages of all that is kept, with 24 octets each: 64 MB. The least recently used goes first. */
const MESSAGES_MAX = 2_700_000;
/** A mailbox without a message counts as so many. */
const MAILBOX_COST = 20;
/**
 * So nobody's mailboxes push out those of all others. One above the share is read anew for each piece of an answer: so an
 * account has room for as many messages as are put in order (`servers/imap/sort-keys.ts`).
 */
const SHARES = { account: 600_000, tenant: 700_000 };
/** Rows of an index that are read at once. */
export const INDEXED_AT_A_TIME = 5_000;

/** The index of the first UID from this one on. @param uids ascending */
export function positionOf(uids: readonly number[], uid: number): number {
  let low = 0;
  let high = uids.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((uids[middle] ?? 0) < uid) low = middle + 1;
    else high = middle;
  }
  return low;
}

export const NO_MESSAGES: MailboxIndex = { uids: [], modseqs: [], flags: [] };

export class MailboxIndexes {
  readonly #kept = new LRUCache<number, Kept>({
    maxSize: MESSAGES_MAX,
    sizeCalculation: costOf,
  });

  /** What is kept of the very state that the row of a mailbox has. */
  at({ id, uidvalidity, highestmodseq }: MailboxRow): MailboxIndex | undefined {
    const kept = this.#kept.get(id);
    const isSame = kept?.uidvalidity === uidvalidity && kept.modseq === highestmodseq;
    return isSame ? kept.index : undefined;
  }

  /** Whether an earlier state is kept, which the changes since then bring up to date. */
  hasEarlier(mailbox: MailboxRow): boolean {
    const kept = this.#kept.get(mailbox.id);
    return kept !== undefined && isBefore(kept, mailbox);
  }

  /** @param tx sees the state of the mailbox's row throughout */
  async read(tx: Queries, user: MailUser, mailbox: MailboxRow): Promise<MailboxIndex> {
    const { id, uidvalidity, highestmodseq: modseq } = mailbox;
    const kept = this.#kept.get(id);
    const advanced =
      kept && isBefore(kept, mailbox) ? await advance(tx, user, id, kept) : undefined;
    const index = advanced ?? indexOf(await readAfter(tx, user, id, 0));
    const parties = partiesOf(user, SHARES);
    this.#kept.set(id, { uidvalidity, modseq, index, parties: parties.map(({ name }) => name) });
    // What was advanced is hardly larger than before.
    if (!advanced) for (const party of parties) this.#cut(party.name, party.most);
    return index;
  }

  #cut(party: string, most: number): void {
    let held = 0;
    // The most recently used come first.
    for (const [id, kept] of [...this.#kept.entries()]) {
      if (!kept.parties.includes(party)) continue;
      held += costOf(kept);
      if (held > most) this.#kept.delete(id);
    }
  }
}

function costOf({ index }: Kept): number {
  return MAILBOX_COST + index.uids.length;
}

/** Whether all changes after a state are known. */
function isBefore({ uidvalidity, modseq }: Kept, mailbox: MailboxRow): boolean {
  const { pruned_modseq, highestmodseq } = mailbox;
  const isKnown = modseq >= pruned_modseq && modseq <= highestmodseq;
  return uidvalidity === mailbox.uidvalidity && isKnown && isSurviving(mailbox, modseq);
}

/** Messages that came or changed after a MODSEQ, in the order of an index that has all of these columns. */
async function readAfter(
  tx: Queries,
  user: MailUser,
  mailboxId: number,
  modseq: number,
  most = Infinity,
) {
  const found: Entry[] = [];
  let after = { modseq, uid: Number.MAX_SAFE_INTEGER };
  while (found.length < most) {
    const rows = await tx
      .selectFrom('messages')
      .select(['uid', 'modseq', 'flags'])
      .where('mailbox_id', '=', mailboxId)
      .where(sql<boolean>`(modseq, uid) > (${after.modseq}, ${after.uid})`)
      .orderBy('modseq')
      .orderBy('uid')
      .limit(INDEXED_AT_A_TIME)
      .execute();
    for (const row of rows) found.push(row);
    const last = rows.at(-1);
    if (!last || rows.length < INDEXED_AT_A_TIME) break;
    after = last;
    await takeTurnOf(user);
  }
  return found.sort((a, b) => a.uid - b.uid);
}

function indexOf(entries: readonly Entry[]): MailboxIndex {
  const known = new Map<string, string>();
  const uids: number[] = [];
  const modseqs: number[] = [];
  const flags: string[] = [];
  for (const entry of entries) {
    if (!known.has(entry.flags)) known.set(entry.flags, entry.flags);
    uids.push(entry.uid);
    modseqs.push(entry.modseq);
    flags.push(known.get(entry.flags) ?? entry.flags);
  }
  return { uids, modseqs, flags };
}

/** @returns undefined where so much has changed that all may be read as well */
async function advance(
  tx: Queries,
  user: MailUser,
  mailboxId: number,
  { modseq, index }: Kept,
): Promise<MailboxIndex | undefined> {
  const changed = await readAfter(tx, user, mailboxId, modseq, INDEXED_AT_A_TIME);
  const gone = await tx
    .selectFrom('tombstones')
    .select('uid')
    .where('mailbox_id', '=', mailboxId)
    .where('modseq', '>', modseq)
    .where('created_modseq', '<=', modseq)
    .limit(INDEXED_AT_A_TIME)
    .execute();
  if (changed.length >= INDEXED_AT_A_TIME || gone.length >= INDEXED_AT_A_TIME) return undefined;
  return merge(index, changed, new Set(gone.map(({ uid }) => uid)));
}

/** A copy of an index with messages changed, and without those that are gone. */
function merge(
  { uids, modseqs, flags }: MailboxIndex,
  changed: readonly Entry[],
  gone: ReadonlySet<number>,
): MailboxIndex {
  const entries = new Map(changed.map((entry) => [entry.uid, entry]));
  const merged: Entry[] = [];
  for (const [at, uid] of uids.entries()) {
    const entry = entries.get(uid);
    if (entry) entries.delete(uid);
    if (gone.has(uid)) continue;
    merged.push(entry ?? { uid, modseq: modseqs[at] ?? 0, flags: flags[at] ?? '' });
  }
  // UIDs only rise (RFC 9051 section 2.3.1.1).
  for (const entry of entries.values()) merged.push(entry);
  return indexOf(merged);
}
