/**
 * Queues the events of users with a hook, and posts them.
 *
 * The row of an event, which the transaction of the change wrote, is what is posted: whoever changes something need not know
 * of hooks, so that they cost a user without one nothing. One node reads the events after the position of each hook. In one
 * transaction it writes a delivery for each and moves the position: none is left out or queued twice, whatever crashes. Their
 * ids are the cursors of the events. The queue attempts them by its own rules, several at a time: so they arrive in any
 * order, and may arrive again.
 *
 * Whose receiver is dead fills no table: {@link QUEUED_MAX} deliveries of a hook wait, and the events after them where they
 * are kept anyway, EVENT_DAYS. When it is back, all that waits is tried at once. Events that are pruned there before they were
 * queued are missing: the hook says so.
 *
 * The end of such a delivery is no event itself: a receiver that is away would be told of each failure by one more.
 */
import { Buffer } from 'node:buffer';
import { Type } from 'typebox';
import type { Bodies } from '../../mailboxes/bodies/bodies.ts';
import type { Changes } from '../../mailboxes/changes/changes.ts';
import type { Database } from '../../platform/database/database.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import { type EpochMs, HOUR_MS, MINUTE_MS, Outage, Repeat } from '../../platform/time/time.ts';
import {
  describeEvent,
  type EventHook,
  type EventPage,
  type Events,
  findHook,
  listHooks,
  moveHook,
  OLDEST_CURSOR,
} from '../../tenants/events/events.ts';
import { findQueued, payloadFormat, type Queue, type QueueLog } from '../queue/queue.ts';
import { EVENT, partyOf, QUEUED_MAX, secretsOf } from './event-hooks.ts';
import { type WebhookSender, webhookDelays, webhookDestination } from './send-webhook.ts';

const payloads = payloadFormat(
  1,
  Type.Object({
    hookId: Type.Integer(),
    /** What is posted, byte for byte. */
    body: Type.String(),
  }),
);

export interface QueueEventsOptions {
  readonly database: Database;
  readonly queue: Queue;
  readonly bodies: Pick<Bodies, 'commit'>;
  readonly events: Pick<Events, 'read' | 'usersSince' | 'lastId'>;
  readonly changes: Pick<Changes, 'subscribeAll'>;
  readonly webhooks: WebhookSender;
  readonly log: QueueLog;
  readonly now: () => EpochMs;
  /** Deliveries that wait for one hook; {@link QUEUED_MAX} where left out. */
  readonly queuedMax?: number;
  /** How often a receiver that is behind is tried; {@link PROBE_MS} where left out. */
  readonly probeMs?: number;
}

/** Starts the worker; `queue.stop` ends it. */
export function carryOutEvents({ queue, database, webhooks, now }: QueueEventsOptions): void {
  queue.work({
    kind: EVENT,
    payloads,
    delays: webhookDelays,
    tellsEnds: true,
    async attempt({ payload, publicId: id }, signal) {
      const hook = await findHook(database.read, { id: payload.hookId });
      if (!hook) return { result: 'permanent', error: { text: 'the event hook was removed' } };
      const secrets = secretsOf(hook, now());
      return webhooks.attempt({ url: hook.url, id, body: payload.body, secrets }, signal);
    },
  });
}

/** How often it looks for hooks and events of which no hint came. */
const LOOK_MS = 10_000;
/** How often the positions of hooks without events are moved, since a cursor is kept only for days. */
const ADVANCE_MS = HOUR_MS;
/** How soon events are read again that wait for an open transaction: later each time, which may be open for an hour. */
const HELD_MS = 50;
const HELD_MAX_MS = 2_000;
/** How often the receiver of a hook with many deliveries that wait is tried, whatever their schedule. */
const PROBE_MS = 5 * MINUTE_MS;
const HOOKS_AT_A_TIME = 1_000;
const USERS_AT_A_TIME = 8;
const EVENTS_AT_A_TIME = 100;

/** A hook, with the place up to which this process has read; that of the row may be an earlier one. */
interface KnownHook extends EventHook {
  readAt: string;
  /** Whether the row is to have this place, although nothing was queued. */
  isToAdvance: boolean;
  /** How soon it is read again where its events wait. */
  heldMs: number;
}

