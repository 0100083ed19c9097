/** A page of a sync as changes of the copy: all of it in one transaction, with the token that it leads to. */
import type { AddedMessage, Sync } from '../api-types.ts';
import { isSeen, type MailboxRow, type MessageRow, put, putChanged } from './rows.ts';
import type { Change } from './store.ts';

export interface AppliedPage {
  readonly changes: readonly Change[];
  /** Messages that the copy did not have; empty while it sees the mailbox for the first time. */
  readonly received: readonly MessageRow[];
}

/** UIDs of a page of which the copy may have rows. */
export function uidsOf({ changes }: Sync): number[] {
  return [...changes.added, ...changes.updated, ...changes.removed].map(({ uid }) => uid);
}

/** Whether the copy of the mailbox begins anew with a page: its UIDs mean something else now, or are too old. */
export function startsAnew(mailbox: MailboxRow, page: Sync): boolean {
  return (
    page.reset === true ||
    (mailbox.uidvalidity !== undefined && mailbox.uidvalidity !== page.uidvalidity)
  );
}

/**
 * @param mailbox as it is in the copy; the page was asked from its token
 * @param known the rows of `uidsOf(page)` that the copy has
 */
export function applyPage(
  mailbox: MailboxRow,
  page: Sync,
  known: ReadonlyMap<number, MessageRow>,
): AppliedPage {
  const anew = startsAnew(mailbox, page);
  // The rows of the generation before are not read any more; they are swept later, a few at a time.
  const generation = anew ? mailbox.generation + 1 : mailbox.generation;
  const before = anew ? new Map<number, MessageRow>() : known;
  const { account, box } = mailbox;
  const count = { total: anew ? 0 : mailbox.total, unseen: anew ? 0 : mailbox.unseen };
  const changes: Change[] = [];
  const received: MessageRow[] = [];
  const write = (row: MessageRow) => {
    drop(before.get(row.uid));
    count.total++;
    if (!isSeen(row.flags)) count.unseen++;
    changes.push(put('messages', row));
  };
  const drop = (row: MessageRow | undefined) => {
    if (!row) return;
    count.total--;
    if (!isSeen(row.flags)) count.unseen--;
  };
  for (const message of page.changes.added) {
    const row = toRow({ account, box, generation }, message);
    if (!before.has(row.uid) && mailbox.complete && !anew) received.push(row);
    write(row);
  }
  for (const { uid, flags } of page.changes.updated) {
    const row = before.get(uid);
    if (row) write({ ...row, flags });
  }
  for (const { uid } of page.changes.removed) {
    const row = before.get(uid);
    if (!row) continue;
    drop(row);
    const key = [box, generation, uid];
    changes.push({ remove: 'messages', key }, { remove: 'bodies', key });
  }
  const paging = page.hasMore === true;
  const next: MailboxRow = {
    ...mailbox,
    ...count,
    generation,
    uidvalidity: page.uidvalidity,
    token: page.token,
    paging,
    complete: paging ? mailbox.complete && !anew : true,
    ...(!paging && { serverTotal: count.total, serverUnseen: count.unseen }),
  };
  return { changes: [...changes, ...putChanged(next, mailbox)], received };
}

function toRow(
  place: Pick<MessageRow, 'account' | 'box' | 'generation'>,
  message: AddedMessage,
): MessageRow {
  const { modseq: _, ...facts } = message;
  return {
    envelope: { subject: '' },
    flags: [],
    size: 0,
    internalDate: '',
    preview: '',
    threadId: undefined,
    hasAttachment: false,
    ...facts,
    ...place,
    date: Date.parse(facts.internalDate ?? '') || 0,
  };
}
