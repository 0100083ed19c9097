/**
 * Changes told to all nodes. Listeners of this node are told at once, as on a single one; the other nodes
 * get what comes together as one text, of each mailbox the latest change alone.
 *
 * While the way to the others is closed, changes wait, and are told when it opens. What is lost for all that
 * (a node that is killed, too many that wait) the other nodes find in the database: `realtime/` looks there
 * once a minute.
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

/** What carries texts to the other nodes. */
export interface Wire {
  /** Whether a text can be sent now. */
  readonly isOpen: boolean;
  /** Rejects where the text may not have arrived. */
  send(text: string): Promise<unknown>;
}

/** Changes that wait; beyond them the oldest are left to the other nodes' own look. */
const WAITING_MAX = 10_000;
/** Changes in one text: telling them takes a node some milliseconds. */
const BATCH_MAX = 1_000;
/** Characters of one text; the longest of ours has 1,000 changes with names of 1,024 characters. */
const TEXT_MAX = 8 * 1024 * 1024;
/** Bad texts are told of in the log at most so often. */
const WARN_EVERY_MS = 60_000;

const accountId = Type.Integer({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER });
const decimal = Type.String({ pattern: '^(?:0|[1-9][0-9]{0,18})$' });
const text = (maxLength: number) => Type.String({ minLength: 1, maxLength });

/** One text; a newer node may send changes of kinds that this one does not know. */
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
    Type.Object({ kind: Type.Literal('mailboxes'), accountId }),
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
  readonly wire: Wire;
  readonly log: Pick<Logger, 'warn'>;
  /** Told how many changes went to the other nodes, came from them, or were no changes at all. */
  readonly count?: (result: 'sent' | 'received' | 'refused', amount: number) => void;
}

export class SharedChanges implements Changes {
  readonly #options: SharedChangesOptions;
  readonly #here = new InProcessChanges();
  /** What the other nodes were not told yet: of each mailbox, and of each list and account, the latest. */
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

  /** Tells the other nodes what waits; resolves when nothing does, or nothing can be told. Never rejects. */
  flush(): Promise<void> {
    this.#sending ??= this.#sendAll().finally(() => {
      this.#sending = undefined;
    });
    return this.#sending;
  }

  /** Tells the listeners of this node what another one sent. A text may hold anything. */
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
    // What comes in the same turn goes together; and what comes while a text is under way.
    await new Promise((resolve) => setImmediate(resolve));
    while (this.#waiting.size > 0 && wire.isOpen) {
      const batch = [...this.#waiting.entries()].slice(0, BATCH_MAX);
      const text = JSON.stringify({ node, changes: batch.map(([, told]) => told) });
      try {
        await wire.send(text);
      } catch {
        // Told again when the way is open; that it closed is said where it is noticed.
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
  return `${told.accountId} ${told.kind} ${told.kind === 'mailbox' ? told.mailbox : ''}`;
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
