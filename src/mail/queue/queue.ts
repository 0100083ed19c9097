/**
 * The durable queue of deliveries to destinations outside. Each is attempted until it succeeds or its
 * schedule ends. The queue knows no protocol; each kind of delivery brings the function that attempts it.
 *
 * A delivery is a row of `deliveries`, written in the transaction that accepts the message
 * ({@link Queue.enqueue}), and its payload a row of `delivery_payloads`. It is `queued` until it is `delivered` or
 * `failed`; ended rows are kept for operators until {@link pruneDeliveries}. A delivery that cannot be attempted, such as
 * one whose payload this program cannot read, is `held`: it is logged, its error says why, and it waits until
 * somebody retries it by hand. The body that a row refers to (`body_id`) is kept.
 *
 * Crashes: a delivery is made at least once.
 * - Before the commit of `enqueue` nothing was accepted; after it the row is there.
 * - `wake` after the commit is only for speed: the start reads every row.
 * - A worker leases rows before it attempts them. If it dies, at any point of an attempt, no other worker uses its rows
 *   until the leases end; then they are attempted again under the same public id, with the same payload. On SQLite
 *   there is one process: its start ends every lease at once.
 * - If a worker dies after the receiver accepted the delivery and before that is written, the receiver gets it again.
 *   It recognizes the repetition by the public id.
 * - While the database cannot be written, an attempt that ended keeps its lease and its place until its outcome can be. If
 *   the process is stopped before, or another node gets the lease, the receiver gets the delivery again, too. Just after the
 *   database was away no node takes over leases of others ({@link QueueOptions.mayTakeOver}).
 * - The end of a delivery and what follows from it (storing it, bouncing it) are one transaction, by
 *   {@link WorkOptions.onOutcome}: it is done once, or the delivery has not ended.
 *
 * Clock: rows have their due times by the clock, on PostgreSQL by that of the database; waits in memory are measured by
 * the monotonic clock. If the clock goes back, what waits is attempted as much later.
 *
 * Fairness: see `lanes.ts`.
 */
import { randomUUID } from 'node:crypto';
import type { Database, InTransaction, Queries } from '../../platform/database/database.ts';
import type { Done, EpochMs } from '../../platform/time/time.ts';
import { writeEvents } from '../../tenants/events/events.ts';
import {
  type BulkRequest,
  type BulkStep,
  type ChangedRow,
  changeRows,
  runBulk,
  traceOrder,
} from './bulk.ts';
import type { Delivery, NewDelivery, StoredLocation } from './delivery.ts';
import { dueAt, insertDelivery, type Times } from './enqueue.ts';
import { setLate } from './late.ts';
import {
  countDeliveries,
  findRow,
  hastenRows,
  type ListRequest,
  listRows,
  requeueRow,
} from './operator-rows.ts';
import { type Owner, senderOf } from './parties.ts';
import { failedEvent } from './record-outcome.ts';
import {
  type Clock,
  type QueueOptions,
  systemClock,
  type WorkOptions,
  writeOutage,
} from './work-options.ts';
import { Worker } from './worker.ts';

export type {
  BulkAction,
  BulkPosition,
  BulkStep,
  SkipReason,
  Tally,
  WalkPosition,
} from './bulk.ts';
export {
  type AttemptOutcome,
  type Delivery,
  type DeliveryError,
  describeError,
  type Job,
  type NewDelivery,
  payloadFormat,
  type Settled,
  type StoredLocation,
} from './delivery.ts';
export { type NewDeliveryRow, newDelivery } from './enqueue.ts';
export {
  type GroupKey,
  listGroups,
  listOpen,
  type QueueGroup,
} from './groups.ts';

export {
  type FailingReceiver,
  findFailingReceivers,
  findHeld,
  findRecentFailures,
} from './needs-attention.ts';

export {
  countOpenDeliveries,
  findBodyOf,
  findMailId,
  findQueued,
  listEnded,
  pruneDeliveries,
  type QueueDepth,
  readDepths,
  redirectDeliveries,
  releaseDeliveries,
  removeDeliveriesOf,
  withdrawDeliveries,
} from './operator-rows.ts';
export { senderOf } from './parties.ts';
export { OPEN_STATES, type OpenState, type QueueFilter } from './queue-filter.ts';
export { listReceivers, type QueueReceiver, type QueueSummary, summarize } from './receivers.ts';
export { Postponed, Slot } from './slot.ts';
export { type KnownDelivery, readKnown, readUndelivered } from './undelivered.ts';
export {
  type WaitingReason,
  waitingOfAccounts,
  waitingOfDomains,
  waitingReasons,
} from './waiting-senders.ts';
export {
  type Attempted,
  type AttemptReport,
  type Clock,
  type QueueLog,
  type QueueOptions,
  type SharedAttempt,
  systemClock,
  type WorkOptions,
} from './work-options.ts';

