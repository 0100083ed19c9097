/** What a kind of delivery brings to its worker, and what a worker tells. */
import type { Database, Queries } from '../database/database.ts';
import type { Clock } from './clock.ts';
import type { Job, Outcome, Settled } from './delivery.ts';

export interface WorkOptions {
  readonly kind: string;
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
   * never ends a delivery: a last attempt that throws comes again.
   *
   * @param signal aborted when the process stops and waits no longer
   */
  attempt(job: Job, signal: AbortSignal): Promise<Outcome>;
  /**
   * What follows from an attempt, in the transaction that writes its outcome: it does nothing but
   * queries on `tx`. It may run again where that fails, and it does not run for a delivery that was
   * deleted meanwhile.
   *
   * @returns what is to be done once the transaction is committed, if anything
   */
  onOutcome?(tx: Queries, job: Job, settled: Settled): Promise<(() => void) | undefined>;
}

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
