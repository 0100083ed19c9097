/** FETCH and UID FETCH (RFC 9051 section 6.4.5): rows are read in pieces, so that no mailbox is in memory. */
import { INLINE_MAX } from '../../mailboxes/bodies/bodies.ts';
import { hasFlag, isFact, positionOf, takeTurnOf } from '../../mailboxes/mailstore/mailstore.ts';
import { chunks } from '../../platform/database/database.ts';
import { UidSet } from '../../protocols/imap-syntax/imap-syntax.ts';
import { BadCommand } from './cursor.ts';
import { headersOf, isKept } from './header-fields.ts';
import { Pace } from './long-work.ts';
import { type FetchItem, type FetchRequest, readFetch } from './parse-fetch.ts';
import { cutPartial } from './partial.ts';
import { isWhole } from './sections.ts';
import { type Answer, type Command, CutOff, GONE, No, type Session } from './session.ts';
import { readSince, vanished } from './since.ts';
import { columnOf, Source } from './source.ts';
import { textsOf } from './texts.ts';
import type { Output, Part } from './write.ts';
import { columnsOf, isUnknown, type Message, TEXT_MAX, writeMessage } from './write-message.ts';

/** Messages whose rows are read at once: with their sources, with texts, with neither. A structure may have half a megabyte. */
const WITH_SOURCE = 32;
const WITH_TEXTS = 200;
const WITHOUT = 500;
/** Octets of sources that are read at once. */
const AHEAD_MAX = 256 * 1024;
/** The same where flags alone are asked for: they come from the index of the mailbox, and no row is read. */
const ONLY_FLAGS = 5_000;

export function fetching(isByUid: boolean): Command<Answer> {
  return {
    // A client may use the sequence numbers of the next answers only if these stay (RFC 9051 section 5.5).
    tells: isByUid ? 'everything' : 'no removals',
    async *run(session, command) {
      const set = command.space().sequenceSet();
      const request = readFetch(command.space(), isByUid);
      // RFC 7162 section 3.2.6.
      if (request.vanished && !session.qresync) throw new BadCommand('VANISHED needs QRESYNC');
      const named = session.selected.resolve(set, isByUid);
      const uids = request.partial ? cutPartial(named, request.partial) : named;
      if (request.items.some(({ kind }) => kind === 'MODSEQ')) yield session.enableCondstore();
      if (request.vanished) yield* tellVanished(session, set, request.changedSince ?? 0);
      return yield* fetchAll(session, uids, request, isByUid);
    },
  };
}

/** What of a set was removed since (RFC 7162 section 3.2.6). */
async function* tellVanished(
  session: Session,
  set: string,
  changedSince: number,
): AsyncGenerator<string> {
  const view = session.selected;
  // As it is now: what came since the mailbox was opened may be gone without a word to this session.
  const { imap } = session.services.mailstore;
  const { uidnext } = await imap.open(session.user, view.mailbox.name);
  const known = UidSet.parse(set.replaceAll('*', String(uidnext - 1))) ?? UidSet.empty;
  // The messages that changed are read by the command itself.
  const { gone } = await readSince(session, view, { modseq: changedSince, known }, uidnext);
  yield vanished(gone);
}

