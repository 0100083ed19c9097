/** Regular work, whatever the load, and the removal of what deletions left. */
import { setTimeout as pause } from 'node:timers/promises';
import type { Logger } from 'pino';
import {
  listEnded,
  pruneDeliveries,
  readDepths,
  releaseDeliveries,
} from '../../mail/queue/queue.ts';
import { pruneSends } from '../../mail/sending/sending.ts';
import type { Trace } from '../../mail/trace/trace.ts';
import type { Changes } from '../../mailboxes/changes/changes.ts';
import type { EmbeddedMailstore } from '../../mailboxes/mailstore/mailstore.ts';
import {
  DAY_MS,
  type EpochMs,
  HOUR_MS,
  MINUTE_MS,
  Outage,
  Repeat,
} from '../../platform/time/time.ts';
import { ANSWERS_KEPT_MS, forgetAnswers, type Tokens } from '../../tenants/accounts/accounts.ts';
import { pruneEvents } from '../../tenants/events/events.ts';
import {
  pruneHours,
  pruneTraffic,
  pruneUsage,
  type Traffic,
  USAGE_KEPT_MS,
  type Usage,
} from '../../tenants/usage/usage.ts';
import { type PurgeOptions, purgeStep, removeDeliveries } from './purge.ts';

export interface MaintenanceOptions extends PurgeOptions {
  /** How long an ended delivery keeps its message and payload. */
  readonly deliveryBodyHours: number;
  /** Removes tombstones that are older than this; returns how many. */
  readonly pruneTombstones: (keptMs: number, signal: AbortSignal) => Promise<number>;
  /** Removes messages that are in Trash and Junk for too long, of some mailboxes at a time. */
  readonly expireTrash: EmbeddedMailstore['expireTrash'];
  /** How long messages stay there; 0: for good. */
  readonly trashDays: number;
  readonly changes: Pick<Changes, 'publish'>;
  readonly usage: Pick<Usage, 'measure'>;
  /** Quota of accounts without one of their own, in bytes; 0 for no limit. */
  readonly quotaBytes: number;
  readonly traffic: Pick<Traffic, 'gauge'>;
  readonly tokens: Pick<Tokens, 'forgetOldLogins'>;
  readonly trace: Pick<Trace, 'prune'>;
  /** How long events are kept. */
  readonly eventDays: number;
  readonly now: () => EpochMs;
  readonly logger: Pick<Logger, 'info' | 'error'>;
}

/** Between two measurements of what accounts store. */
const MEASURE_MS = 5 * MINUTE_MS;
/** A client that was away for longer gets a reset. */
const TOMBSTONES_KEPT_MS = 30 * DAY_MS;
/** Operators see the result of a delivery for this long; links to its source end after 7 days. */
const DELIVERIES_KEPT_MS = 30 * DAY_MS;
/** Milliseconds between two transactions, so that incoming mail gets its turn. */
const PAUSE_MS = 10;

/**
 * Runs each task at once and then again and again; a failed one is tried again at its next time. Each works in short
 * transactions and stops after the current one. One node does it for all.
 */
export class Maintenance {
  readonly #options: MaintenanceOptions;
  /** The last delivery whose message was checked. */
  #released = { finished_at: 0, id: 0 };
  #purges: Repeat | undefined;

  constructor(options: MaintenanceOptions) {
    this.#options = options;
  }

  /** @param signal ends it */
  async run(signal: AbortSignal): Promise<void> {
    const { bodies } = this.#options;
    // Deletions of another node are found within a minute.
    this.#purges = this.#repeat(MINUTE_MS, () => this.#purge(signal));
    const repeated = [
      this.#repeat(HOUR_MS, () => this.#forgetOld(signal)),
      this.#repeat(DAY_MS, () => bodies.files.sweep(signal)),
      this.#repeat(HOUR_MS, () => bodies.files.expire(signal)),
      this.#repeat(MINUTE_MS, () => bodies.files.relieveDisk(signal)),
      this.#repeat(HOUR_MS, () => this.#expireTrash(signal)),
      this.#repeat(HOUR_MS, () => this.#releaseEnded(signal)),
      this.#repeat(MEASURE_MS, () => this.#measure(signal)),
      this.#purges,
    ];
    await Promise.all(repeated.map((repeat) => repeat.until(signal)));
  }

  /** Called after the commit of a deletion: the mail of what was deleted is removed now. */
  purgeSoon(): void {
    void this.#purges?.run();
  }

