/** What a kind of delivery brings to its worker, and what a worker tells. */
import type { Database, Queries } from '../database/database.ts';
import type { Clock } from './clock.ts';
import type { Job, Outcome, Settled } from './delivery.ts';
import type { PayloadFormat } from './payload.ts';

/**
 * @typeParam Payload what a delivery of this kind is made of
 * @typeParam Prepared what an attempt makes ready for the transaction that writes its outcome
 */
export interface WorkOptions<Payload = unknown, Prepared = unknown> {
  readonly kind: string;
  /** A delivery whose payload it cannot read is held, and not attempted. */
  readonly payloads: Pick<PayloadFormat<Payload>, 'read'>;
  /** Attempts under way in this process; 512 when left out. */
  readonly concurrency?: number;
  /** Attempts under way at one destination; 32 when left out. */
  readonly perDestination?: number;
  /**
   * Characters of payloads under way, 64 Mi when left out; beyond it each destination has one
   * delivery under way at a time.
   */
  readonly payloadsMax?: number;
  /**
   * Seconds between each attempt and the next: one attempt more than it has entries. The first is
   * made at once.
   */
  readonly delays: readonly number[];
  /**
   * Tries to deliver, and only reports: what throws is a bug and counts as a temporary failure. It
   * never ends a delivery: a last attempt that throws comes again, and after five more is held.
   *
   * @param signal aborted when the process stops and waits no longer
   */
  attempt(job: Job<Payload>, signal: AbortSignal): Promise<Attempted<Prepared>>;
  /**
   * What follows from an attempt, in the transaction that writes its outcome: it does nothing but
   * queries on `tx`. It may run again where that fails. It does not run for a delivery that was
   * deleted meanwhile, nor for one that is held.
   *
   * @param prepared undefined where the attempt prepared nothing, or threw
   * @returns what is to be done once the transaction is committed, if anything
   */
  onOutcome?(
    tx: Queries,
    job: Job<Payload>,
    settled: Settled,
    prepared: Prepared | undefined,
  ): Promise<(() => void) | undefined>;
  /**
   * What a delivery with `lateAt` does not wait for its first attempt with. What it throws is logged,
   * and it comes again.
   *
   * @returns what is to be written, in the transaction that notes that it is done, on the terms of
   *   `onOutcome`
   */
  onLate?(job: Job<Payload>): Promise<(tx: Queries) => Promise<(() => void) | undefined>>;
}

/** How an attempt went, and what it made ready for what follows from it. */
export type Attempted<Prepared = unknown> = Outcome & { readonly prepared?: Prepared | undefined };

/** What the queue tells the log; a pino Logger fits. */
export interface QueueLog {
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
}

/** One attempt, for metrics. */
export interface AttemptReport extends Settled {
  readonly kind: string;
  /** How long the attempt took. */
  readonly attemptMs: number;
  /** Since the delivery was queued first. */
  readonly ageMs: number;
}

/** What a worker stands on. */
export interface WorkerSurroundings {
  readonly database: Database;
  readonly clock: Clock;
  readonly random: () => number;
  /** Who holds the leases: one name for each process. */
  readonly owner: string;
  readonly log: QueueLog;
  readonly onAttempt: (report: AttemptReport) => void;
}
