/** What can change, and how it is told. */

/** A mailbox of an account moved on. */
export interface MailboxChange {
  readonly kind: 'mailbox';
  readonly accountId: number;
  /** Mailbox name, `INBOX` in capitals. */
  readonly mailbox: string;
  readonly uidvalidity: string;
  /** The token that a sync would return now. */
  readonly token: string;
  /** `MailboxesChanged` for our own changes, else as the mail server said. */
  readonly eventType: string;
}

/** An account's tokens stopped being good: open connections must end. */
export interface AccessChange {
  readonly kind: 'access';
  readonly accountId: number;
  readonly reason: 'suspended' | 'deleted' | 'password_reset';
}

export type Change = MailboxChange | AccessChange;

export type ChangeListener = (change: Change) => void;

export interface Changes {
  /** Tells every listener of the change's account. Listeners are called before it returns. */
  publish(change: Change): void;
  /** Listens to one account; the answer ends it. */
  subscribe(accountId: number, listener: ChangeListener): () => void;
}
