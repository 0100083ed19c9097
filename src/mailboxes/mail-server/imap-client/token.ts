/**
 * Sync tokens of a mailbox on an IMAP server, opaque to clients.
 *
 * A finished sync gives the state that the client then has: `modseq-uidnext-count`. The MODSEQ alone does not
 * distinguish a new message from a changed one (UIDNEXT does), nor does it show whether the removals that a server
 * lists are exactly those of the client's messages (the count does: RFC 7162 section 3.2.10.1 lets a server list
 * more). While a paged sync goes on, the token is a cursor `base.snapshot.uid`, with two such states (the first is 0
 * where the client had nothing), followed by an `n` where pages go downwards.
 */
import { invalidField } from '../../../platform/errors/errors.ts';
import { UID_MAX } from '../../../protocols/imap-syntax/imap-syntax.ts';

/** The state of a mailbox, or of a client's copy of it, at one moment. */
export interface SyncState {
  /** HIGHESTMODSEQ, the server's or the shadow's. */
  readonly modseq: bigint;
  readonly uidnext: number;
  /** How many messages there are. */
  readonly count: number;
}

export type ImapToken =
  | { readonly kind: 'state'; readonly state: SyncState }
  | {
      readonly kind: 'cursor';
      /** The client's state when the sync began; undefined for nothing. */
      readonly base: SyncState | undefined;
      readonly snapshot: SyncState;
      /** The client has all changes up to this UID, in the order of the pages. */
      readonly afterUid: number;
      /** Whether the highest UIDs come first; only where there is no base. */
      readonly newest: boolean;
    }
  /** A token of another form: a bare MODSEQ of an event, or one of the embedded store. */
  | { readonly kind: 'foreign' };

const NUMBER = '(?:0|[1-9]\\d{0,19})';
const STATE = `${NUMBER}-${NUMBER}-${NUMBER}`;
const FINISHED = new RegExp(`^${STATE}$`);
const CURSOR = new RegExp(`^(0|${STATE})\\.(${STATE})\\.(${NUMBER})(n)?$`);
const FOREIGN = new RegExp(`^${NUMBER}(?:\\.${NUMBER}\\.${NUMBER})?$`);

/** @throws Refusal `invalid_request` where it is malformed */
export function parseImapToken(text: string): ImapToken {
  if (FINISHED.test(text)) return { kind: 'state', state: readState(text) };
  const [, base, snapshot, uid, n] = CURSOR.exec(text) ?? [];
  const isOurs = n === undefined || base === '0';
  if (base !== undefined && snapshot !== undefined && isOurs) {
    return {
      kind: 'cursor',
      base: base === '0' ? undefined : readState(base),
      snapshot: readState(snapshot),
      afterUid: Math.min(Number(uid), UID_MAX),
      newest: n !== undefined,
    };
  }
  if (FOREIGN.test(text)) return { kind: 'foreign' };
  throw invalidField('token', 'must be a token that a sync of this mailbox returned');
}

function readState(text: string): SyncState {
  const [modseq = '0', uidnext, count] = text.split('-');
  return { modseq: BigInt(modseq), uidnext: Number(uidnext), count: Number(count) };
}

export function formatState({ modseq, uidnext, count }: SyncState): string {
  return `${modseq}-${uidnext}-${count}`;
}

export function formatCursor(
  base: SyncState | undefined,
  snapshot: SyncState,
  afterUid: number,
  newest = false,
): string {
  const end = newest ? 'n' : '';
  return `${base ? formatState(base) : '0'}.${formatState(snapshot)}.${afterUid}${end}`;
}

export function isSameState(a: SyncState, b: SyncState): boolean {
  return a.modseq === b.modseq && a.uidnext === b.uidnext && a.count === b.count;
}