export class EventQueuer {
  readonly #options: QueueEventsOptions;
  /** By user. */
  #hooks: Map<string, KnownHook> = new Map();
  /** Users whose events are to be read. */
  readonly #woken = new Set<string>();
  /** Those of which that is to be tried again with the next look. */
  readonly #later = new Set<string>();
  /** Those with a timer for events that wait. */
  readonly #held = new Set<string>();
  /** Of users with many deliveries that wait: the one that was tried before its time, and until when no other is. */
  readonly #probes = new Map<string, { readonly id: number | undefined; readonly until: number }>();
  #repeat: Repeat | undefined;
  /** By the monotonic clock. */
  #lookAt = 0;
  #advanceAt = 0;
  /** The highest ids of events that the last two looks found. */
  #seen: readonly [number, number] | undefined;

  constructor(options: QueueEventsOptions) {
    this.#options = options;
  }

  /** Queues events until the signal; one node at a time runs it. */
  async run(signal: AbortSignal): Promise<void> {
    const { changes, log } = this.#options;
    const outage = new Outage((err) =>
      log.error({ err }, 'events could not be queued for their hooks: retry in 10 s'),
    );
    this.#hooks.clear();
    this.#lookAt = 0;
    this.#repeat = new Repeat({ everyMs: LOOK_MS, task: () => this.#pass(signal), outage });
    const unsubscribe = changes.subscribeAll((change) => {
      if (change.kind === 'events' && this.#hooks.has(change.userId)) this.#wake(change.userId);
    });
    await this.#repeat.until(signal).finally(unsubscribe);
    this.#repeat = undefined;
  }

  /** A hook was set in this process; others are found by the next look. */
  readonly look = (): void => {
    this.#lookAt = 0;
    void this.#repeat?.run();
  };

  #wake(userId: string): void {
    this.#woken.add(userId);
    void this.#repeat?.run();
  }

