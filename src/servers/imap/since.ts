/** What changed in a mailbox since a state that a client names (RFC 7162 section 3.2). */
import type {
  AddedMessage,
  SyncRequest,
  SyncResult,
  UpdatedMessage,
} from '../../mailboxes/mailstore/mailstore.ts';
import { UidSet } from '../../protocols/imap-syntax/imap-syntax.ts';
import type { Session } from './session.ts';
import type { View } from './view.ts';

/** Messages whose flags are held while the client reads: those of more are read again, piece by piece. */
export const HELD_MAX = 1_000;

export interface Since extends Required<Pick<SyncRequest, 'fields'>> {
  readonly modseq: number;
  /** The UIDs that the client asks about; all of the mailbox where it does not say. */
  readonly known: UidSet | undefined;
}

interface Changes {
  readonly gone: UidSet;
  /** Messages that came or changed, with their flags; none where they are more than {@link HELD_MAX}. */
  readonly changed: readonly (AddedMessage | UpdatedMessage)[];
  /** Their UIDs in that case, ascending. */
  readonly many: readonly number[];
}

/**
 * Reads what changed since a state, in pages where fields are read. A removed message that the session still sees is not
 * among those that are gone: `VANISHED (EARLIER)` changes no sequence number (RFC 7162 section 3.2.10.1), and this message
 * is told of when its number is given up.
 *
 * @param uidnext of the mailbox
 */
export async function* readSince(
  session: Session,
  view: View,
  { modseq, known, fields }: Since,
  uidnext = view.mailbox.uidnext,
): AsyncGenerator<Changes> {
  const { mailstore } = session.services;
  const { name: mailbox, uidvalidity } = view.mailbox;
  const read = (token: string) =>
    mailstore
      .sync(session.user, { mailbox, uidvalidity: String(uidvalidity), token, fields })
      .then((page) => changesOf(page, view, known, uidnext));
  // Its program may know messages that came after the state which it names, from another session.
  const passed = await mailstore.imap.passedSince(view.mailbox, modseq);
  const gone = UidSet.of(passed.filter((uid) => view.numberOf(uid) === 0));
  yield { gone: meantOf(gone, known), changed: [], many: [] };
  for (let token = String(modseq), hasMore = true; hasMore; ) {
    const page = await read(token);
    yield page.changes;
    ({ token, hasMore } = page);
  }
}

/** In a function of its own: a generator that waits for its client would hold the page. */
function changesOf(
  page: SyncResult,
  view: View,
  known: UidSet | undefined,
  uidnext: number,
): { readonly changes: Changes; readonly token: string; readonly hasMore: boolean } {
  const { added, updated, removed } = page.changes;
  // What was removed is not known any more: all that is not there.
  const gone = page.reset
    ? UidSet.between(1, uidnext - 1).without(UidSet.of(view.uids))
    : UidSet.of(removed.map(({ uid }) => uid).filter((uid) => view.numberOf(uid) === 0));
  const all = [...added, ...updated];
  const isMany = all.length > HELD_MAX;
  const many = isMany ? all.map(({ uid }) => uid).sort((a, b) => a - b) : [];
  const changes = { gone: meantOf(gone, known), changed: isMany ? [] : all, many };
  return { changes, token: page.token, hasMore: page.hasMore === true };
}

function meantOf(gone: UidSet, known: UidSet | undefined): UidSet {
  return known ? gone.without(gone.without(known)) : gone;
}

export function vanished(gone: UidSet): string {
  return Array.from(gone.texts(), (text) => `* VANISHED (EARLIER) ${text}\r\n`).join('');
}
