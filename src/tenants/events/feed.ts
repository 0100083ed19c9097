/**
 * Wakes those who follow a user's events: one place for all streams of this process. It carries no event: whoever is woken
 * reads the rows after its own place. So nothing falls between what was read and what comes next, as long as it follows
 * before it reads.
 *
 * Idle followers cost no query. Hints between nodes may be lost: {@link EventFeed.look} finds what they were about, with
 * one query for all followers.
 */
import { LRUCache } from 'lru-cache';
import type { Change, Changes, MailboxChange } from '../../mailboxes/changes/changes.ts';
import { entries } from '../../platform/memory/memory.ts';
import type { EventScope, Events } from './read-events.ts';

/** A mailbox of a user has a new state. */
export interface FollowedMailbox extends Omit<MailboxChange, 'kind' | 'eventType'> {
  readonly address: string;
}

/** Whose an account is: that never changes. */
export interface AccountOwner {
  readonly userId: string;
  readonly organizationId: string | undefined;
  readonly address: string;
}

export interface EventFeedOptions {
  readonly events: Pick<Events, 'usersSince' | 'lastId'>;
  readonly changes: Pick<Changes, 'subscribeAll'>;
  /** Finds the owner of an account; undefined where there is none. */
  readonly findOwner: (accountId: number) => Promise<AccountOwner | undefined>;
}

const OWNERS_MAX = 50_000;
/** Mailboxes whose last change waits for a slow follower; of more, the oldest is left out. */
const MAILBOXES_MAX = 1_000;

export class EventFeed {
  readonly #options: EventFeedOptions;
  /** By user. */
  readonly #followers = new Map<string, Set<Follower>>();
  readonly #owners: LRUCache<number, AccountOwner>;
  #unsubscribe: (() => void) | undefined;
  /** The highest ids that the last two looks found. */
  #seen: readonly [number, number] | undefined;

  constructor(options: EventFeedOptions) {
    this.#options = options;
    this.#owners = new LRUCache({
      ...entries(OWNERS_MAX),
      fetchMethod: (accountId) => options.findOwner(accountId),
      ignoreFetchAbort: true,
    });
  }

  /**
   * Follows a user's events until {@link Follower.end}.
   *
   * @param takesMailboxes whether it is also told of changes of the user's mailboxes
   * @param onEnd called once, when it ends
   */
  follow(scope: EventScope, takesMailboxes = false, onEnd = () => {}): Follower {
    this.#unsubscribe ??= this.#options.changes.subscribeAll((change) => this.#pass(change));
    const { userId } = scope;
    const followers = this.#followers.get(userId) ?? new Set();
    this.#followers.set(userId, followers);
    const follower = new Follower(scope, takesMailboxes, () => {
      if (!followers.delete(follower)) return;
      onEnd();
      if (followers.size === 0 && this.#followers.get(userId) === followers) {
        this.#followers.delete(userId);
      }
      if (this.#followers.size > 0) return;
      this.#unsubscribe?.();
      this.#unsubscribe = undefined;
    });
    followers.add(follower);
    return follower;
  }

  /** How many follow a user here. */
  count(userId: string): number {
    return this.#followers.get(userId)?.size ?? 0;
  }

  /** Wakes whoever may have missed a hint. */
  async look(): Promise<void> {
    if (this.#followers.size === 0) {
      this.#seen = undefined;
      return;
    }
    const { events } = this.#options;
    if (!this.#seen) {
      const last = await events.lastId();
      this.#seen = [last, last];
      for (const userId of this.#followers.keys()) this.#wake(userId);
      return;
    }
    // A transaction that had its ids before the last look may have committed since.
    const [from, until] = this.#seen;
    const { users, last } = await events.usersSince(from);
    this.#seen = [until, last];
    for (const userId of users) this.#wake(userId);
  }

  #wake(userId: string): void {
    for (const follower of this.#followers.get(userId) ?? []) follower.wake();
  }

  #pass(change: Change): void {
    if (change.kind === 'events') this.#wake(change.userId);
    if (change.kind === 'mailbox') void this.#passMailbox(change);
  }

  async #passMailbox({ kind: _, eventType: __, ...change }: MailboxChange): Promise<void> {
    // A hint that fails is lost.
    const owner = await this.#owners.fetch(change.accountId).catch(() => undefined);
    if (!owner) return;
    for (const follower of this.#followers.get(owner.userId) ?? []) {
      follower.tell(owner, { ...change, address: owner.address });
    }
  }
}

/** One that follows a user's events. */
export class Follower {
  readonly #scope: EventScope;
  readonly #takesMailboxes: boolean;
  readonly #end: () => void;
  readonly #mailboxes = new Map<string, FollowedMailbox>();
  #isWoken = false;
  #waiting: (() => void) | undefined;

  constructor(scope: EventScope, takesMailboxes: boolean, end: () => void) {
    this.#scope = scope;
    this.#takesMailboxes = takesMailboxes;
    this.#end = end;
  }

  end(): void {
    this.#end();
  }

  /** There may be something to read. */
  wake(): void {
    this.#isWoken = true;
    this.#waiting?.();
  }

  /** Keeps the last change of a mailbox until {@link takeMailboxes}. */
  tell({ organizationId }: AccountOwner, change: FollowedMailbox): void {
    const scope = this.#scope.organizationId;
    if (!this.#takesMailboxes || (scope !== undefined && scope !== organizationId)) return;
    const key = `${change.accountId} ${change.mailbox}`;
    this.#mailboxes.delete(key);
    this.#mailboxes.set(key, change);
    for (const oldest of this.#mailboxes.keys()) {
      if (this.#mailboxes.size <= MAILBOXES_MAX) break;
      this.#mailboxes.delete(oldest);
    }
    this.wake();
  }

  takeMailboxes(): FollowedMailbox[] {
    const changes = [...this.#mailboxes.values()];
    this.#mailboxes.clear();
    return changes;
  }

  /**
   * Waits until there may be something to read.
   *
   * @param ms at most
   * @param signal ends it
   * @returns false where nothing woke it
   */
  async wait(ms: number, signal: AbortSignal): Promise<boolean> {
    if (!this.#isWoken && !signal.aborted) {
      const { promise, resolve } = Promise.withResolvers<void>();
      const end = () => resolve();
      const timer = setTimeout(end, ms);
      this.#waiting = end;
      signal.addEventListener('abort', end);
      await promise;
      signal.removeEventListener('abort', end);
      clearTimeout(timer);
      this.#waiting = undefined;
    }
    const isWoken = this.#isWoken;
    this.#isWoken = false;
    return isWoken;
  }
}
