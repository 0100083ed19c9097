/** The mailbox that is selected on a connection (RFC 3501 section 6.3.1). */
import type { UidSet } from '../../../protocols/imap-syntax/imap-syntax.ts';
import type { ImapResponse } from './responses.ts';
import { modseqOf, numberOf } from './wire.ts';

/** What SELECT and EXAMINE return about a mailbox, and what is known of it since. */
export interface Selected {
  readonly mailbox: string;
  readonly readOnly: boolean;
  readonly uidvalidity: string;
  readonly uidnext: number;
  exists: number;
  /** Undefined where the mailbox keeps no MODSEQs (RFC 7162 section 3.1.2.2). */
  readonly modseq: bigint | undefined;
  /** Keywords that messages may have in addition to the system flags (RFC 3501 section 7.2.6). */
  readonly keywords: readonly string[];
  /** Whether the server reported a change without a request. */
  news: boolean;
  /** UIDs that the server reported as removed since the mailbox was selected (RFC 7162 section 3.2.10.2). */
  readonly gone: UidSet[];
}

/** The answer to SELECT so far. */
export interface SelectAnswer {
  exists: number;
  uidnext: number | undefined;
  uidvalidity: string;
  modseq: bigint | undefined;
  keywords: readonly string[];
}

export function readSelectCode({ code }: ImapResponse, seen: SelectAnswer): void {
  if (code?.name === 'UIDVALIDITY') seen.uidvalidity = `${numberOf(code.values[0]) ?? ''}`;
  if (code?.name === 'UIDNEXT') seen.uidnext = numberOf(code.values[0]);
  if (code?.name === 'HIGHESTMODSEQ') seen.modseq = modseqOf(code.values[0]);
  if (code?.name === 'NOMODSEQ') seen.modseq = undefined;
}