export async function* fetchAll(
  session: Session,
  uids: readonly number[],
  request: FetchRequest,
  isByUid: boolean,
): Answer {
  const view = session.selected;
  const { imap } = session.services.mailstore;
  const marksSeen =
    !view.isReadOnly && request.items.some((item) => 'marksSeen' in item && item.marksSeen);
  const needs = needsOf(request.items);
  const columns = columnsOf(request);
  const isMany = uids.length > WITHOUT;
  const isByIndex = isMany && needs.onlyFlags;
  // They need the index as it is now: after each change of flags all of it is copied.
  const isByFacts = isMany && !isByIndex && !marksSeen && !needs.structure && columns.every(isFact);
  const atOnce = needs.source ? WITH_SOURCE : needs.texts || needs.headers ? WITH_TEXTS : WITHOUT;
  const size = isByIndex ? ONLY_FLAGS : isByFacts ? WITHOUT : atOnce;
  const count: Unsent = { undecoded: 0, missing: 0 };
  const pace = new Pace(session, Number.POSITIVE_INFINITY);
  for (let at = 0; at < uids.length; at += size) {
    const piece = uids.slice(at, at + size);
    // Other connections have their turn, however fast this client reads.
    await takeTurnOf(session.user);
    session.channel.signal.throwIfAborted();
    const read: Message[] = isByIndex
      ? await readFlags(session, piece)
      : isByFacts
        ? await imap.facts.read(session.user, view.mailbox, piece)
        : needs.structure
          ? await imap.rows(view.mailbox, piece, [...columns, 'structure'])
          : await imap.rows(view.mailbox, piece, columns);
    count.missing += piece.length - read.length;
    const since = request.changedSince ?? 0;
    const wanted = since === 0 ? read : read.filter((row) => columnOf(row, 'modseq') > since);
    // Of facts, more are read at once than of what belongs to them.
    const hasMore = needs.source || needs.headers;
    const groups = isByFacts && hasMore ? [...chunks(wanted, atOnce)] : [wanted];
    for (const [index, some] of groups.entries()) {
      if (index > 0) await takeTurnOf(session.user);
      if (index > 0) session.channel.signal.throwIfAborted();
      const seen = marksSeen ? await markSeen(session, some) : undefined;
      const named = some.map(({ uid }) => uid);
      const previews = needs.previews ? await imap.rows(view.mailbox, named, ['preview']) : [];
      const previewOf = new Map(previews.map(({ uid, preview }) => [uid, preview ?? undefined]));
      for (const rows of needs.source ? amountsOf(some) : [some]) {
        const bodies = await readBodies(session, needs, rows);
        yield* writeRows(session, rows, request, { ...bodies, seen, previewOf }, count, pace);
      }
    }
  }
  // After all others, which the client can use.
  if (count.undecoded > 0) throw new No('UNKNOWN-CTE', 'The encoding of some parts is not known');
  // Those that somebody removed (RFC 5530). Not NO: programs would take the others for not fetched.
  return count.missing > 0 && !isByUid ? GONE : 'That is all';
}

const ALL = { changedSince: undefined, vanished: false, partial: undefined } as const;
const FLAGS: FetchRequest = { ...ALL, items: [{ kind: 'UID' }, { kind: 'FLAGS' }] };
const WITH_MODSEQ: FetchRequest = { ...ALL, items: [...FLAGS.items, { kind: 'MODSEQ' }] };

/** The flags of many messages, as they are told unasked. @param uids ascending */
export const fetchFlags = (session: Session, uids: readonly number[]): Answer =>
  fetchAll(session, uids, session.condstore ? WITH_MODSEQ : FLAGS, true);

/** How many messages are left out of the answer, by the reason. */
interface Unsent {
  undecoded: number;
  missing: number;
}

/** Rows whose sources are read at once: what is read ahead of a client is in memory until it has taken that. */
function* amountsOf(rows: readonly Message[]): Generator<readonly Message[]> {
  let from = 0;
  let octets = 0;
  for (const [at, row] of rows.entries()) {
    // A larger one is in a file, and comes in pieces.
    const more = Math.min(columnOf(row, 'size'), INLINE_MAX);
    if (at > from && octets + more > AHEAD_MAX) {
      yield rows.slice(from, at);
      [from, octets] = [at, 0];
    }
    octets += more;
  }
  yield rows.slice(from);
}

/** What was read of messages. */
type ReadAhead = Awaited<ReturnType<typeof readBodies>> & {
  readonly seen: ReadonlyMap<number, Flagged> | undefined;
  readonly previewOf: ReadonlyMap<number, string | undefined>;
};