/** Why a delivery has failed that an operator dropped, for its owner. */
const DROPPED = 'dropped by the operator of the service';

/** What tells the queue whose delivery is due, and when. */
type Woken = Pick<NewDelivery, 'kind' | 'destination' | 'deliveredMs' | keyof Owner | keyof Times>;

export class Queue {
  readonly #database: Database;
  readonly #clock: Clock;
  readonly #options: QueueOptions;
  readonly #owner: string;
  /** By kind. */
  readonly #kinds = new Map<
    string,
    Pick<WorkOptions, 'onDropped' | 'recipientsOf' | 'delays' | 'tellsEnds'>
  >();
  readonly #workers = new Map<string, Pick<Worker, 'wake' | 'idle' | 'stop'>>();
  readonly #outage;
  readonly #unwritten = new Set<number>();

  constructor(options: QueueOptions) {
    this.#options = options;
    this.#database = options.database;
    this.#clock = options.clock ?? systemClock;
    this.#owner = options.owner ?? randomUUID();
    this.#outage = writeOutage(options.log);
  }

  /**
   * Queues a delivery within the caller's transaction. After the commit, {@link Queue.wake} makes the first attempt
   * start at once.
   *
   * @returns its id
   */
  enqueue(tx: Queries, delivery: NewDelivery): Promise<number> {
    return insertDelivery(tx, delivery, this.#clock.now());
  }

  /** After a commit: attempts those of the new deliveries that are due at once, and reports those that are made. */
  wake(deliveries: Iterable<Woken>): void {
    const now = this.#clock.now();
    for (const delivery of deliveries) {
      const { kind, destination, deliveredMs } = delivery;
      if (deliveredMs !== undefined) {
        const made = { outcome: { result: 'delivered' }, status: 'delivered' } as const;
        this.#options.onAttempt?.({ kind, ...made, attemptMs: deliveredMs, ageMs: deliveredMs });
        continue;
      }
      const lane = { sender: senderOf(delivery), destination };
      this.#workers.get(kind)?.wake(lane, dueAt(delivery, now));
    }
  }

  /** The same for rows that are due now. */
  #wakeRows(rows: readonly Pick<ChangedRow, 'kind' | 'sender' | 'destination'>[]): void {
    const now = this.#clock.now();
    for (const { kind, ...lane } of rows) this.#workers.get(kind)?.wake(lane, now);
  }

  /**
   * Cancels `onLate` of a delivery, in this transaction; the caller does the work in its place.
   *
   * @returns false where `onLate` has run already, or the delivery has none
   */
  cancelLate(tx: Queries, id: number): Promise<boolean> {
    return setLate(tx, id, null);
  }

  /** Notes, in this transaction, where the message of a delivery was stored as well. */
  async noteStored(tx: Queries, id: number, locations: readonly StoredLocation[]): Promise<void> {
    const stored = JSON.stringify(locations);
    await tx.updateTable('deliveries').set({ stored }).where('id', '=', id).execute();
  }

  /**
   * Cancels a delivery that waits for its next attempt.
   *
   * @returns false where it has ended, was removed, or an attempt is under way: then nothing is changed
   */
  async withdraw(tx: Queries, id: number): Promise<boolean> {
    const row = await tx
      .deleteFrom('deliveries')
      .where('id', '=', id)
      .where('status', 'in', ['queued', 'held'])
      .where('lease_owner', 'is', null)
      .returning('id')
      .executeTakeFirst();
    return row !== undefined;
  }