  async #pass(signal: AbortSignal): Promise<void> {
    if (performance.now() >= this.#lookAt) await this.#look();
    const users = [...this.#woken];
    this.#woken.clear();
    for (let at = 0; at < users.length && !signal.aborted; at += USERS_AT_A_TIME) {
      const some = users.slice(at, at + USERS_AT_A_TIME);
      await Promise.all(some.map((userId) => this.#queueAll(userId, signal)));
    }
  }

  /** Reads all hooks, and wakes those with events of which this process was not told. */
  async #look(): Promise<void> {
    const isAdvance = performance.now() >= this.#advanceAt;
    const missed = await this.#findMissed();
    const found = new Map<string, KnownHook>();
    for await (const hook of this.#readHooks()) {
      const { userId, id, cursor } = hook;
      const known = this.#hooks.get(userId);
      const isSame = known?.id === id && known.cursor === cursor;
      found.set(userId, {
        ...hook,
        readAt: isSame ? known.readAt : cursor,
        isToAdvance: isAdvance,
        heldMs: known?.heldMs ?? HELD_MS,
      });
      if (isAdvance || !isSame || missed.has(userId)) this.#woken.add(userId);
    }
    this.#hooks = found;
    this.#lookAt = performance.now() + LOOK_MS;
    if (isAdvance) this.#advanceAt = performance.now() + ADVANCE_MS;
  }

  async *#readHooks(): AsyncGenerator<EventHook> {
    for (let after = 0; ; ) {
      const hooks = await listHooks(this.#options.database.read, after, HOOKS_AT_A_TIME);
      yield* hooks;
      if (hooks.length < HOOKS_AT_A_TIME) return;
      after = hooks.at(-1)?.id ?? after;
    }
  }

  /** Users with events since the look before the last, and those whose events could not be queued then. */
  async #findMissed(): Promise<Set<string>> {
    const { events } = this.#options;
    const missed = new Set(this.#later);
    this.#later.clear();
    if (this.#hooks.size === 0) {
      this.#seen = undefined;
      return missed;
    }
    const last = this.#seen ? undefined : await events.lastId();
    const [from, until] = this.#seen ?? [last ?? 0, last ?? 0];
    // A transaction that had its ids before the last look may have committed since.
    const since = await events.usersSince(from);
    this.#seen = [until, since.last];
    return missed.union(new Set(since.users));
  }

  /** One user whose events cannot be queued holds up no other. */
  async #queueAll(userId: string, signal: AbortSignal): Promise<void> {
    try {
      while (!signal.aborted && (await this.#queueSome(userId)));
    } catch (err) {
      this.#options.log.error(
        { err, userId },
        'the events of a user could not be queued for their hook: retry in 10 s',
      );
      this.#later.add(userId);
    }
  }

  /** @returns whether there is more */
  async #queueSome(userId: string): Promise<boolean> {
    const { queue, queuedMax = QUEUED_MAX } = this.#options;
    const hook = this.#hooks.get(userId);
    if (!hook) {
      this.#probes.delete(userId);
      return false;
    }
    const { domainId } = partyOf(hook);
    const waiting = await queue.count({ domainId, status: 'queued' }, queuedMax);
    if (waiting >= queuedMax / 2) {
      // Its receiver is behind. Whether it is back is seen also where nothing happens any more.
      this.#later.add(userId);
      await this.#probe(hook);
    } else this.#probes.delete(userId);
    if (waiting >= queuedMax) return false;
    const page = await this.#read(hook, Math.min(EVENTS_AT_A_TIME, queuedMax - waiting));
    if (!page) return true;
    if (page.isHeld) this.#readSoon(hook);
    else hook.heldMs = HELD_MS;
    if (page.events.length > 0 || (hook.isToAdvance && page.cursor !== hook.cursor)) {
      if (!(await this.#queue(hook, page))) {
        // It was set anew or removed, or another node does this work now.
        this.#hooks.delete(userId);
        return false;
      }
      const { cursor } = page;
      this.#hooks.set(userId, { ...hook, cursor, readAt: cursor, isToAdvance: false });
    } else hook.readAt = page.cursor;
    return page.hasMore;
  }

  /**
   * After an outage of hours the deliveries that wait are due in hours, and would keep all later events from the queue. So one
   * of them is tried every few minutes; once the receiver has taken it, all are due.
   */
  async #probe(hook: KnownHook): Promise<void> {
    const { queue, probeMs = PROBE_MS } = this.#options;
    const { userId } = hook;
    const { domainId } = partyOf(hook);
    const { id, until = 0 } = this.#probes.get(userId) ?? {};
    const isTaken = id !== undefined && (await queue.find(domainId, id))?.status === 'delivered';
    if (!isTaken && performance.now() < until) return;
    const hastened = await queue.hasten(domainId, isTaken ? QUEUED_MAX : 1);
    const next = isTaken ? undefined : hastened;
    this.#probes.set(userId, { id: next, until: performance.now() + probeMs });
  }

  /** One timer for a user: each event that wakes him meanwhile would begin one more, and each of these the next. */
  #readSoon(hook: KnownHook): void {
    const { userId, heldMs } = hook;
    if (this.#held.has(userId)) return;
    this.#held.add(userId);
    hook.heldMs = Math.min(2 * heldMs, HELD_MAX_MS);
    const read = () => {
      this.#held.delete(userId);
      this.#wake(userId);
    };
    setTimeout(read, heldMs).unref();
  }

  /** @returns undefined where events were missed: then the hook goes on from the oldest */
  async #read(hook: KnownHook, limit: number): Promise<EventPage | undefined> {
    const { database, events, log, now } = this.#options;
    const { id, userId, types } = hook;
    const scope = { userId, organizationId: undefined, types };
    try {
      return await events.read(scope, { field: 'after', cursor: hook.readAt }, limit);
    } catch (error) {
      if (!(error instanceof Refusal && error.code === 'cursor_expired')) throw error;
    }
    const cursor = OLDEST_CURSOR;
    await database.write((tx) => moveHook(tx, hook, cursor, now()));
    this.#hooks.set(userId, { ...hook, cursor, readAt: cursor });
    log.warn(
      { userId, hookId: id },
      'events were pruned before they could be posted to their hook: it goes on with the oldest that is kept',
    );
    return undefined;
  }

  /** @returns false where the hook is not where it was */
  async #queue(hook: EventHook, { events, cursor }: EventPage): Promise<boolean> {
    const { database, queue, bodies } = this.#options;
    const { id: hookId, url } = hook;
    const common = {
      kind: EVENT,
      ...partyOf(hook),
      destination: webhookDestination(url),
      url,
    };
    const isMoved = await database.write(async (tx) => {
      if (!(await moveHook(tx, hook, cursor))) return false;
      // After a failover some may be told again that were queued before.
      const queued = await findQueued(
        tx,
        events.map((event) => event.cursor),
      );
      const left = events.filter((event) => !queued.has(event.cursor));
      if (left.length === 0) return true;
      // A delivery names a body; these have all that they need in their payload.
      const bodyId = await bodies.commit(tx, { size: 0, content: Buffer.alloc(0) });
      for (const event of left) {
        const body = JSON.stringify(describeEvent(event));
        const payload = payloads.write({ hookId, body });
        const about = { subject: event.type };
        await queue.enqueue(tx, { ...common, bodyId, publicId: event.cursor, payload, about });
      }
      return true;
    });
    if (isMoved && events.length > 0) queue.wake([common]);
    return isMoved;
  }
}
