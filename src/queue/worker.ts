/** A worker of one kind: leases what is due, runs the attempts, has written what came of them. */
import { wait } from './clock.ts';
import type { Job, Outcome } from './delivery.ts';
import { type Batch, Destinations } from './destinations.ts';
import { Lookout } from './lookout.ts';
import { OutcomeRecorder } from './record-outcome.ts';
import { longestWaitMs } from './retry-schedule.ts';
import type { WorkerSurroundings, WorkOptions } from './work-options.ts';
import {
  endLeases,
  type LeasedRow,
  leaseRows,
  recallStranded,
  releaseLeases,
  renewLeases,
} from './worker-rows.ts';

/**
 * A lease is renewed three times before it ends. What a dead worker held is due when its lease ends,
 * 20 s after its last renewal at most, and the other nodes look every 5 s.
 */
const LEASE_MS = 20_000;
const RENEW_MS = 6_000;
/** After an error of the database. */
const DATABASE_RETRY_MS = 1_000;
/** How long an attempt may take to return after it was aborted. */
const ABORT_GRACE_MS = 1_000;

const CONCURRENCY = 512;
/** An attempt holds a few times as much. */
const PAYLOADS_MAX = 64 * 1024 * 1024;
/** Leases under way at a time: how large their rows are is known only when they are there. */
const LEASES_MAX = 4;
/** What an attempt comes to that throws. */
const THREW = { result: 'temporary', error: { text: 'internal error' } } as const;
const PER_DESTINATION = 32;

export class Worker {
  readonly #options: WorkOptions;
  readonly #around: WorkerSurroundings;
  readonly #recorder: OutcomeRecorder;
  readonly #lookout: Lookout;
  readonly #destinations: Destinations;
  /** Jobs whose lease is ours, by id. */
  readonly #held = new Map<number, Job>();
  /** Characters of their payloads. */
  #heldSize = 0;
  #leases = 0;
  /** Everything that is under way. */
  readonly #tasks = new Set<Promise<void>>();
  readonly #abort = new AbortController();
  #disarmRenewal: () => void = () => {};
  #disarmPump: () => void = () => {};
  #pumping = false;
  #stopped = false;

