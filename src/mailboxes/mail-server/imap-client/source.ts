/**
 * Octets of a message or of one of its parts, fetched in pieces. Each piece is a command of its own
 * (`BODY.PEEK[section]<start.length>`, RFC 3501 section 6.4.5), so that a reader that stalls holds
 * neither a connection nor more memory than one piece.
 */

import { UidSet } from '../../../protocols/imap-syntax/imap-syntax.ts';
import type { Connection } from './connection.ts';
import { fetchRows } from './fetch.ts';
import { type Argument, bytesOf, peek } from './wire.ts';

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
