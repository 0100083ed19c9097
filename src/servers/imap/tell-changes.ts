/** Tells a session what changed in its mailbox, by itself and by others, and when: only this file moves a view on. */
import type { UpdatedMessage } from '../../mailboxes/mailstore/mailstore.ts';
import { isRefusal } from '../../platform/errors/errors.ts';
import { fetchAll, fetchFlags } from './fetch.ts';
import type { FetchRequest } from './parse-fetch.ts';
import { Bye, No, type Session } from './session.ts';
import type { View } from './view.ts';
import { numberSet, type Output } from './write.ts';

export const RENAMED = 'The mailbox was deleted, renamed or restored: connect again';

/** Messages whose flags are held while the client reads: those of more are read again, piece by piece. */
const HELD_MAX = 1_000;
const REMOVALS_AT_ONCE = 5_000;

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
  const { added, removed, token, flags, many } = await readNews(session, tellsFlags);
  // Before anything changes the view: what fails until here is told the next time.
  if (flags !== '') yield flags;
  if (many.length > 0) yield* fetchFlags(session, many);
  for (const uid of added) view.add(uid);
  for (const uid of removed) view.untold.add(uid);
  view.token = token;
  // After the flags, which name messages by the numbers that the client still has.
  if (withRemovals) for (const line of tellRemovals(session, view)) yield line;
  else if (view.untold.size === 0) view.highestModseq = highestOf(view);
  told.clear();
  const unknown = added.filter((uid) => !made.delete(uid));
  if (added.length > 0) yield view.tellSize();
  if (selected?.fetch && unknown.length > 0) yield* fetchNew(session, unknown, selected.fetch);
}

/** What changed since the state that the view has. */
interface News {
  readonly added: readonly number[];
  readonly removed: readonly number[];
  readonly token: string;
  /** The lines of changed flags; `''` where they are of many messages. */
  readonly flags: string;
  /** The messages, where their flags are not held. */
  readonly many: readonly number[];
}

async function readNews(session: Session, tellsFlags: boolean): Promise<News> {
  const { services, user, told, selected: view } = session;
  const { name: mailbox, uidvalidity } = view.mailbox;
  // Without fields, which changes have in any case, it is one page: each of many would read all changes again.
  const asked = { mailbox, uidvalidity: String(uidvalidity), token: view.token };
  const { changes, token, reset } = await services.mailstore.sync(user, asked).catch(refuseRenamed);
  if (reset) throw new Bye(RENAMED);
  const added: number[] = [];
  /** Messages that were told before their flags. */
  const again: number[] = [];
  for (const { uid } of changes.added) {
    if (uid > (added.at(-1) ?? view.lastUid)) added.push(uid);
    else if (tellsFlags) again.push(uid);
  }
  const isNews = ({ uid, modseq }: UpdatedMessage) => tellsFlags && told.get(uid) !== modseq;
  const news = changes.updated.filter(isNews);
  const isHeld = again.length === 0 && news.length <= HELD_MAX;
  const flags = isHeld ? news.map((one) => writeFlags(session, one)).join('') : '';
  const all = isHeld ? [] : [...again, ...news.map(({ uid }) => uid)];
  const many = all.sort((a, b) => a - b);
  return { added, removed: changes.removed.map(({ uid }) => uid), token, flags, many };
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

const isMissing = isRefusal('mailbox_not_found');

function refuseRenamed(error: unknown): never {
  throw isMissing(error) ? new Bye(RENAMED) : error;
}

function* tellRemovals(session: Session, view: View): Generator<Output> {
  const gone = view.untold;
  view.highestModseq = highestOf(view);
  if (gone.size === 0) return;
  const uids = view.uids.filter((uid) => gone.has(uid));
  const numbers = view.remove(gone);
  gone.clear();
  if (session.qresync && uids.length > 0) yield `* VANISHED ${numberSet(uids)}\r\n`;
  else {
    for (let at = 0; at < numbers.length; at += REMOVALS_AT_ONCE) {
      const some = numbers.slice(at, at + REMOVALS_AT_ONCE);
      yield some.map((number) => `* ${number} EXPUNGE\r\n`).join('');
    }
  }
}

/** Flags of one message, as they are told unasked; `''` where the session does not see it. */
function writeFlags(session: Session, { uid, modseq, flags }: UpdatedMessage): string {
  const view = session.selected;
  const number = view.numberOf(uid);
  if (number === 0) return '';
  const text = flags.join(' ');
  const more = session.condstore ? ` MODSEQ (${modseq})` : '';
  const told = view.flagsOf(uid, text);
  return `${view.announce(text)}* ${number} FETCH (UID ${uid} FLAGS (${told})${more})\r\n`;
}

/** Milliseconds between two times at which a session is told. */
const TELL_EVERY_MS = 100;

/** When a session is told what others changed: of the first change at once, then of all that came in between. */
export class TellTimer {
  readonly #tell: () => void;
  #toldAt = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(tell: () => void) {
    this.#tell = tell;
  }

  /** Something changed. */
  start(): void {
    if (this.#timer) return;
    const wait = Math.max(0, this.#toldAt + TELL_EVERY_MS - performance.now());
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#toldAt = performance.now();
      this.#tell();
    }, wait);
  }

  stop(): void {
    clearTimeout(this.#timer);
  }
}
