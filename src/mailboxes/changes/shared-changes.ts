/**
 * Publishes changes to all nodes. Listeners of this node get them at once, as on a single node; the other nodes get
 * changes that come together as one text, with only the latest change of each mailbox.
 *
 * While the connection to the others is closed, changes wait, and are sent when it opens. If changes are lost all the
 * same (a node is killed, too many wait), the other nodes find them in the database: `realtime/` reads it once a
 * minute.
 */
import type { Logger } from 'pino';
import { type Static, Type } from 'typebox';
import { Compile } from 'typebox/schema';
import {
  type Change,
  type ChangeListener,
  type Changes,
  InProcessChanges,
} from './in-process-changes.ts';

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

const accountId = Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER });
const decimal = Type.String({ pattern: '^(?:0|[1-9][0-9]{0,18})$' });
const text = (maxLength: number) => Type.String({ minLength: 1, maxLength });

/** One text; a newer node may send kinds of changes that this one does not know. */
const envelopeType = Type.Object({
  node: text(64),
  changes: Type.Array(Type.Unknown(), { maxItems: BATCH_MAX }),
});
const envelope = Compile(envelopeType);
const change = Compile(
  Type.Union([
    Type.Object({
      kind: Type.Literal('mailbox'),
      accountId,
      mailbox: text(1_024),
      uidvalidity: decimal,
      token: text(255),
      eventType: text(255),
    }),
    Type.Object({ kind: Type.Enum(['mailboxes', 'subscriptions']), accountId }),
    Type.Object({ kind: Type.Literal('events'), userId: text(255) }),
    Type.Object({
      kind: Type.Literal('mail_sessions'),
      accountId,
      by: Type.Enum(['app_password', 'session']),
      id: text(64),
    }),
    Type.Object({
      kind: Type.Literal('access'),
      accountId,
      reason: Type.Enum(['suspended', 'deleted', 'password_reset']),
    }),
  ]),
);

interface SharedChangesOptions {
  /** Name of this node, new at each start. */
  readonly node: string;
  readonly wire: NodeWire;
  readonly log: Pick<Logger, 'warn'>;
  /** Called with the number of changes that were sent, were received, or were no changes. */
  readonly count?: (result: 'sent' | 'received' | 'refused', amount: number) => void;
}

export class SharedChanges implements Changes {
  readonly #options: SharedChangesOptions;
  readonly #here = new InProcessChanges();
  /** Changes that were not sent yet: the latest of each mailbox, and of each list, account and end of sessions. */
  readonly #waiting = new Map<string, Change>();
  #sending: Promise<void> | undefined;
  #warnedAt = Number.NEGATIVE_INFINITY;

  constructor(options: SharedChangesOptions) {
    this.#options = options;
  }

  publish(published: Change): void {
    this.#here.publish(published);
    const key = keyOf(published);
    this.#waiting.delete(key);
    this.#waiting.set(key, published);
    if (this.#waiting.size > WAITING_MAX) this.#forgetOldest();
    void this.flush();
  }

  subscribe(account: number, listener: ChangeListener): () => void {
    return this.#here.subscribe(account, listener);
  }

  subscribeAll(listener: (change: Change) => void): () => void {
    return this.#here.subscribeAll(listener);
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
    const good = read.changes.filter((value) => change.Check(value));
    for (const value of good) this.#here.publish(value);
    count?.('received', good.length);
    if (good.length < read.changes.length) this.#refuse(read.changes.length - good.length);
  }

  #forgetOldest(): void {
    for (const key of this.#waiting.keys()) {
      this.#waiting.delete(key);
      return;
    }
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

function readEnvelope(received: string): Static<typeof envelopeType> | undefined {
  if (received.length > TEXT_MAX) return undefined;
  try {
    const value: unknown = JSON.parse(received);
    return envelope.Check(value) ? value : undefined;
  } catch {
    return undefined;
  }
}
