/**
 * What changed, for listeners: mailboxes with a new state, accounts that lost their access, users with new events.
 * Stores nothing; a listener that was disconnected catches up by sync, so an event is a hint and may be lost in a crash,
 * while the change itself is in the mail store.
 *
 * Changes are published after the commit, never before. Where there are several nodes, {@link SharedChanges} sends
 * them to the others as well.
 */
import type { Logger } from 'pino';
import { type Static, Type } from 'typebox';
import { Compile } from 'typebox/schema';

const accountId = Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER });
const decimal = Type.String({ pattern: '^(?:0|[1-9][0-9]{0,18})$' });
const text = (maxLength: number) => Type.String({ minLength: 1, maxLength });

/** A mailbox of an account has a new state. */
const mailboxState = Type.Object({
  kind: Type.Literal('mailbox'),
  accountId,
  /** Mailbox name, `INBOX` in capitals. */
  mailbox: text(1_024),
  uidvalidity: decimal,
  /** The token that a sync would return now. */
  token: text(255),
  /** `MailboxesChanged` for our own changes, else the mail server's word. */
  eventType: text(255),
});
/** An account's tokens became invalid: open connections must end. */
const accessChange = Type.Object({
  kind: Type.Literal('access'),
  accountId,
  reason: Type.Enum(['suspended', 'deleted', 'password_reset']),
});
/** Mailboxes of an account were created, renamed or deleted. */
const listChange = Type.Object({ kind: Type.Literal('mailboxes'), accountId });
/** A mail program has subscribed names of mailboxes, or no longer. */
const subscriptionsChange = Type.Object({ kind: Type.Literal('subscriptions'), accountId });
/** Sessions of mail programs must end: those that an app password opened, or one that an operator ends. */
const mailSessionsChange = Type.Object({
  kind: Type.Literal('mail_sessions'),
  accountId,
  by: Type.Enum(['app_password', 'session']),
  id: text(64),
});
/** There are new events of a user: a hint to read them. */
const eventsChange = Type.Object({ kind: Type.Literal('events'), userId: text(255) });

const accountChange = Type.Union([
  mailboxState,
  accessChange,
  listChange,
  subscriptionsChange,
  mailSessionsChange,
]);

export type MailboxChange = Readonly<Static<typeof mailboxState>>;
export type AccessChange = Readonly<Static<typeof accessChange>>;
export type ListChange = Readonly<Static<typeof listChange>>;
export type AccountChange = Readonly<Static<typeof accountChange>>;
export type Change = AccountChange | Readonly<Static<typeof eventsChange>>;

type ChangeListener = (change: AccountChange) => void;

/**
 * A change that was made here.
 *
 * @param token that a sync would return now, such as a MODSEQ
 */
export function mailboxChange(
  { accountId }: { readonly accountId: number },
  { name, uidvalidity }: { readonly name: string; readonly uidvalidity: number | string },
  token: number | string,
): MailboxChange {
  return {
    kind: 'mailbox',
    accountId,
    mailbox: name,
    uidvalidity: String(uidvalidity),
    token: String(token),
    eventType: 'MailboxesChanged',
  };
}

export interface Changes {
  /** Calls every listener of the change before it returns. */
  publish(change: Change): void;
  /** Listens to one account; the returned function ends it. */
  subscribe(accountId: number, listener: ChangeListener): () => void;
  /** Listens to all changes, `isOwn` where this node made them; the returned function ends it. */
  subscribeAll(listener: (change: Change, isOwn: boolean) => void): () => void;
}

/** Changes published within this process; enough for one node. */
export class InProcessChanges implements Changes {
  readonly #listeners = new Map<number, Set<ChangeListener>>();
  readonly #listenersToAll = new Set<(change: Change, isOwn: boolean) => void>();

  publish(change: Change): void {
    this.tell(change, true);
  }

