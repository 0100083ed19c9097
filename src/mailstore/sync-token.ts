/**
 * Sync tokens of the embedded store, opaque to clients.
 *
 * A finished sync gives the mailbox's HIGHESTMODSEQ in decimal. While a paged sync goes on, the
 * token is a cursor `base.snapshot.uid`: the client has all changes between the two MODSEQs up to
 * that UID, or, with an `n` behind it, down to it.
 */
import { invalidField } from '../errors/errors.ts';

export type SyncToken =
  | { readonly kind: 'modseq'; readonly modseq: number }
  | {
      readonly kind: 'cursor';
      /** What the client had when the sync began; 0 for nothing. */
      readonly base: number;
      /** What it will have when it ends. */
      readonly snapshot: number;
      /** The last UID it was given. */
      readonly uid: number;
      /** Whether pages go downwards. */
      readonly newest: boolean;
    };

const TOKEN = /^(0|[1-9]\d{0,19})(?:\.(0|[1-9]\d{0,19})\.(0|[1-9]\d{0,9})(n)?)?$/;

/**
 * Reads a token that a client sent. Numbers beyond any that we count to are no error: such a token
 * is from the future and answered with a reset.
 *
 * @throws Refusal `invalid_request` when it is not of our form
 */
export function parseSyncToken(text: string): SyncToken {
  const match = TOKEN.exec(text);
  if (!match) throw invalidField('token', 'must be a token that a sync of this mailbox returned');
  const [base, snapshot, uid] = match.slice(1, 4).map((digits) => Number(digits ?? Number.NaN));
  if (base === undefined || snapshot === undefined || uid === undefined) {
    throw new Error('the token pattern has three groups');
  }
  if (Number.isNaN(snapshot)) return { kind: 'modseq', modseq: base };
  return { kind: 'cursor', base, snapshot, uid, newest: match[4] !== undefined };
}

export function formatCursor(
  { base, snapshot, newest }: { base: number; snapshot: number; newest: boolean },
  uid: number,
): string {
  return `${base}.${snapshot}.${uid}${newest ? 'n' : ''}`;
}
