/** Changes, and how they are published within this process. */

/** A mailbox of an account has a new state. */
export interface MailboxChange {
  readonly kind: 'mailbox';
  readonly accountId: number;
  /** Mailbox name, `INBOX` in capitals. */
  readonly mailbox: string;
  readonly uidvalidity: string;
  /** The token that a sync would return now. */
  readonly token: string;
  /** `MailboxesChanged` for our own changes, else the mail server's word. */
  readonly eventType: string;
}

/** An account's tokens became invalid: open connections must end. */
export interface AccessChange {
  readonly kind: 'access';
  readonly accountId: number;
  readonly reason: 'suspended' | 'deleted' | 'password_reset';
}

/** Mailboxes of an account were created, renamed or deleted. */
export interface ListChange {
  readonly kind: 'mailboxes';
  readonly accountId: number;
}

/** A mail program has subscribed names of mailboxes, or no longer. */
export interface SubscriptionsChange {
  readonly kind: 'subscriptions';
  readonly accountId: number;
}

/** Sessions of mail programs must end: those that an app password opened, or one that an operator ends. */
export interface MailSessionsChange {
  readonly kind: 'mail_sessions';
  readonly accountId: number;
  readonly by: 'app_password' | 'session';
  readonly id: string;
}

/** There are new events of a user: a hint to read them. */
export interface EventsChange {
  readonly kind: 'events';
  readonly userId: string;
}

export type AccountChange =
  | MailboxChange
  | ListChange
  | SubscriptionsChange
  | AccessChange
  | MailSessionsChange;

export type Change = AccountChange | EventsChange;

export type ChangeListener = (change: AccountChange) => void;

export interface Changes {
  /** Calls every listener of the change before it returns. */
  publish(change: Change): void;
  /** Listens to one account; the returned function ends it. */
  subscribe(accountId: number, listener: ChangeListener): () => void;
  /** Listens to all changes; the returned function ends it. */
  subscribeAll(listener: (change: Change) => void): () => void;
}

/** Changes published within this process; enough for one node. */
export class InProcessChanges implements Changes {
  readonly #listeners = new Map<number, Set<ChangeListener>>();
  readonly #listenersToAll = new Set<(change: Change) => void>();

  publish(change: Change): void {
    for (const listener of this.#listenersToAll) listener(change);
    if (change.kind === 'events') return;
    // A copy, because a listener may end its own subscription while it is called.
    for (const listener of [...(this.#listeners.get(change.accountId) ?? [])]) listener(change);
  }

  subscribe(accountId: number, listener: ChangeListener): () => void {
    const listeners = this.#listeners.get(accountId) ?? new Set();
    this.#listeners.set(accountId, listeners.add(listener));
    return () => {
      listeners.delete(listener);
      if (listeners.size === 0 && this.#listeners.get(accountId) === listeners) {
        this.#listeners.delete(accountId);
      }
    };
  }

  subscribeAll(listener: (change: Change) => void): () => void {
    this.#listenersToAll.add(listener);
    return () => this.#listenersToAll.delete(listener);
  }
}
