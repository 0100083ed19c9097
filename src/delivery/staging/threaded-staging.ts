/**
 * Staging on two threads. To parse a message and check its sender is most of the work that it makes,
 * and needs nothing but its bytes: where several messages come at once, small ones are staged by a
 * thread of their own, while this one answers clients and commits what is ready.
 *
 * The thread is started when it is first wanted. A message that comes alone, and none beside it of late,
 * is staged here, since to hand it over would take longer than it saves; so is a large one, which streams
 * to the disk.
 */
import type { Worker } from 'node:worker_threads';
import { INLINE_MAX } from '../../bodies/bodies.ts';
import { readWhole } from './read-whole.ts';
import type { ArrivedMail, StagedMail, Staging } from './staging.ts';
import { StagingThread } from './thread.ts';

/** Messages under way at which the thread is started. */
const BUSY = 4;
/**
 * Milliseconds after two messages were under way at once in which others are expected beside one that
 * comes. Clients that are answered together send their next together, but one of them is the first.
 */
const CROWDED_MS = 100;
/** Milliseconds after the end of a thread in which no other is started. */
const REST_MS = 30_000;

/** What staging tells the log; a pino Logger fits. */
export interface StagingLog {
  error(fields: object, message: string): void;
}

export interface ThreadedStagingOptions {
  /** Stages on the thread that calls. */
  readonly local: Staging;
  /** Starts a thread that answers by `answerQuestions`. */
  readonly start: () => Worker;
  readonly log: StagingLog;
  /** Milliseconds on a clock that never goes back. */
  readonly now?: () => number;
}

export class ThreadedStaging implements Staging {
  readonly #options: ThreadedStagingOptions;
  readonly #now: () => number;
  #underWay = 0;
  #crowdedUntil = 0;
  #thread: StagingThread | undefined;
  #restsUntil = 0;
  #closed = false;

  constructor(options: ThreadedStagingOptions) {
    this.#options = options;
    this.#now = options.now ?? (() => performance.now());
  }

  async stage(mail: ArrivedMail, source: AsyncIterable<Uint8Array>): Promise<StagedMail> {
    this.#underWay++;
    try {
      const thread = this.#threadAtHand();
      if (!thread) return await this.#options.local.stage(mail, source);
      const { whole, begun } = await readWhole(source, INLINE_MAX);
      if (whole && thread.takesMore) return await thread.stage(mail, whole);
      return await this.#options.local.stage(mail, begun);
    } finally {
      this.#underWay--;
    }
  }

  /** Ends the thread; what it has in hand is refused for now. */
  async close(): Promise<void> {
    this.#closed = true;
    await this.#thread?.end();
  }

  /** The thread, where there is reason to hand this message over and somebody to take it. */
  #threadAtHand(): StagingThread | undefined {
    if (this.#underWay >= BUSY) this.#thread ??= this.#startThread();
    if (!this.#thread?.takesMore) return undefined;
    const now = this.#now();
    if (this.#underWay > 1) this.#crowdedUntil = now + CROWDED_MS;
    return now < this.#crowdedUntil ? this.#thread : undefined;
  }

  #startThread(): StagingThread | undefined {
    if (this.#closed || this.#now() < this.#restsUntil) return undefined;
    try {
      return new StagingThread(this.#options.start(), (fault) => this.#ended(fault));
    } catch (error) {
      // The system has no room for another thread: there is a limit to them in many a container.
      this.#ended(error);
      return undefined;
    }
  }

  /** @param fault undefined where it was meant to end */
  #ended(fault: unknown): void {
    this.#thread = undefined;
    if (fault === undefined || this.#closed) return;
    this.#restsUntil = this.#now() + REST_MS;
    this.#options.log.error({ err: fault }, 'staging goes on without a thread');
  }
}
