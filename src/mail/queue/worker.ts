/** A worker of one kind of delivery: leases due rows, runs the attempts, and records their outcomes. */

import { isOverdue, refusalOfFailure } from '../../platform/database/database.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import type { Repeat } from '../../platform/time/time.ts';
import { type JobFacts, UnreadablePayload } from './delivery.ts';
import { Lanes } from './lanes.ts';
import { watchLate } from './late.ts';
import { endLeases, leaseRows, releaseLeases, renewLeases } from './lease-rows.ts';
import type { Batch, Lane } from './parties.ts';
import { QueuePoller } from './queue-poller.ts';
import { type Ended, OutcomeRecorder } from './record-outcome.ts';
import { type Patient, Postponed, Slot } from './slot.ts';
import { tellFailure, type WorkerSurroundings, type WorkOptions, wait } from './work-options.ts';
import { countDue, jobFacts, type LeasedRow } from './worker-rows.ts';

/**
 * A lease is renewed three times before it ends. A dead worker's rows are due when its lease ends, 20 s after its last
 * renewal at most, and the other nodes look every 5 s.
 */
const LEASE_MS = 20_000;
const RENEW_MS = 6_000;
/** The wait after an error of the database. */
const DATABASE_RETRY_MS = 1_000;
/** The wait before a destination is tried again whose slots are all held by other nodes. */
const SLOTS_RETRY_MS = 1_000;
/** How long an attempt may take to return after it was aborted. */
const ABORT_GRACE_MS = 1_000;

const CONCURRENCY = 512;
/** An attempt holds a few times as much. */
const PAYLOADS_MAX = 64 * 1024 * 1024;
/** Leases under way at a time: the size of their rows is known only when they have been read. */
const LEASES_MAX = 4;
/** What operators are told of an attempt that throws for no known reason. */
const INTERNAL = 'internal error';
/** Stands for an attempt that ended before it began. */
const PUT_BACK = { result: 'temporary', error: { text: 'postponed' } } as const;
/** When it is due again. Its host is known by then: it waits without being leased. */
const PUT_BACK_MS = 5_000;
const PER_DESTINATION = 32;

export class Worker<Payload = unknown, Prepared = unknown> {
  readonly #options: WorkOptions<Payload, Prepared>;
  readonly #around: WorkerSurroundings;
  readonly #recorder: OutcomeRecorder;
  readonly #poller: QueuePoller;
  readonly #late: Repeat;
  readonly #lanes: Lanes;
  /** Attempts under way at one destination. */
  readonly #most: number;
  readonly #patient: Patient = new Map();
  /** Ids of the rows that we have leased. */
  readonly #leased = new Set<number>();
  /** Characters of their payloads. */
  #leasedSize = 0;
  #leases = 0;
  /** Everything that is under way. */
  readonly #tasks = new Set<Promise<void>>();
  readonly #abort = new AbortController();
  #disarmRenewal: () => void = () => {};
  #disarmPump: () => void = () => {};
  #pumping = false;
  #stopped = false;