  #repeat(everyMs: number, task: () => Promise<unknown>): Repeat {
    const outage = new Outage((err) =>
      this.#options.logger.error(
        { err },
        'a part of the maintenance failed: retry at its next time',
      ),
    );
    return new Repeat({ everyMs, task, outage });
  }

  async #expireTrash(signal: AbortSignal): Promise<void> {
    const { expireTrash, trashDays, changes, logger } = this.#options;
    if (trashDays === 0) return;
    let removed = 0;
    for (let after = 0; !signal.aborted; await pause(PAUSE_MS)) {
      const expired = await expireTrash(trashDays * DAY_MS, after);
      if (!expired) break;
      for (const change of expired.changes) changes.publish(change);
      after = expired.last;
      removed += expired.removed;
    }
    if (removed > 0) logger.info({ removed, trashDays }, 'messages removed from Trash and Junk');
  }

  /** Removes messages and payloads of ended deliveries. The deliveries are listed for longer. */
  async #releaseEnded(signal: AbortSignal): Promise<void> {
    const { database, bodies, deliveryBodyHours, now } = this.#options;
    const before = now() - deliveryBodyHours * HOUR_MS;
    for (; !signal.aborted; await pause(PAUSE_MS)) {
      const ended = await listEnded(database.read, before, this.#released);
      const last = ended.at(-1);
      if (!last) return;
      const ids = ended.flatMap(({ id, is_kept }) => (is_kept ? [id] : []));
      if (ids.length > 0) {
        const files = await database.write(async (tx) =>
          bodies.empty(tx, await releaseDeliveries(tx, ids, before), before),
        );
        await bodies.removeFiles(files);
      }
      this.#released = last;
    }
  }

  /** Measures what is stored and what waits, for bills and charts. */
  async #measure(signal: AbortSignal): Promise<void> {
    const { usage, database, traffic, quotaBytes } = this.#options;
    const { bytes, full, nearlyFull } = await usage.measure(quotaBytes, signal);
    const depths = await readDepths(database.read);
    const waiting = (state: string) =>
      depths.reduce((sum, depth) => sum + (depth.state === state ? depth.count : 0), 0);
    if (signal.aborted) return;
    await traffic.gauge({
      stored_bytes: bytes,
      'mailboxes:full': full,
      'mailboxes:nearly_full': nearlyFull,
      'queue:queued': waiting('queued'),
      'queue:held': waiting('held'),
    });
  }

  async #purge(signal: AbortSignal): Promise<void> {
    while (!signal.aborted && (await purgeStep(this.#options))) await pause(PAUSE_MS);
  }

  /** Repeats a step until it has nothing left to do. @param step returns how many it removed */
  async #repeatStep(signal: AbortSignal, step: () => Promise<number>): Promise<number> {
    let sum = 0;
    while (!signal.aborted) {
      const removed = await step();
      if (removed === 0) break;
      sum += removed;
      await pause(PAUSE_MS);
    }
    return sum;
  }

  async #forgetOld(signal: AbortSignal): Promise<void> {
    const { pruneTombstones, database, tokens, trace, logger, now } = this.#options;
    const { eventDays } = this.#options;
    const tombstones = await pruneTombstones(TOMBSTONES_KEPT_MS, signal);
    const logins = await tokens.forgetOldLogins();
    await this.#repeatStep(signal, () =>
      database.write((tx) => forgetAnswers(tx, now() - ANSWERS_KEPT_MS)),
    );
    const before = now() - DELIVERIES_KEPT_MS;
    const deliveries = await this.#repeatStep(signal, () =>
      removeDeliveries(this.#options, (tx) => pruneDeliveries(tx, before)),
    );
    const sends = await this.#repeatStep(signal, () =>
      database.write((tx) => pruneSends(tx, before)),
    );
    const traced = await this.#repeatStep(signal, () => database.write((tx) => trace.prune(tx)));
    if (traced > 0)
      logger.info({ traced }, 'rows of the trace that are older than TRACE_DAYS were removed');
    await this.#repeatStep(signal, () =>
      database.write((tx) => pruneEvents(tx, now() - eventDays * DAY_MS)),
    );
    await this.#repeatStep(signal, () =>
      database.write((tx) => pruneUsage(tx, now() - USAGE_KEPT_MS)),
    );
    await this.#repeatStep(signal, () => database.write((tx) => pruneHours(tx, now())));
    await this.#repeatStep(signal, () => database.write((tx) => pruneTraffic(tx, now())));
    if (tombstones + deliveries + sends + logins > 0) {
      logger.info(
        { tombstones, deliveries, sends, logins },
        'records of removals, deliveries, sent messages and remembered logins that are older than 30 days were removed',
      );
    }
  }
}
