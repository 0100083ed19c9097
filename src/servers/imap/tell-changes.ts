/** Tells a session what changed in its mailbox, by itself and by others: the only place that moves a view on. */
import type { SyncResult } from '../../mailboxes/mailstore/mailstore.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import { fetchAll } from './fetch.ts';
import type { FetchRequest } from './parse-fetch.ts';
import { Bye, No, type Session } from './session.ts';
import type { View } from './view.ts';
import { numberSet, type Output } from './write.ts';

const RENAMED = 'The mailbox was deleted, renamed or restored: connect again';

/**
 * @param withRemovals whether sequence numbers may change now
 * @throws Bye where the mailbox is not the one that was selected any more
 */
export async function* tellChanges(
  session: Session,
  withRemovals: boolean,
): AsyncGenerator<Output> {
  const view = session.selected;
  session.isBehind = false;
  const { told, made, watches } = session;
  const selected = watches?.request.selected;
  const tellsFlags = watches === undefined || selected?.tellsFlags === true;
  if (tellsFlags) {
    view.token = view.flagsToken ?? view.token;
    view.flagsToken = undefined;
  } else view.flagsToken ??= String(view.highestModseq);
  const added: number[] = [];
  const flags: string[] = [];
  // All of them, before any moves the view on: one that cannot be read would leave it where the client is not.
  for (const page of await readPages(session, view)) {
    for (const { uid, modseq, flags: some = [] } of page.changes.added) {
      if (uid > view.lastUid) {
        view.add(uid);
        added.push(uid);
      } else if (tellsFlags && told.get(uid) !== modseq)
        flags.push(writeFlags(session, { uid, modseq, flags: some }));
    }
    for (const updated of page.changes.updated) {
      if (tellsFlags && told.get(updated.uid) !== updated.modseq)
        flags.push(writeFlags(session, updated));
    }
    for (const { uid } of page.changes.removed) view.untold.add(uid);
    view.token = page.token;
  }
  // Before the removals: these are the sequence numbers of before.
  yield flags.join('');
  if (withRemovals) yield* tellRemovals(session, view);
  else if (view.untold.size === 0) view.highestModseq = highestOf(view);
  told.clear();
  const unknown = added.filter((uid) => !made.delete(uid));
  if (added.length > 0) yield view.tellSize();
  if (selected?.fetch && unknown.length > 0) yield* fetchNew(session, unknown, selected.fetch);
}

/** What changed since the state that the view has. */
async function readPages({ services, user }: Session, view: View): Promise<SyncResult[]> {
  const { name: mailbox, uidvalidity } = view.mailbox;
  const of = { mailbox, uidvalidity: String(uidvalidity), fields: ['flags'] as const };
  const pages: SyncResult[] = [];
  for (let { token } = view; ; ) {
    const page = await services.mailstore.sync(user, { ...of, token }).catch(refuseRenamed);
    if (page.reset) throw new Bye(RENAMED);
    pages.push(page);
    if (!page.hasMore) return pages;
    ({ token } = page);
  }
}

/** What the client wants to know of each new message (RFC 5465 section 5.2). */
async function* fetchNew(
  session: Session,
  uids: readonly number[],
  request: FetchRequest,
): AsyncGenerator<Output> {
  try {
    yield* fetchAll(session, uids, request, true);
  } catch (error) {
    // It may ask for them, and is told why there is no answer.
    if (!(error instanceof No)) throw error;
  }
}

/** Changes that were not told must not be behind what is told (RFC 7162 section 7). */
function highestOf({ token, flagsToken }: View): number {
  return Number(flagsToken ?? token);
}

function refuseRenamed(error: unknown): never {
  const isGone = error instanceof Refusal && error.code === 'mailbox_not_found';
  throw isGone ? new Bye(RENAMED) : error;
}

function* tellRemovals(session: Session, view: View): Generator<Output> {
  const gone = view.untold;
  view.highestModseq = highestOf(view);
  if (gone.size === 0) return;
  const uids = view.uids.filter((uid) => gone.has(uid));
  const numbers = view.remove(gone);
  gone.clear();
  if (session.qresync && uids.length > 0) yield `* VANISHED ${numberSet(uids)}\r\n`;
  else yield numbers.map((number) => `* ${number} EXPUNGE\r\n`).join('');
}

/** Flags of one message, as they are told unasked; `''` where the session does not see it. */
function writeFlags(
  session: Session,
  { uid, modseq, flags }: { uid: number; modseq?: string | undefined; flags: readonly string[] },
): string {
  const view = session.selected;
  const number = view.numberOf(uid);
  if (number === 0) return '';
  const text = flags.join(' ');
  const more = session.condstore && modseq !== undefined ? ` MODSEQ (${modseq})` : '';
  const told = view.flagsOf(uid, text);
  return `${view.announce(text)}* ${number} FETCH (UID ${uid} FLAGS (${told})${more})\r\n`;
}
