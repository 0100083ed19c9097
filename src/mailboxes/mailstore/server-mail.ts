/** Mail on its way to a mail server that the operator runs, where it has the mailboxes, and what becomes of it. */

/** Why a mailbox did not get a message. */
export interface MailboxFailure {
  /** Reply code (RFC 5321 section 4.2); absent where the failure is no reply. */
  readonly status?: number;
  /** RFC 3463: the mail server's, or ours where it gave none. */
  readonly enhancedStatus: string;
  /** One line of at most 500 characters. */
  readonly text: string;
}

/** How an attempt for one mailbox ended. */
export type MailboxResult =
  | { readonly result: 'delivered' }
  | { readonly result: 'temporary' | 'permanent'; readonly error: MailboxFailure };

/** A message on its way to the mail server, with its trace fields. */
export interface ServerMail {
  /** Reads the source from its start; may be called several times. */
  readonly open: () => AsyncIterable<Uint8Array>;
  /** Octets. */
  readonly size: number;
  /** Reverse-path without angle brackets; `''` is the null sender. */
  readonly from: string;
}
