/** COPY, MOVE (RFC 6851), EXPUNGE, CLOSE, with the codes of UIDPLUS (RFC 4315). */
import { hasFlag } from '../../mailboxes/mailstore/mailstore.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import { showProgress } from './long-work.ts';
import { type Answer, type Command, No, type Session } from './session.ts';
import { refuseReadOnly } from './store.ts';
import { tellChanges } from './tell-changes.ts';
import { numberSet } from './write.ts';

/** Messages that are moved or removed in one transaction (RFC 6851 section 3.3 allows a part). */
const AT_A_TIME = 1_000;
/** Messages of one copy: it is one transaction, in which nobody else writes. */
const COPIED_MAX = 5_000;

export function relocating(kind: 'copy' | 'move', isByUid: boolean): Command {
  return {
    tells: 'everything',
    async *run(session, command) {
      const set = command.space().sequenceSet();
      const target = command.space().mailbox();
      command.end();
      if (kind === 'move') refuseReadOnly(session);
      const uids = session.selected.resolve(set, isByUid);
      return yield* relocate(session, kind, uids, target);
    },
  };
}

async function* relocate(
  session: Session,
  kind: 'copy' | 'move',
  uids: readonly number[],
  target: string,
): Answer {
  const { mailstore } = session.services;
  if (kind === 'copy' && uids.length > COPIED_MAX) {
    throw new No('LIMIT', `At most ${COPIED_MAX} messages are copied at once`);
  }
  const from: number[] = [];
  const to: number[] = [];
  let uidvalidity = '';
  // A copy is made of all or none (RFC 9051 section 6.4.7): one that has begun ends, also where its client has left.
  const size = kind === 'copy' ? COPIED_MAX : AT_A_TIME;
  yield* inBatches(session, uids, size, async (some) => {
    const relocated = await mailstore[kind](session.user, session.setOf(some), target).catch(
      hintAtCreate,
    );
    uidvalidity = relocated.state.uidvalidity;
    for (const [before, after] of relocated.uids) {
      from.push(before);
      to.push(after);
    }
    session.wrote(relocated.state.mailbox, to);
  });
  // Messages that are gone are no error: else nobody could move or delete the others.
  const code = from.length > 0 ? `COPYUID ${uidvalidity} ${numberSet(from)} ${numberSet(to)}` : '';
  if (kind === 'copy') return code === '' ? 'Nothing to copy' : `[${code}] Copied`;
  // RFC 6851 section 4.3: the code before the removals.
  if (code !== '') yield `* OK [${code}] Moved\r\n`;
  yield* tellChanges(session, true);
  return 'Moved';
}

/** Works on messages some at a time, as long as the session may go on: a batch that has begun ends. */
async function* inBatches(
  session: Session,
  uids: readonly number[],
  size: number,
  work: (some: readonly number[]) => Promise<unknown>,
): AsyncGenerator<string> {
  let done = 0;
  const workOnAll = async () => {
    for (; done < uids.length; done += size) {
      session.channel.signal.throwIfAborted();
      await work(uids.slice(done, done + size));
    }
  };
  // One batch alone does not know how far it is.
  const known = () => (uids.length > size ? { done, of: uids.length } : undefined);
  yield* showProgress(session, workOnAll(), known);
}

/** A client may make the mailbox and try again (RFC 9051 section 6.4.7). */
export function hintAtCreate(error: unknown): never {
  if (error instanceof Refusal && error.code === 'mailbox_not_found') {
    throw new No('TRYCREATE', error.message);
  }
  throw error;
}

/** With UIDs (RFC 4315 section 2.1) only the messages that are named. */
export function expunging(isByUid: boolean): Command {
  return {
    tells: 'everything',
    async *run(session, command) {
      if (isByUid) command.expect(' ');
      const set = isByUid ? command.sequenceSet() : undefined;
      command.end();
      refuseReadOnly(session);
      const { selected } = session;
      const among = set === undefined ? undefined : new Set(selected.resolve(set, true));
      yield* removeDeleted(session, among);
      yield* tellChanges(session, true);
      return session.condstore ? `[HIGHESTMODSEQ ${selected.highestModseq}] Removed` : 'Removed';
    },
  };
}

/** Only messages that this session sees: one that came since was never shown as deleted. */
async function* removeDeleted(
  session: Session,
  among: ReadonlySet<number> | undefined,
): AsyncGenerator<string> {
  const { mailstore } = session.services;
  const view = session.selected;
  const { uids: all, flags } = await mailstore.imap.index(session.user, view.mailbox);
  const marked = all.filter((_, at) => hasFlag(flags[at] ?? '', '\\Deleted'));
  const uids = marked.filter((uid) => view.numberOf(uid) > 0 && (among?.has(uid) ?? true));
  yield* inBatches(session, uids, AT_A_TIME, (some) =>
    mailstore.expunge(session.user, session.setOf(some)),
  );
}

/** Removes what is marked, and tells nothing of it (RFC 9051 section 6.4.1). */
export const close: Command = {
  tells: 'nothing',
  async *run(session, command) {
    command.end();
    if (!session.selected.isReadOnly) yield* removeDeleted(session, undefined);
    session.wrote(session.selected.mailbox.name);
    await session.closeMailbox();
    return 'Closed';
  },
};
