/** UID FETCH and UID SEARCH: rows as they come, UIDs as ranges. */
import { when } from '../../../platform/errors/errors.ts';
import { UidSet } from '../../../protocols/imap-syntax/imap-syntax.ts';
import type { Connection } from './connection.ts';
import { ImapFailure, saysNo } from './failure.ts';
import type { Untagged } from './link.ts';
import type { ImapItem, ImapResponse } from './responses.ts';
import {
  type Argument,
  atom,
  bytesOf,
  listOf,
  modseqOf,
  numberOf,
  peek,
  sequence,
  textOf,
  valuesOf,
} from './wire.ts';

/** The items of one FETCH, by name. */
export type FetchedItems = ReadonlyMap<string, ImapItem>;

/**
 * Fetches items of messages; `onRow` is called for each requested message that exists.
 * Messages that were expunged meanwhile are left out (RFC 2180 section 4.1).
 */
export async function fetchRows(
  connection: Connection,
  uids: UidSet,
  items: readonly Argument[],
  onRow: (uid: number, items: FetchedItems) => void,
): Promise<void> {
  for (const text of uids.texts()) {
    const wanted = UidSet.parse(text) ?? UidSet.empty;
    const args = [sequence(text), [atom('UID'), ...items]];
    const fetched = connection.command('UID FETCH', args, {
      FETCH: eachRow(wanted, onRow, connection),
    });
    // RFC 5530 section 3: messages that could not be fetched are removed, the rest came.
    await fetched.catch(when((error) => saysNo(error, 'EXPUNGEISSUED'), undefined));
  }
}

/** Passes on the rows of these messages; one of another is a change of the mailbox, without a request. */
export function eachRow(
  wanted: UidSet,
  onRow: (uid: number, items: FetchedItems) => void,
  connection: Connection,
): (response: ImapResponse) => void {
  return (response) => {
    const items = valuesOf(response.items[0]);
    const uid = numberOf(items.get('UID'));
    if (uid === undefined || wanted.within(uid, uid).size === 0) {
      if (connection.selected) connection.selected.news = true;
      return;
    }
    onRow(uid, items);
  };
}

/** Changes since a MODSEQ: rows of FETCH, and the UIDs that the server lists as removed. */
export class ChangeCollector {
  readonly changed = new Map<number, { readonly modseq: bigint; readonly flags: ImapItem }>();
  readonly #vanished: UidSet[] = [];

  vanished(): UidSet {
    return UidSet.empty.union(...this.#vanished);
  }

  readonly untagged: Untagged = {
    FETCH: (response) => {
      const items = valuesOf(response.items[0]);
      const uid = numberOf(items.get('UID'));
      const flags = items.get('FLAGS');
      const modseq = modseqOf(listOf(items.get('MODSEQ'))[0]);
      if (uid === undefined || flags === undefined || modseq === undefined) return;
      this.changed.set(uid, { modseq, flags });
    },
    VANISHED: ({ items }) => {
      // `VANISHED (EARLIER) uids` (RFC 7162 section 3.2.10.1)
      const uids = UidSet.parse(textOf(items.at(-1)) ?? '');
      if (!uids) throw new ImapFailure('garbled', { said: 'VANISHED without UIDs' });
      this.#vanished.push(uids);
    },
  };
}

/** The most messages that may have come after a mailbox was opened without a report of the server. */
const UNTOLD_MAX = 1_000;

/**
 * Refuses a list of more UIDs than the server has messages. A range of a few bytes, such as `1:4294967294`, would
 * otherwise use all memory when it is expanded.
 *
 * @throws ImapFailure `garbled`
 */
function requirePlausible(uids: UidSet, exists: number): UidSet {
  if (uids.size <= exists + UNTOLD_MAX) return uids;
  throw new ImapFailure('garbled', { said: `${uids.size} UIDs of ${exists} messages` });
}

/**
 * The UIDs of the existing messages from `first` to `last`.
 *
 * @throws ImapFailure `garbled` where they are more than possible
 */
export async function listUids(
  connection: Connection,
  first: number,
  last: number,
): Promise<UidSet> {
  const exists = connection.selected?.exists ?? 0;
  if (first > last || exists === 0) return UidSet.empty;
  const found = await searchUids(connection, [atom('UID'), sequence(`${first}:${last}`)]);
  // UID SEARCH may report removals that come after its list (RFC 3501 section 7.4.1).
  const most = Math.max(exists, connection.selected?.exists ?? 0);
  return requirePlausible(found.within(first, last), most);
}

/** The UIDs of the messages that fit the search keys (RFC 3501 section 6.4.4). */
export async function searchUids(
  connection: Connection,
  keys: readonly Argument[],
): Promise<UidSet> {
  let found = UidSet.empty;
  // RFC 4731: ranges instead of every number.
  const isCompact = connection.has('ESEARCH');
  const args = isCompact ? [atom('RETURN'), [atom('ALL')], ...keys] : keys;
  await connection.command('UID SEARCH', args, {
    ESEARCH: ({ items }) => {
      const at = items.findIndex((item) => textOf(item)?.toUpperCase() === 'ALL');
      if (at >= 0) found = found.union(UidSet.parse(textOf(items[at + 1]) ?? '') ?? UidSet.empty);
    },
    SEARCH: ({ items }) => {
      const uids = items.map((item) => numberOf(item) ?? 0);
      found = found.union(UidSet.of(uids.filter((uid) => uid > 0)));
    },
  });
  return found;
}

/*
 * Octets of a message or of one of its parts, fetched in pieces. Each piece is a command of its own
 * (`BODY.PEEK[section]<start.length>`, RFC 3501 section 6.4.5), so that a reader that stalls holds
 * neither a connection nor more memory than one piece.
 */

export const PIECE = 512 * 1024;

/** `''` for the whole message. */
export type Section = string;

/**
 * One piece.
 *
 * @param more items to fetch with it
 * @returns undefined where the message does not exist (any more); shorter than requested at the end
 */
export async function fetchPiece(
  connection: Connection,
  uid: number,
  section: Section,
  start: number,
  more: readonly Argument[] = [],
  length = PIECE,
) {
  let piece: { readonly bytes: Buffer; readonly items: Parameters<RowReader>[1] } | undefined;
  const wanted = [...more, peek(section, [start, length])];
  await fetchRows(connection, UidSet.of([uid]), wanted, (_, items) => {
    const bytes = bytesOf(items.get('BODY'));
    if (bytes) piece = { bytes, items };
  });
  return piece;
}

type RowReader = Parameters<typeof fetchRows>[3];

export interface Piece {
  readonly bytes: Buffer;
  /** Whether nothing follows. */
  readonly isLast: boolean;
}

/** Reads on, piece by piece. @param next returns the piece at an offset */
export async function* readPieces(
  next: (start: number) => Promise<Piece>,
  from = 0,
  end = Number.POSITIVE_INFINITY,
): AsyncGenerator<Buffer> {
  let at = from;
  while (at < end) {
    const { bytes, isLast } = await next(at);
    if (bytes.length > 0) yield bytes.subarray(0, Math.min(bytes.length, end - at));
    at += bytes.length;
    if (isLast || bytes.length === 0) return;
  }
}