  constructor(options: WorkOptions, around: WorkerSurroundings) {
    this.#options = options;
    this.#around = around;
    this.#recorder = new OutcomeRecorder(options, around);
    this.#lookout = new Lookout({
      ...around,
      kind: options.kind,
      found: (waiting) => {
        const now = around.clock.now();
        for (const { destination, due } of waiting) this.#destinations.add(destination, due, now);
        this.#pumpSoon();
      },
      isFull: () => this.#destinations.isFull,
      track: (task) => this.#track(task),
    });
    this.#destinations = new Destinations({
      concurrency: options.concurrency ?? CONCURRENCY,
      perDestination: options.perDestination ?? PER_DESTINATION,
      horizon: this.#lookout.horizon,
    });
  }

  start(): void {
    this.#track(this.#begin());
    this.#armRenewal();
  }

  /** A row of the destination can be taken from `due` on. */
  wake(destination: string, due: number): void {
    this.#destinations.expect(destination, due, this.#around.clock.now());
    this.#pumpSoon();
  }

  /** Resolves when nothing is under way and nothing can be done before time has passed. */
  async idle(): Promise<void> {
    while (this.#tasks.size > 0 || this.#pumping) {
      await Promise.all(this.#tasks);
      await new Promise((resolve) => setImmediate(resolve));
    }
  }

  /**
   * Takes nothing new and waits for what is under way; after `deadlineMs` attempts are aborted. What
   * has no outcome by then is given back uncounted.
   */
  async stop(deadlineMs: number): Promise<void> {
    if (this.#stopped) return;
    this.#stopped = true;
    const { clock, database, owner, log } = this.#around;
    this.#lookout.stop();
    this.#disarmPump();
    await Promise.race([this.#tasksEnded(), wait(clock, deadlineMs)]);
    this.#abort.abort();
    await Promise.race([this.#tasksEnded(), wait(clock, ABORT_GRACE_MS)]);
    this.#disarmRenewal();
    const left = [...this.#held.keys()];
    this.#held.clear();
    await releaseLeases(database, owner, left, clock.now()).catch((error: unknown) =>
      log.error({ err: error, left: left.length }, 'leases stay until they end'),
    );
  }

  async #tasksEnded(): Promise<void> {
    while (this.#tasks.size > 0) await Promise.all(this.#tasks);
  }

  /** Keeps account of a task; tasks catch their own errors. */
  #track(task: Promise<void>): void {
    const tracked = task.finally(() => this.#tasks.delete(tracked));
    this.#tasks.add(tracked);
  }

  async #begin(): Promise<void> {
    const { database, clock, log } = this.#around;
    const { kind, delays } = this.#options;
    const now = clock.now();
    try {
      // The clock of the last run may have been ahead of the time, by years.
      await recallStranded(database, kind, now, now + longestWaitMs(delays));
      // One process has the file: whoever held these leases is dead.
      if (database.engine === 'sqlite') await endLeases(database, kind, now);
    } catch (error) {
      log.error({ err: error, kind }, 'leases of the last run stay until they end');
    }
    this.#lookout.look();
  }

  /** What became free in the same turn of the event loop is filled by one lease, not by many. */
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
    const now = this.#around.clock.now();
    const { payloadsMax = PAYLOADS_MAX } = this.#options;
    while (this.#leases < LEASES_MAX) {
      const batch = this.#destinations.take(now, this.#heldSize >= payloadsMax);
      if (!batch) break;
      this.#leases++;
      this.#track(this.#lease(batch));
    }
    this.#disarmPump();
    const due = this.#destinations.nextDue;
    if (due !== Number.POSITIVE_INFINITY) {
      this.#disarmPump = this.#around.clock.after(Math.max(due - now, 0), () => this.#pumpSoon());
    }
    if (this.#lookout.isHalfway && this.#destinations.hasRoom) this.#lookout.look();
  }

  async #lease(batch: Batch): Promise<void> {
    const { database, clock, owner, log } = this.#around;
    const { kind } = this.#options;
    const { destination, places: limit } = batch;
    try {
      const now = clock.now();
      const request = { kind, destination, owner, now, until: now + LEASE_MS, limit };
      const { rows, nextDue } = await leaseRows(database, request);
      // A lease of ours that ended unnoticed and was taken again: the attempt is still under way.
      const fresh = rows.filter(({ id }) => !this.#held.has(id));
      const due = rows.length === limit ? now : nextDue;
      this.#destinations.leased(batch, fresh.length, due, clock.now());
      for (const row of fresh) this.#take(row);
    } catch (error) {
      log.error({ err: error, kind }, 'no deliveries can be leased');
      const now = clock.now();
      this.#destinations.leased(batch, 0, now + DATABASE_RETRY_MS, now);
    }
    this.#leases--;
    this.#pumpSoon();
  }

  #take(row: LeasedRow): void {
    const job: Job = {
      id: row.id,
      publicId: row.public_id,
      domainId: row.domain_id,
      destination: row.destination,
      bodyId: row.body_id,
      payload: row.payload,
      attempt: row.attempts + 1,
      isFirst: row.attempted_at === null,
      isLast: row.attempts >= this.#options.delays.length,
      isReplay: row.replays > 0,
      createdAt: row.created_at,
    };
    this.#held.set(job.id, job);
    this.#heldSize += job.payload.length;
    // Leased when the worker had been told to stop: it is given back with the rest.
    if (!this.#stopped) this.#track(this.#run(job));
  }

  async #run(job: Job): Promise<void> {
    const { clock, log } = this.#around;
    const { signal } = this.#abort;
    const startedAt = clock.now();
    let outcome: Outcome = THREW;
    try {
      outcome = await this.#options.attempt(job, signal);
    } catch (error) {
      log.error({ err: error, kind: this.#options.kind, id: job.id }, 'an attempt threw');
    }
    // What was cut short says nothing about the receiver.
    if (signal.aborted && outcome.result === 'temporary') return;
    const due =
      outcome === THREW && job.isLast
        ? await this.#recorder.repeatLast(job, THREW.error)
        : await this.#recorder.record(job, outcome, clock.now() - startedAt, signal);
    this.#held.delete(job.id);
    this.#heldSize -= job.payload.length;
    const now = clock.now();
    this.#destinations.settled(job.destination, outcome.result, now);
    if (due !== undefined) this.#destinations.expect(job.destination, due, now);
    this.#pumpSoon();
  }

  #armRenewal(): void {
    this.#disarmRenewal = this.#around.clock.after(RENEW_MS, () => this.#track(this.#renew()));
  }

  async #renew(): Promise<void> {
    const { database, clock, owner, log } = this.#around;
    // Also while stopping: attempts under way keep what they have.
    this.#armRenewal();
    try {
      await renewLeases(database, owner, [...this.#held.keys()], clock.now() + LEASE_MS);
    } catch (error) {
      log.error({ err: error, kind: this.#options.kind }, 'leases cannot be renewed');
    }
  }
}
