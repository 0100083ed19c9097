/** The options of a worker, and what it reports; its clock and its schedule. */
import {
  type Database,
  isOfOneTransaction,
  type Queries,
  refusalOfFailure,
} from '../../platform/database/database.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import type { SharedSlots } from '../../platform/net/net.ts';
import { Outage } from '../../platform/time/time.ts';
import type { Trace } from '../trace/trace.ts';
import type { AttemptOutcome, Job, PayloadFormat, Settled } from './delivery.ts';
import type { Slot } from './slot.ts';

/**
 * @typeParam Payload the data of a delivery of this kind
 * @typeParam Prepared what an attempt prepares for the transaction that writes its outcome
 */
export interface WorkOptions<Payload = unknown, Prepared = unknown> {
  readonly kind: string;
  /** A delivery whose payload it cannot read is held, and not attempted. */
  readonly payloads: Pick<PayloadFormat<Payload>, 'read'>;
  /** Attempts under way in this process; 512 when left out. */
  readonly concurrency?: number;
  /** Attempts under way at one destination, on all nodes; 32 by default. */
  readonly perDestination?: number;
  /**
   * Characters of payloads under way, 64 Mi by default; above this limit each destination has one delivery under way
   * at a time.
   */
  readonly payloadsMax?: number;
  /**
   * Seconds between each attempt and the next: there is one attempt more than entries. The first is made at once.
   */
  readonly delays: readonly number[];
  /** Whether the kind itself writes the events of deliveries that fail. */
  readonly tellsEnds?: boolean;
  /**
   * Tries to deliver, and only reports. An exception is a bug and counts as a temporary failure. It never ends a
   * delivery: a last attempt that throws is repeated, and after five more the delivery is held.
   *
   * @param signal aborted when the process stops and waits no longer
   * @param slot what it holds while it runs
   */
  attempt(job: Job<Payload>, signal: AbortSignal, slot: Slot): Promise<Attempted<Prepared>>;
  /**
   * The consequences of an attempt, in the transaction that writes its outcome: it only makes queries on `tx`. It may
   * run again where that transaction fails. It does not run for a delivery that was deleted meanwhile, nor for one
   * that is held.
   *
   * @param prepared undefined where the attempt prepared nothing, or threw
   * @returns what to do after the commit, if anything
   */
  onOutcome?(
    tx: Queries,
    job: Job<Payload>,
    settled: Settled,
    prepared: Prepared | undefined,
  ): Promise<(() => void) | undefined>;
  /**
   * Called when an operator drops deliveries: writes what other tables say about them, in the transaction that drops
   * them. No bounce is sent.
   */
  onDropped?(tx: Queries, ids: readonly number[]): Promise<void>;
  /** The recipients that deliveries are still for, by the id of the delivery; only where one may be for several. */
  recipientsOf?(
    tx: Queries,
    ids: readonly number[],
  ): Promise<ReadonlyMap<number, readonly string[]>>;
  /**
   * Runs when a delivery with `lateAt` is late, without waiting for its first attempt. An error is logged, and it runs
   * again.
   *
   * @returns what to write, in the transaction that notes that it is done, with the rules of `onOutcome`
   */
  onLate?(job: Job<Payload>): Promise<(tx: Queries) => Promise<(() => void) | undefined>>;
}

/**
 * How often the table is read. On PostgreSQL for the rows of other nodes; on SQLite there are none, and it is for
 * rows that the worker's memory had no room for.
 */
export const LOOK_MS = { postgres: 5_000, sqlite: 60_000 };

/** The outcome of an attempt, and what it prepared for `onOutcome`. */
export type Attempted<Prepared = unknown> = AttemptOutcome & {
  readonly prepared?: Prepared | undefined;
  /** Where the transaction of `onOutcome` waits for others of its mailboxes; left out where there is nothing to wait for. */
  readonly inLine?: InLine | undefined;
} & SharedAttempt;

/** Runs a write when it is its turn. */
export type InLine = <T>(write: () => Promise<T>) => Promise<T>;

/** What an attempt says in addition of a delivery to several recipients. */
export interface SharedAttempt {
  /** The outcome for each recipient that was tried, for the trace. */
  readonly tried?: readonly RecipientOutcome[];
  /** Those that the delivery is still for, in place of all. */
  readonly left?: readonly string[];
  /**
   * Some were not tried: the next attempt comes at once, and this one does not count. Each attempt has to bring a
   * result for one recipient at least, so that they end.
   */
  readonly isUnfinished?: boolean;
}

export interface RecipientOutcome {
  readonly recipient: string;
  readonly outcome: AttemptOutcome;
}

/** The part of a pino Logger that the queue uses. */
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

