/** Records the outcome of an attempt, together with its consequences. */
import type { Queries } from '../../platform/database/database.ts';
import { type NewEvent, writeEvents } from '../../tenants/events/events.ts';
import type { TraceEvent } from '../trace/trace.ts';
import {
  type AttemptOutcome,
  type DeliveryError,
  describeError,
  type JobFacts,
  type Settled,
} from './delivery.ts';
import { releaseLeases } from './lease-rows.ts';
import {
  type InLine,
  isAway,
  maySucceedLater,
  nextDelayMs,
  type SharedAttempt,
  tellFailure,
  type WorkerSurroundings,
  type WorkOptions,
  wait,
} from './work-options.ts';
import { type RowOutcome, writeOutcome } from './worker-rows.ts';

/** Milliseconds between tries to write an outcome. A lost outcome means a second attempt. */
const RETRIES_MS = [500, 1_000, 2_000, 4_000, 8_000];
/**
 * Between those while the database is away or full, or too many others write, however long that is: whoever got the mail would
 * get it again, and again for as long as leases can be written and outcomes cannot. As soon as other nodes look for leases
 * that ended meanwhile.
 */
const OUTAGE_RETRY_MS = 1_000;
/** How often an outcome fails for such a reason, while no outage is told, before that is told of it alone. */
const ALONE = 5;
/** The wait before the next attempt where it could not be written, so that a bug does not flood a receiver. */
const UNWRITTEN_DELAY_MS = 300_000;
/** How often a last attempt that throws is repeated. */
const LAST_REPEATS = 5;
const NOT_POSTPONED = 'could not postpone a delivery: it is attempted again when its lease expires';
const NOT_WRITTEN_ALONE =
  'the outcome of a delivery attempt cannot be written, while others can, such as where a row is locked: it holds its place and is tried each second';
const UNWRITTEN = { text: 'the outcome of the last attempt could not be stored' };

const atOnce: InLine = (write) => write();

/** An attempt that ended. */
export interface Ended {
  readonly outcome: AttemptOutcome;
  /** Why it threw, if it did. */
  readonly thrown?: DeliveryError;
  /** Of a delivery to several recipients. */
  readonly shared?: SharedAttempt;
  /**
   * Its consequences, in the transaction that writes it; see {@link WorkOptions.onOutcome}. Absent where there are
   * none.
   */
  readonly follow?: (tx: Queries, settled: Settled) => Promise<(() => void) | undefined>;
  /** Where the transaction waits for its turn; see {@link Attempted}. */
  readonly inLine?: InLine | undefined;
  readonly attemptMs: number;
}

export class OutcomeRecorder {
  readonly #options: Pick<WorkOptions, 'kind' | 'delays' | 'tellsEnds'>;
  readonly #around: WorkerSurroundings;

  constructor(
    options: Pick<WorkOptions, 'kind' | 'delays' | 'tellsEnds'>,
    around: WorkerSurroundings,
  ) {
    this.#options = options;
    this.#around = around;
  }

  /**
   * Writes an outcome; tries again where that fails, and until it is written where the database is the reason.
   *
   * @param signal ends the tries
   * @returns when the delivery is due again, if it is
   */
  async record(job: JobFacts, ended: Ended, signal: AbortSignal): Promise<number | undefined> {
    try {
      return await this.#record(job, ended, signal);
    } finally {
      this.#around.unwritten.delete(job.id);
    }
  }

  async #record(job: JobFacts, ended: Ended, signal: AbortSignal): Promise<number | undefined> {
    const { clock, log, outage, unwritten } = this.#around;
    const about = { kind: this.#options.kind, id: job.id, mailId: job.mailId };
    let tries = 0;
    let alone = 0;
    for (;;) {
      let pause: number | undefined;
      try {
        return await this.#write(job, ended);
      } catch (error) {
        tellFailure(
          this.#around,
          error,
          about,
          'could not write the outcome of a delivery attempt: retry in some seconds',
        );
        if (isAway(error)) unwritten.add(job.id);
        else unwritten.delete(job.id);
        if (maySucceedLater(error)) {
          pause = OUTAGE_RETRY_MS;
          alone = outage.isOn ? 0 : alone + 1;
          if (alone === ALONE) log.error({ err: error, ...about }, NOT_WRITTEN_ALONE);
        } else pause = RETRIES_MS[tries++];
      }
      if (signal.aborted) return undefined;
      if (pause === undefined) return this.#postpone(job, UNWRITTEN, UNWRITTEN_DELAY_MS);
      await wait(clock, pause);
    }
  }