  /** Starts to attempt the deliveries of one kind, those of earlier runs first. */
  work<Payload, Prepared>(options: WorkOptions<Payload, Prepared>): void {
    if (this.#workers.has(options.kind)) throw new Error(`${options.kind} has a worker already`);
    const worker = new Worker(options, {
      database: this.#database,
      clock: this.#clock,
      random: this.#options.random ?? Math.random,
      owner: this.#owner,
      mayTakeOver: this.#options.mayTakeOver ?? (() => true),
      log: this.#options.log,
      onAttempt: this.#options.onAttempt ?? (() => {}),
      slots: this.#options.slots,
      trace: this.#options.trace,
      outage: this.#outage,
      unwritten: this.#unwritten,
    });
    this.#workers.set(options.kind, worker);
    this.#kinds.set(options.kind, options);
    worker.start();
  }

  /** Deliveries of a domain in the order they were queued. */
  list(request: ListRequest): Promise<Delivery[]> {
    return listRows(this.#database.read, request);
  }

  /** How many deliveries a domain has; `most` stands for as many or more. */
  count(of: Pick<ListRequest, 'domainId' | 'status'>, most: number): Promise<number> {
    return countDeliveries(this.#database.read, of, most);
  }

  /** One delivery of a domain, where there is one. */
  find(domainId: number, id: number): Promise<Delivery | undefined> {
    return findRow(this.#database.read, domainId, id);
  }

  /**
   * Retries a delivery now, from the start of its schedule, whether it waits or has ended: with the same public id,
   * payload and body. One that is being attempted is not changed.
   *
   * @param by who orders it, for the trace
   * @param within runs in the transaction where there is such a delivery
   * @returns the delivery as it is then; undefined where the domain has none with this id
   * @throws Refusal delivery_released where its payload was removed
   */
  async retry(
    domainId: number,
    id: number,
    by: string,
    within?: InTransaction<Delivery>,
  ): Promise<Delivery | undefined> {
    const requeued = await this.#database.write(async (tx) => {
      const found = await requeueRow(tx, domainId, id, this.#clock.now());
      if (found?.row) await this.#trace(tx, { action: 'retry', rows: [found.row], by });
      if (found) await within?.(tx, found.delivery);
      return found;
    });
    if (requeued?.row) this.#wakeRows([requeued.row]);
    return requeued?.delivery;
  }

  /** {@link hastenRows} @returns the id of one of them */
  async hasten(domainId: number, most: number): Promise<number | undefined> {
    const now = this.#clock.now();
    const rows = await this.#database.write((tx) => hastenRows(tx, domainId, { most, now }));
    this.#wakeRows(rows);
    return rows[0]?.id;
  }

  /** About when the last attempt of a waiting delivery comes, if all fail; without the jitter of its waits. */
  lastAttemptAt({ kind, attempts, nextAttemptAt }: Delivery): EpochMs | undefined {
    const { delays } = this.#kinds.get(kind) ?? {};
    if (!delays || nextAttemptAt === undefined) return undefined;
    return delays.slice(attempts).reduce((at, delay) => at + delay * 1_000, nextAttemptAt);
  }

  /**
   * Retries, holds, releases or drops many deliveries, in short transactions. A dropped delivery has failed, and no
   * bounce is sent. Each change is noted in the trace.
   *
   * @param by who orders it, for the trace
   * @param note writes of an order what it has done so far, in each transaction that changes something; gets what its
   *   last call returned
   * @returns how many matched and were changed, within some seconds; where there is more, the next call gets `next`, too
   */
  bulk(
    request: Omit<BulkRequest, 'now' | 'clock'> & Partial<Pick<BulkRequest, 'now'>>,
    by: string,
    note: (tx: Queries, done: Done, noted?: number) => Promise<number | undefined> = async () =>
      undefined,
  ): Promise<BulkStep> {
    const { action, now = Number.POSITIVE_INFINITY } = request;
    // Rows get it as the instant of their change: none is in the future, whatever a position says that was forged.
    const clock = () => this.#clock.now();
    const asked = { ...request, clock, now: Math.min(now, clock()) };
    let noted: number | undefined;
    return runBulk(this.#database, asked, async (ids, { matched, changed }) => {
      const { rows, entry } = await this.#database.write(async (tx) => {
        const rows = await changeRows(tx, ids, asked);
        if (rows.length === 0) return { rows, entry: noted };
        await this.#trace(tx, { action, rows, by });
        if (action === 'drop') await this.#tellDropped(tx, rows, asked.now);
        const done = { matched, changed: changed + rows.length };
        return { rows, entry: await note(tx, done, noted) };
      });
      noted = entry;
      if (action === 'retry' || action === 'release') this.#wakeRows(rows);
      return rows.length;
    });
  }

  async #trace(tx: Queries, ordered: Parameters<typeof traceOrder>[3]): Promise<void> {
    const { trace } = this.#options;
    if (trace) await traceOrder(tx, trace, (kind) => this.#kinds.get(kind)?.recipientsOf, ordered);
  }

  async #tellDropped(tx: Queries, rows: readonly ChangedRow[], at: EpochMs): Promise<void> {
    for (const [kind, some] of Map.groupBy(rows, (row) => row.kind)) {
      const { onDropped, tellsEnds } = this.#kinds.get(kind) ?? {};
      const ids = some.map(({ id }) => id);
      await onDropped?.(tx, ids);
      if (tellsEnds) continue;
      const events = some.map(({ id, domain_id: domainId, destination, mail_id, recipient }) => {
        const about = { mailId: mail_id ?? undefined, recipient: recipient ?? undefined };
        return failedEvent(kind, { id, domainId, destination, ...about }, DROPPED);
      });
      await writeEvents(tx, events, at);
    }
  }

  /** Resolves when no attempt is under way and none is due. */
  async idle(): Promise<void> {
    for (const worker of this.#workers.values()) await worker.idle();
  }

  /**
   * Stops all workers: waits `deadlineMs` for attempts under way, then aborts them. A delivery without an outcome by
   * then is attempted again after the next start.
   */
  async stop(deadlineMs: number): Promise<void> {
    await Promise.all([...this.#workers.values()].map((worker) => worker.stop(deadlineMs)));
  }
}