  constructor(options: WorkOptions<Payload, Prepared>, around: WorkerSurroundings) {
    this.#options = options;
    this.#around = around;
    this.#recorder = new OutcomeRecorder(options, around);
    this.#poller = new QueuePoller({
      ...around,
      kind: options.kind,
      found: (waiting) => this.#lanes.expect(waiting, waiting.due, around.clock.now()),
      hasRoomFor: (sender) => this.#lanes.hasRoomFor(sender),
      onPage: () => this.#pumpSoon(),
      track: (task) => this.#track(task),
    });
    this.#late = watchLate(options, around);
    this.#most = options.perDestination ?? PER_DESTINATION;
    this.#lanes = new Lanes({
      concurrency: options.concurrency ?? CONCURRENCY,
      perDestination: this.#most,
      horizon: this.#poller.horizon,
    });
  }

  start(): void {
    this.#track(this.#recover());
    this.#armRenewal();
    if (this.#options.onLate) void this.#late.run();
  }

  /** A row of the lane is due from `due` on. */
  wake(lane: Lane, due: number): void {
    this.#expect(lane, due, this.#around.clock.now());
    this.#pumpSoon();
  }

  #expect(lane: Lane, due: number, now: number): void {
    if (!this.#lanes.expect(lane, due, now)) this.#poller.leave(lane.sender);
  }

  /** Resolves when nothing is under way and nothing can be done before time has passed. */
  async idle(): Promise<void> {
    while (this.#tasks.size > 0 || this.#pumping) {
      await Promise.all(this.#tasks);
      await new Promise((resolve) => setImmediate(resolve));
    }
  }

  /**
   * Starts no more attempts and waits for those under way; after `deadlineMs` they are aborted. The lease of a
   * delivery without an outcome by then is released, and the attempt does not count.
   */
  async stop(deadlineMs: number): Promise<void> {
    if (this.#stopped) return;
    this.#stopped = true;
    const { clock, database, owner, log } = this.#around;
    this.#poller.stop();
    this.#track(this.#late.stop());
    this.#disarmPump();
    await Promise.race([this.#tasksEnded(), wait(clock, deadlineMs)]);
    this.#abort.abort();
    await Promise.race([this.#tasksEnded(), wait(clock, ABORT_GRACE_MS)]);
    this.#disarmRenewal();
    const left = [...this.#leased];
    this.#leased.clear();
    await releaseLeases(database, owner, left, clock.now()).catch((error: unknown) =>
      log.error(
        { err: error, left: left.length },
        'could not release leases: these deliveries are attempted again when their leases expire',
      ),
    );
  }

  async #tasksEnded(): Promise<void> {
    while (this.#tasks.size > 0) await Promise.all(this.#tasks);
  }

  /** Remembers a task until it ends; tasks catch their own errors. */
  #track(task: Promise<void>): void {
    const tracked = task.finally(() => this.#tasks.delete(tracked));
    this.#tasks.add(tracked);
  }

  /** Makes the deliveries of an earlier run due, and looks for all that are due. */
  async #recover(): Promise<void> {
    const { database, clock, log } = this.#around;
    const { kind } = this.#options;
    try {
      // Only one process uses the file, so the holder of these leases has ended.
      if (database.engine === 'sqlite') await endLeases(database, kind, clock.now());
    } catch (error) {
      log.error(
        { err: error, kind },
        'could not release the leases of the last run: these deliveries are attempted again when their leases expire',
      );
    }
    this.#poller.look();
  }

  /** Slots that become free in one turn of the event loop are filled by a single lease. */
  #pumpSoon(): void {
    if (this.#pumping || this.#stopped) return;
    this.#pumping = true;
    setImmediate(() => {
      this.#pumping = false;
      this.#pump();
    });
  }

  #pump(): void {
    if (this.#stopped) return;
    const { clock, unwritten } = this.#around;
    if (unwritten.size > 0) {
      this.#disarmPump();
      this.#disarmPump = clock.after(DATABASE_RETRY_MS, () => this.#pumpSoon());
      return;
    }
    const now = clock.now();
    const { payloadsMax = PAYLOADS_MAX } = this.#options;
    while (this.#leases < LEASES_MAX) {
      const batch = this.#lanes.next(now, this.#leasedSize >= payloadsMax);
      if (!batch) {
        this.#endPatient();
        break;
      }
      this.#leases++;
      this.#track(this.#lease(batch));
    }
    this.#disarmPump();
    const due = this.#lanes.nextDue;
    // The end of a lease brings us here again.
    if (due !== Number.POSITIVE_INFINITY && this.#leases < LEASES_MAX) {
      this.#disarmPump = clock.after(Math.max(due - now, 0), () => this.#pumpSoon());
    }
    this.#poller.goOn();
  }

  /** Ends an attempt that may wait for nothing, where somebody waits for its slot. Its end brings us here again. */
  #endPatient(): void {
    let found: { readonly end: () => void; readonly held: number } | undefined;
    // Of the user who has the most; of several, the one that has waited for the longest.
    for (const [end, lane] of this.#patient) {
      if (!this.#lanes.isWanted(lane)) continue;
      const held = this.#lanes.heldBy(lane.sender);
      if (!found || held > found.held) found = { end, held };
    }
    if (!found) return;
    const { end } = found;
    this.#patient.delete(end);
    end();
  }

  async #lease(batch: Batch): Promise<void> {
    const { database, clock, owner, outage, trace, mayTakeOver } = this.#around;
    const { kind } = this.#options;
    const { sender, destination } = batch;
    let limit = 0;
    let begun = 0;
    try {
      limit = await this.#takeSlots(batch);
      if (limit === 0) {
        this.#lanes.waitForSlot(batch, clock.now() + SLOTS_RETRY_MS, clock.now());
        return;
      }
      const now = clock.now();
      const request = {
        kind,
        sender,
        destination,
        owner,
        now,
        until: now + LEASE_MS,
        limit,
        // On a full disk some leases cannot be renewed, while others can be written.
        endedBy: mayTakeOver() && !database.isDiskFull ? now : 0,
        trace,
        recipientsOf: this.#options.recipientsOf,
      };
      const { rows, nextDue } = await leaseRows(database, request);
      // Where nothing was due, it was only read.
      if (rows.length > 0) outage.worked();
      // Our lease ended unnoticed and we leased the row again: the first attempt is still under way.
      const fresh = rows.filter(({ id }) => !this.#leased.has(id));
      const due = rows.length === limit ? now : nextDue;
      this.#lanes.leased(batch, fresh.length, due, clock.now());
      begun = fresh.length;
      for (const row of fresh) this.#begin(row, batch);
    } catch (error) {
      tellFailure(this.#around, error, { kind }, 'could not lease deliveries: retry in 1 s');
      const now = clock.now();
      this.#lanes.leased(batch, 0, now + DATABASE_RETRY_MS, now);
    } finally {
      if (limit > begun) this.#around.slots?.give(this.#slotOf(destination), limit - begun);
      this.#leases--;
      this.#pumpSoon();
    }
  }

  /**
   * Takes slots for the rows that are due, and one more, which shows that there are no others. Whoever took all of them
   * while it looks would keep other nodes from their attempts, and for the whole lease of the slots if it is killed.
   */
  async #takeSlots({ sender, destination, slots }: Batch): Promise<number> {
    const { database, clock, slots: shared } = this.#around;
    // A single node needs no shared count.
    if (!shared) return slots;
    const { kind } = this.#options;
    const now = clock.now();
    const due = await countDue(database.read, { kind, sender, destination, now, limit: slots });
    return shared.take(this.#slotOf(destination), Math.min(due + 1, slots), this.#most);
  }

  /** The name under which attempts at a destination are counted over all nodes. */
  #slotOf(destination: string): string {
    return `${this.#options.kind}:${destination}`;
  }

  #begin(row: LeasedRow, batch: Batch): void {
    this.#leased.add(row.id);
    this.#leasedSize += row.payload.length;
    // Leased after the worker was told to stop: `stop` releases it with the others.
    if (!this.#stopped) this.#track(this.#run(row, batch));
  }

  async #run(row: LeasedRow, batch: Batch): Promise<void> {
    const { clock } = this.#around;
    const { sender, destination } = batch;
    const lane = { sender, destination };
    const slot = new Slot({
      lanes: this.#lanes,
      batch,
      patient: this.#patient,
      onPatient: () => this.#pumpSoon(),
    });
    const { signal } = this.#abort;
    const startedAt = clock.monotonic();
    const job = jobFacts(row, this.#options.delays);
    const ended = await this.#attempt(job, row.payload, slot);
    this.#around.slots?.give(this.#slotOf(row.destination), 1);
    const { outcome, shared } = ended;
    const isTaken = shared?.tried?.some((one) => one.outcome.result === 'delivered');
    // An aborted attempt says nothing about the receiver, unless it has the message for some recipients.
    if (signal.aborted && outcome.result === 'temporary' && !isTaken) return;
    const attemptMs = clock.monotonic() - startedAt;
    const due = await this.#record(job, { ...ended, attemptMs }, signal);
    this.#leased.delete(row.id);
    this.#leasedSize -= row.payload.length;
    const now = clock.now();
    // A receiver that takes the message for some is alive.
    const result = isTaken ? 'delivered' : outcome.result;
    this.#lanes.settled(lane, outcome === PUT_BACK ? 'postponed' : result, now, slot.host);
    if (due !== undefined) this.#expect(lane, due, now);
    this.#pumpSoon();
  }

  #record(job: JobFacts, ended: Ended, signal: AbortSignal): Promise<number | undefined> {
    const { outcome, attemptMs } = ended;
    if (outcome === PUT_BACK) return this.#recorder.putBack(job, PUT_BACK_MS);
    return ended.thrown && job.isLast
      ? this.#recorder.repeatLast(job, ended.thrown, attemptMs, signal)
      : this.#recorder.record(job, ended, signal);
  }

  async #attempt(facts: JobFacts, json: string, slot: Slot): Promise<Omit<Ended, 'attemptMs'>> {
    const { log, outage } = this.#around;
    const { kind, payloads, onOutcome } = this.#options;
    try {
      const job = { ...facts, payload: payloads.read(json) };
      const outcome = await this.#options.attempt(job, this.#abort.signal, slot);
      const { prepared, inLine } = outcome;
      const follow: Ended['follow'] = async (tx, settled) =>
        onOutcome?.(tx, job, settled, prepared);
      return { outcome, shared: outcome, follow, inLine };
    } catch (error) {
      if (error instanceof Postponed) return { outcome: PUT_BACK };
      if (error instanceof UnreadablePayload) {
        return { outcome: { result: 'held', error: { text: error.message } } };
      }
      // It says nothing about the receiver, and would cost an attempt, and after the second one five minutes. A query that
      // takes too long is no outage: it would be asked again every few seconds, by each that asks it.
      if (refusalOfFailure(error) && !isOverdue(error)) {
        outage.failed(error);
        return { outcome: PUT_BACK };
      }
      log.error(
        { err: error, kind, id: facts.id, mailId: facts.mailId },
        'a delivery attempt failed unexpectedly: it counts as a temporary failure',
      );
      // Such as a source that is missing: it is nothing that the receiver has said, and may be there again.
      const thrown = { text: error instanceof Refusal ? error.message : INTERNAL };
      return { outcome: { result: 'temporary', error: thrown }, thrown };
    }
  }

  #armRenewal(): void {
    this.#disarmRenewal = this.#around.clock.after(RENEW_MS, () => this.#track(this.#renew()));
  }

  async #renew(): Promise<void> {
    const { database, clock, owner } = this.#around;
    // Also during a stop: attempts under way keep their leases.
    this.#armRenewal();
    try {
      await renewLeases(database, owner, [...this.#leased], clock.now() + LEASE_MS);
    } catch (error) {
      const { kind } = this.#options;
      tellFailure(
        this.#around,
        error,
        { kind },
        'could not renew leases: other nodes may attempt these deliveries as well',
      );
    }
  }
}