  async #write(
    job: JobFacts,
    { outcome, shared = {}, follow, inLine = atOnce, attemptMs }: Ended,
  ): Promise<number | undefined> {
    const { database, clock, owner, onAttempt, log, outage, trace } = this.#around;
    const { kind, tellsEnds = false } = this.#options;
    const row = this.#rowOf(job, outcome, shared, clock.now());
    const { status, nextAttemptAt, now } = row;
    const write = async (tx: Queries) => {
      if (!(await writeOutcome(tx, owner, job.id, row))) return undefined;
      const tried = shared.tried ?? [{ recipient: job.recipient, outcome }];
      await trace?.write(
        tx,
        tried.flatMap((one) => attemptOf(kind, job, one)),
      );
      if (status === 'held') return {};
      if (status === 'failed' && !tellsEnds)
        await writeEvents(tx, [failedEvent(kind, job, row.error && describeError(row.error))], now);
      return { afterCommit: await follow?.(tx, { outcome, status }) };
    };
    const written = await inLine(() => database.write(write));
    outage.worked();
    if (!written) {
      log.warn(
        { kind, id: job.id, mailId: job.mailId },
        'an attempt ended after its lease had expired: its outcome is ignored',
      );
      return undefined;
    }
    if (status === 'held') {
      log.error(
        { kind, id: job.id, mailId: job.mailId, reason: row.error?.text },
        'a delivery is held: it is not attempted again until an operator releases or retries it',
      );
    }
    try {
      onAttempt({ kind, outcome, status, attemptMs, ageMs: now - job.createdAt });
      written.afterCommit?.();
    } catch (error) {
      // A bug in the listener; the outcome itself is written.
      log.error(
        { err: error, kind, id: job.id, mailId: job.mailId },
        'the outcome is written, but a step after it failed unexpectedly',
      );
    }
    return nextAttemptAt;
  }

  #rowOf(
    job: JobFacts,
    outcome: AttemptOutcome,
    { left: recipients, isUnfinished }: SharedAttempt,
    now: number,
  ): RowOutcome {
    const attempts = job.attempt;
    if (outcome.result === 'held') {
      return { status: 'held', attempts: attempts - 1, error: outcome.error, now };
    }
    const ended = {
      attempts,
      now,
      ...(job.isFirst && { attemptedAt: now }),
      ...(recipients && { recipients }),
    };
    if (isUnfinished) {
      const error = outcome.result === 'delivered' ? {} : { error: outcome.error };
      return { ...ended, ...error, status: 'queued', attempts: attempts - 1, nextAttemptAt: now };
    }
    if (outcome.result === 'delivered') return { ...ended, status: 'delivered' };
    const failed = { ...ended, status: 'failed', error: outcome.error } as const;
    if (outcome.result === 'permanent') return failed;
    const { random } = this.#around;
    const delay = nextDelayMs(this.#options.delays, attempts, outcome.retryAfterSeconds, random);
    if (delay === undefined) return failed;
    return { ...failed, status: 'queued', nextAttemptAt: now + delay };
  }

  /**
   * Repeats a last attempt that threw. The error says nothing about the receiver, so it does not end the delivery: the
   * attempt is repeated after the longest wait of the schedule. After too many repetitions the delivery is held.
   *
   * @returns when the delivery is due again, where that could be written
   */
  repeatLast(
    job: JobFacts,
    error: DeliveryError,
    attemptMs: number,
    signal: AbortSignal,
  ): Promise<number | undefined> {
    const { delays } = this.#options;
    if (job.attempt > delays.length + LAST_REPEATS) {
      return this.record(job, { outcome: { result: 'held', error }, attemptMs }, signal);
    }
    const delay = (delays.at(-1) ?? 0) * 1_000;
    return this.#postpone(job, error, Math.max(delay, UNWRITTEN_DELAY_MS), job.attempt);
  }

  /**
   * Gives a delivery back whose attempt did not begin.
   *
   * @returns when it is due again
   */
  async putBack({ id, mailId }: JobFacts, delayMs: number): Promise<number | undefined> {
    const { database, clock, owner } = this.#around;
    const due = clock.now() + delayMs;
    try {
      await releaseLeases(database, owner, [id], clock.now(), due);
      return due;
    } catch (error) {
      tellFailure(this.#around, error, { id, mailId }, NOT_POSTPONED);
      return undefined;
    }
  }

  /**
   * Postpones the next attempt.
   *
   * @param attempts the number of attempts that count; by default without this one
   */
  async #postpone(
    job: JobFacts,
    error: DeliveryError,
    delayMs: number,
    attempts = job.attempt - 1,
  ): Promise<number | undefined> {
    const { database, clock, owner } = this.#around;
    const now = clock.now();
    const nextAttemptAt = now + delayMs;
    const row: RowOutcome = { status: 'queued', attempts, error, nextAttemptAt, now };
    try {
      await database.write((tx) => writeOutcome(tx, owner, job.id, row));
      return nextAttemptAt;
    } catch (error) {
      tellFailure(this.#around, error, { id: job.id, mailId: job.mailId }, NOT_POSTPONED);
      return undefined;
    }
  }
}

const TRACED: Partial<Record<AttemptOutcome['result'], string>> = {
  delivered: 'delivered',
  permanent: 'failed',
  held: 'held',
};

/**
 * The attempt as a trace event; undefined for a delivery whose message is not known. Its status is `delivered`,
 * `deferred` (another attempt follows), `failed` (the receiver refused it for good), `expired` (it was the last
 * attempt) or `held`.
 */
function attemptOf(
  kind: string,
  job: JobFacts,
  {
    recipient,
    outcome,
  }: { readonly recipient?: string | undefined; readonly outcome: AttemptOutcome },
): TraceEvent[] {
  const { mailId, id: deliveryId, publicId: webhookId } = job;
  if (mailId === undefined) return [];
  const said = outcome.result === 'delivered' ? undefined : outcome.error;
  const detail = said && [said.status, said.text].filter(Boolean).join(' ');
  const traced = TRACED[outcome.result] ?? (job.isLast ? 'expired' : 'deferred');
  const event = `${kind}_attempt`;
  return [{ mailId, event, recipient, deliveryId, webhookId, status: traced, detail }];
}

type FailedDelivery = Pick<JobFacts, 'id' | 'domainId' | 'destination'> & {
  readonly [Name in 'mailId' | 'recipient']?: string | undefined;
};

/** @param detail why, for people */
export function failedEvent(
  kind: string,
  { domainId, id, destination, mailId, recipient }: FailedDelivery,
  detail: string | undefined,
): NewEvent {
  const data = { delivery_id: id, kind, destination, mail_id: mailId, detail };
  // Several recipients are one text, which may be long.
  const isOne = recipient !== undefined && !recipient.includes(',');
  return { type: 'delivery.failed', domainId, data: { ...data, ...(isOne && { recipient }) } };
}
