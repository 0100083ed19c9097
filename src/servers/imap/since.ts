/** What changed in a mailbox since a state that a client names (RFC 7162 section 3.2). */
import type { SyncResult } from '../../mailboxes/mailstore/mailstore.ts';
import { UidSet } from '../../protocols/imap-syntax/imap-syntax.ts';
import type { Session } from './session.ts';
import type { View } from './view.ts';

export interface Since {
  readonly modseq: number;
  /** The UIDs that the client asks about; all of the mailbox where it does not say. */
  readonly known: UidSet | undefined;
}

interface Changes {
  readonly gone: UidSet;
  /** UIDs of messages that came or changed, ascending. */
  readonly changed: readonly number[];
}

/**
 * Reads what changed since a state. A removed message that the session still sees is not among those that are gone:
 * `VANISHED (EARLIER)` changes no sequence number (RFC 7162 section 3.2.10.1), and this message is told of when its number
 * is given up.
 *
 * @param uidnext of the mailbox
 */
export async function readSince(
  session: Session,
  view: View,
  { modseq, known }: Since,
  uidnext = view.mailbox.uidnext,
): Promise<Changes> {
  const { mailstore } = session.services;
  const { name: mailbox, uidvalidity } = view.mailbox;
  // Without fields it is one page, in whose middle others have their turn: each of many would read all changes again.
  const of = { mailbox, uidvalidity: String(uidvalidity), token: String(modseq) };
  const page = await mailstore.sync(session.user, of);
  // Its program may know messages that came after the state which it names, from another session.
  const passed = await mailstore.imap.passedSince(view.mailbox, modseq);
  const gone = goneIn(page, passed, view, uidnext);
  const { added, updated } = page.changes;
  const changed = [...added, ...updated].map(({ uid }) => uid).sort((a, b) => a - b);
  // Only of what the client asks about (section 3.2.5.1): it may know a few of very many messages.
  return known
    ? { gone: gone.without(gone.without(known)), changed: changed.filter((uid) => known.has(uid)) }
    : { gone, changed };
}

function goneIn(page: SyncResult, passed: readonly number[], view: View, uidnext: number): UidSet {
  // What was removed is not known any more: all that is not there.
  if (page.reset) return UidSet.between(1, uidnext - 1).without(UidSet.of(view.uids));
  const uids = [...page.changes.removed.map(({ uid }) => uid), ...passed];
  return UidSet.of(uids.filter((uid) => view.numberOf(uid) === 0));
}

export function vanished(gone: UidSet): string {
  return Array.from(gone.texts(), (text) => `* VANISHED (EARLIER) ${text}\r\n`).join('');
}