async function* writeRows(
  session: Session,
  rows: readonly Message[],
  { items }: FetchRequest,
  { texts, headers, bodies, seen, previewOf }: ReadAhead,
  count: Unsent,
  pace: Pace,
): AsyncGenerator<Output> {
  const binaries = items.filter((item) => 'part' in item);
  // Of several messages at a time: each that is yielded passes several generators, and a list costs more than its text.
  let told: Part[] = [];
  let text = '';
  let octets = 0;
  for (const row of rows) {
    const flagged = seen?.get(row.uid);
    const isGone =
      (lacksText(row) && !texts.has(row.body_id)) ||
      headers?.has(row.body_id) === false ||
      bodies?.has(row.body_id) === false;
    // Its source went after its row was read.
    if (isGone) count.missing++;
    if (isGone) continue;
    const source = bodies && new Source(session, row, bodies.get(row.body_id));
    if (source && binaries.some((item) => isUnknown(item, source.root))) {
      count.undecoded++;
      continue;
    }
    const one = writeMessage(session, flagged ? { ...row, ...flagged } : row, items, {
      source,
      texts: texts.get(row.body_id),
      header: headers?.get(row.body_id),
      preview: previewOf.get(row.uid),
      hasNewFlags: flagged !== undefined,
    });
    let isBegun = false;
    try {
      for (const next of one) {
        const part = typeof next === 'function' ? await next() : next;
        // A message may have a header of many fields, of which one item asks for other ones than the next.
        if (pace.mustYield) await pace.leaveTurn();
        if (typeof part === 'string') {
          text += part;
          octets += part.length;
        } else {
          told.push(text, part);
          text = '';
        }
        if (octets < TEXT_MAX) continue;
        yield told.length > 0 ? [...told, text] : text;
        [told, text, octets] = [[], '', 0];
        isBegun = true;
      }
    } catch (cause) {
      throw isBegun ? new CutOff(cause) : cause;
    }
    // Its end goes first: where the next one cannot be read, a NO follows.
    if (!isBegun || text === '') continue;
    yield told.length > 0 ? [...told, text] : text;
    [told, text, octets] = [[], '', 0];
  }
  yield told.length > 0 ? [...told, text] : text;
}

/** What is asked for of the bodies of messages, by their ids. */
async function readBodies(
  session: Session,
  needs: ReturnType<typeof needsOf>,
  rows: readonly Message[],
) {
  const { imap } = session.services.mailstore;
  return {
    texts: await textsOf(session, ['envelope', 'structure'], rows.filter(lacksText)),
    headers: needs.headers ? await headersOf(session, rows) : undefined,
    bodies: needs.source ? await imap.bodies(rows.map(({ body_id }) => body_id)) : undefined,
  };
}

/** Whether texts that are asked for were not made yet. */
function lacksText({ kept_envelope, kept_structure }: Message): boolean {
  return kept_envelope === null || kept_structure === null;
}

interface Flagged {
  readonly flags: string;
  readonly modseq: number;
}

/** Sets `\Seen` where it lacks, in one change. @returns the new flags, by UID */
async function markSeen(session: Session, rows: readonly Message[]): Promise<Map<number, Flagged>> {
  const unread = rows.filter((row) => !hasFlag(columnOf(row, 'flags'), '\\Seen'));
  if (unread.length === 0) return new Map();
  const set = session.setOf(unread.map(({ uid }) => uid));
  const { updated } = await session.services.mailstore.setFlags(session.user, set, {
    add: ['\\Seen'],
  });
  for (const { uid, modseq } of updated) session.told.set(uid, modseq);
  return new Map(
    updated.map(({ uid, flags, modseq }) => [
      uid,
      { flags: flags.join(' '), modseq: Number(modseq) },
    ]),
  );
}

/** What has to be read in addition to the columns that cost little. */
function needsOf(items: readonly FetchItem[]) {
  const has = (kinds: readonly FetchItem['kind'][]) =>
    items.some(({ kind }) => kinds.includes(kind));
  const sections = items.flatMap((item) => (item.kind === 'section' ? [item.section] : []));
  const withParts = has(['BODY', 'binary', 'binary size']);
  const source = withParts || !sections.every(isKept);
  return {
    source,
    // Where the source is read anyway, they come from there.
    headers: !source && sections.length > 0,
    // A whole message is sent without a look at its parts.
    structure: withParts || (source && !sections.every(isWhole)),
    texts: has(['ENVELOPE', 'BODYSTRUCTURE']),
    previews: has(['PREVIEW']),
    onlyFlags: items.every(({ kind }) => ['UID', 'FLAGS', 'MODSEQ'].includes(kind)),
  };
}

/** Flags by UID, from what all sessions share of the mailbox: it is not held while a client reads what was sent. */
async function readFlags(
  { services, user, selected }: Session,
  asked: readonly number[],
): Promise<Message[]> {
  const { uids, modseqs, flags } = await services.mailstore.imap.index(user, selected.mailbox);
  return asked.flatMap((uid) => {
    const at = positionOf(uids, uid);
    if (uids[at] !== uid) return [];
    return { uid, body_id: 0, modseq: modseqs[at] ?? 0, flags: flags[at] ?? '' };
  });
}