export interface QueueOptions {
  readonly database: Database;
  readonly log: QueueLog;
  /** In whose name deliveries are leased: the id of this node, new at each start; an id of its own where left out. */
  readonly owner?: string;
  /**
   * Whether leases of other nodes that have ended may be taken over; always where left out. Not just after the database was
   * away: they ended meanwhile, and their nodes have yet to renew them, or to write that the mail went out.
   */
  readonly mayTakeOver?: () => boolean;
  /** Called for every attempt whose outcome is written. */
  readonly onAttempt?: (report: AttemptReport) => void;
  readonly clock?: Clock;
  /** Where attempts at a destination are counted over several nodes; left out for a single node. */
  readonly slots?: SharedSlots | undefined;
  /** From 0 to 1; for the jitter. */
  readonly random?: () => number;
  /** Where operators find what became of each message. */
  readonly trace?: Pick<Trace, 'write'> | undefined;
}

export interface WorkerSurroundings extends Required<QueueOptions> {
  /** Of writes, for all kinds: the database does not answer, or has no room. */
  readonly outage: Outage;
  /**
   * Deliveries whose outcomes cannot be written since the database is away or full. While there are any, no attempt of this
   * process begins: its outcome could not be written either, and a kill would repeat it.
   */
  readonly unwritten: Set<number>;
}

/** So long all writes fail before it is told: what fails is tried again, mostly within this time. */
const OUTAGE_PATIENCE_MS = 1_000;

/** Hundreds of attempts end while the database is away, and each tries to write its outcome a few times. */
export function writeOutage(log: QueueLog): Outage {
  return new Outage(
    (err) =>
      log.error(
        { err },
        'deliveries cannot be written: none begins, and outcomes are written later; an attempt whose outcome cannot be written in time is made again',
      ),
    (seconds, failures) => log.warn({ seconds, failures }, 'deliveries are written again'),
    OUTAGE_PATIENCE_MS,
  );
}

/** Whether a write may succeed later: the database is away or full, or too many others write to an account. */
export function maySucceedLater(error: unknown): boolean {
  if (error instanceof Refusal) return error.code === 'unavailable';
  return refusalOfFailure(error) !== undefined;
}

/** Whether the database is away or full for everybody, as far as the error says. */
export function isAway(error: unknown): boolean {
  return refusalOfFailure(error) !== undefined && !isOfOneTransaction(error);
}

/** Tells a failed write: as part of an outage, or by itself. */
export function tellFailure(
  { log, outage }: Pick<WorkerSurroundings, 'log' | 'outage'>,
  error: unknown,
  fields: object,
  line: string,
): void {
  if (maySucceedLater(error)) outage.failed(error);
  else log.error({ err: error, ...fields }, line);
}

/* The clock of the queue, and when the next attempt comes. */

/** An interface, so that tests need not wait. */
export interface Clock {
  /** Milliseconds since 1970; may be set to another time. */
  now(): number;
  /** Milliseconds since some instant; never goes back. */
  monotonic(): number;
  /**
   * Runs something once, after so many milliseconds, whatever the clock is set to meanwhile.
   *
   * @returns cancels it
   */
  after(ms: number, run: () => void): () => void;
}

/** Real time. Its timers do not keep the process running. */
export const systemClock: Clock = {
  now: Date.now,
  monotonic: () => performance.now(),
  after(ms, run) {
    const timer = setTimeout(run, ms);
    timer.unref();
    return () => clearTimeout(timer);
  },
};

/** Resolves after so many milliseconds. */
export function wait(clock: Clock, ms: number): Promise<void> {
  return new Promise((resolve) => {
    clock.after(ms, resolve);
  });
}

/** How much later than its time an attempt may come, as a part of the delay. */
const JITTER = 0.1;
/** The longest delay that a receiver can ask for: a typing error must not delay a message for ever. */
const RETRY_AFTER_MAX_S = 24 * 3600;

/**
 * Milliseconds until the next attempt, or undefined after the last one.
 *
 * Jitter only adds, so that a schedule is never shorter than it says; it spreads attempts that failed together.
 *
 * @param delays seconds between each attempt and the next
 * @param attempts attempts made so far, at least one
 * @param retryAfterSeconds what the receiver asked for: a lower bound, at most a day
 * @param random from 0 to 1
 */
export function nextDelayMs(
  delays: readonly number[],
  attempts: number,
  retryAfterSeconds: number | undefined,
  random: () => number,
): number | undefined {
  const delay = delays[attempts - 1];
  if (delay === undefined) return undefined;
  const asked = Math.min(Math.max(retryAfterSeconds ?? 0, 0), RETRY_AFTER_MAX_S);
  return Math.round(Math.max(delay, asked) * (1 + JITTER * random()) * 1000);
}