  protected tell(change: Change, isOwn: boolean): void {
    for (const listener of this.#listenersToAll) listener(change, isOwn);
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

  subscribeAll(listener: (change: Change, isOwn: boolean) => void): () => void {
    this.#listenersToAll.add(listener);
    return () => this.#listenersToAll.delete(listener);
  }
}

/*
 * Publishes changes to all nodes. Listeners of this node get them at once, as on a single node; the other nodes get
 * changes that come together as one text, with only the latest change of each mailbox.
 *
 * While the connection to the others is closed, changes wait, and are sent when it opens. If changes are lost all the
 * same (a node is killed, too many wait), the other nodes find them in the database: `realtime/` reads it once a
 * minute.
 */

/** Sends texts to the other nodes. */
interface NodeWire {
  /** Whether a text can be sent now. */
  readonly isOpen: boolean;
  /** Rejects where the text may not have arrived. */
  send(text: string): Promise<unknown>;
}

/** The most waiting changes; beyond them the oldest are left to the database reads of the other nodes. */
const WAITING_MAX = 10_000;
/** The most changes in one text: publishing them takes a node some milliseconds. */
const BATCH_MAX = 1_000;
/** Characters of one text; the longest of ours has 1,000 changes with names of 1,024 characters. */
const TEXT_MAX = 8 * 1024 * 1024;
/** The shortest time between two log lines about bad texts. */
const WARN_EVERY_MS = 60_000;

/** One text; a newer node may send kinds of changes that this one does not know. */
const envelope = Type.Object({
  node: text(64),
  changes: Type.Array(Type.Unknown(), { maxItems: BATCH_MAX }),
});
const envelopeFormat = Compile(envelope);
const changeFormat = Compile(Type.Union([accountChange, eventsChange]));

interface SharedChangesOptions {
  /** Name of this node, new at each start. */
  readonly node: string;
  readonly wire: NodeWire;
  readonly log: Pick<Logger, 'warn'>;
  /** Called with the number of changes that were sent, were received, or were no changes. */
  readonly count?: (result: 'sent' | 'received' | 'refused', amount: number) => void;
}

export class SharedChanges extends InProcessChanges {
  readonly #options: SharedChangesOptions;
  /** Changes that were not sent yet: the latest of each mailbox, and of each list, account and end of sessions. */
  readonly #waiting = new Map<string, Change>();
  #sending: Promise<void> | undefined;
  #warnedAt = Number.NEGATIVE_INFINITY;

  constructor(options: SharedChangesOptions) {
    super();
    this.#options = options;
  }

  override publish(published: Change): void {
    this.tell(published, true);
    const key = keyOf(published);
    this.#waiting.delete(key);
    this.#waiting.set(key, published);
    if (this.#waiting.size > WAITING_MAX) {
      const [oldest = ''] = this.#waiting.keys();
      this.#waiting.delete(oldest);
    }
    void this.flush();
  }

  /** Sends waiting changes; resolves when none is left, or none can be sent. Never rejects. */
  flush(): Promise<void> {
    this.#sending ??= this.#sendAll().finally(() => {
      this.#sending = undefined;
    });
    return this.#sending;
  }

  /** Publishes the changes in another node's text here. A text may contain anything. */
  receive(received: string): void {
    const { node, count } = this.#options;
    const read = readEnvelope(received);
    if (read === undefined) {
      this.#refuse(1);
      return;
    }
    if (read.node === node) return;
    const good = read.changes.filter((value) => changeFormat.Check(value));
    for (const value of good) this.tell(value, false);
    count?.('received', good.length);
    if (good.length < read.changes.length) this.#refuse(read.changes.length - good.length);
  }

  #refuse(amount: number): void {
    const { count, log } = this.#options;
    count?.('refused', amount);
    const now = performance.now();
    if (now < this.#warnedAt + WARN_EVERY_MS) return;
    this.#warnedAt = now;
    log.warn(
      { amount },
      'Redis delivered messages that are not Postroom changes: they are ignored',
    );
  }

  async #sendAll(): Promise<void> {
    const { node, wire, count } = this.#options;
    // Changes of the same turn are sent together, and so are those that come while a text is being sent.
    await new Promise((resolve) => setImmediate(resolve));
    while (this.#waiting.size > 0 && wire.isOpen) {
      const batch = [...this.#waiting.entries()].slice(0, BATCH_MAX);
      const text = JSON.stringify({ node, changes: batch.map(([, told]) => told) });
      try {
        await wire.send(text);
      } catch {
        // Sent again when the connection is open; the connection itself logs that it closed.
        return;
      }
      for (const [key, told] of batch) {
        if (this.#waiting.get(key) === told) this.#waiting.delete(key);
      }
      count?.('sent', batch.length);
    }
  }
}

function keyOf(told: Change): string {
  if (told.kind === 'events') return `events ${told.userId}`;
  return `${told.accountId} ${told.kind} ${nameIn(told)}`;
}

/** What of its account a change is about, where there are several. */
function nameIn(told: Exclude<Change, { readonly kind: 'events' }>): string {
  if (told.kind === 'mail_sessions') return `${told.by} ${told.id}`;
  return told.kind === 'mailbox' ? told.mailbox : '';
}

function readEnvelope(received: string): Static<typeof envelope> | undefined {
  if (received.length > TEXT_MAX) return undefined;
  try {
    const value: unknown = JSON.parse(received);
    return envelopeFormat.Check(value) ? value : undefined;
  } catch {
    return undefined;
  }
}
