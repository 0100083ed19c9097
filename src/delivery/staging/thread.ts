/** The staging thread as the others see it. */
import type { Worker } from 'node:worker_threads';
import { Refusal } from '../../errors/errors.ts';
import { readWritten } from '../../message/message.ts';
import type { Verdicts } from '../sender-checks/check-sender.ts';
import type { ArrivedMail, StagedMail } from './staging.ts';
import type { StagingAnswer, StagingQuestion } from './staging-port.ts';

/** Messages that the thread has in hand at most; each may wait for DNS, and holds up to 64 KiB. */
const IN_HAND_MAX = 512;
/**
 * Milliseconds after which a thread that owes answers and gives none is ended: far more than the checks
 * of a sender may take (`sender-checks/`), so that what is ended hangs. One with a long queue does not.
 */
const ANSWER_MS = 30_000;
/** Milliseconds without a message after which the thread ends: it holds some 100 MB of memory. */
const IDLE_MS = 60_000;

interface Waiting {
  /** On the clock of `performance.now()`. */
  readonly since: number;
  /**
   * Taken out when it is settled, or the message would live on: a Map that grows leaves its old table,
   * with what was in it, to a full collection.
   */
  outcome: PromiseWithResolvers<StagedMail> | undefined;
}

export interface ThreadTimes {
  readonly answerMs: number;
  readonly idleMs: number;
}

export class StagingThread {
  readonly #worker: Worker;
  readonly #times: ThreadTimes;
  /** By the id of the question, in the order they were asked. */
  readonly #waiting = new Map<number, Waiting>();
  readonly #watch: NodeJS.Timeout;
  #lastId = 0;
  #lastUsed = performance.now();
  #lastAnswer = 0;
  #isReady = false;
  #isMeantToEnd = false;
  #fault: unknown;

  /**
   * @param onEnd told once that the thread is gone, and by what fault; by none where it was idle or
   *   {@link end} was called
   */
  constructor(
    worker: Worker,
    onEnd: (fault: unknown) => void,
    times: ThreadTimes = { answerMs: ANSWER_MS, idleMs: IDLE_MS },
  ) {
    this.#worker = worker;
    this.#times = times;
    // A thread that waits for questions must not keep the process from ending.
    worker.unref();
    worker.on('message', (answer: StagingAnswer) => this.#settle(answer));
    worker.on('messageerror', (error) => this.#endBy(error));
    worker.on('error', (error) => {
      this.#fault ??= error;
    });
    this.#watch = setInterval(() => this.#look(), Math.min(times.answerMs, times.idleMs) / 4);
    this.#watch.unref();
    worker.once('exit', (code) => {
      if (!this.#isMeantToEnd) this.#fault ??= new Error(`the staging thread ended with ${code}`);
      clearInterval(this.#watch);
      this.#isReady = false;
      const refusal = new Refusal('unavailable', 'The message could not be read, try again', {
        cause: this.#fault,
      });
      for (const { outcome } of this.#waiting.values()) outcome?.reject(refusal);
      this.#waiting.clear();
      onEnd(this.#fault);
    });
  }

  /** Whether it can be handed a message now. */
  get takesMore(): boolean {
    return this.#isReady && this.#waiting.size < IN_HAND_MAX;
  }

  /**
   * Has a message staged.
   *
   * @param content is handed over: the caller has no use for it any more
   * @throws Refusal `unavailable` where the thread ends before it answers, Error for a bug in staging
   */
  stage(mail: ArrivedMail, content: Uint8Array<ArrayBuffer>): Promise<StagedMail> {
    const outcome = Promise.withResolvers<StagedMail>();
    const id = ++this.#lastId;
    this.#lastUsed = performance.now();
    this.#waiting.set(id, { since: this.#lastUsed, outcome });
    const question: StagingQuestion = { id, mail, content };
    this.#worker.postMessage(question, [content.buffer]);
    return outcome.promise;
  }

  /** Ends the thread at once. */
  async end(): Promise<void> {
    this.#isReady = false;
    this.#isMeantToEnd = true;
    await this.#worker.terminate();
  }

  #settle(answer: StagingAnswer): void {
    if (answer.kind === 'ready') {
      this.#isReady = true;
      this.#lastUsed = performance.now();
      return;
    }
    this.#lastAnswer = performance.now();
    const outcome = this.#take(answer.id);
    if (answer.kind === 'failed') {
      outcome?.reject(new Error(`staging failed: ${answer.bug}`));
      return;
    }
    const content = Buffer.from(answer.content.buffer);
    const body = { size: content.length, content };
    const message = { parsed: readWritten(answer.message), body };
    const verdicts = answer.verdicts && (JSON.parse(answer.verdicts) as Verdicts);
    outcome?.resolve({ message, ...(verdicts && { verdicts }) });
  }

  #take(id: number): Waiting['outcome'] {
    const waiting = this.#waiting.get(id);
    if (!waiting) return undefined;
    this.#waiting.delete(id);
    const { outcome } = waiting;
    waiting.outcome = undefined;
    return outcome;
  }

  /** Ends a thread that hangs, or that nobody needs. */
  #look(): void {
    const now = performance.now();
    // One that is being started is wanted, but not for ever.
    const idleMs = this.#isReady ? this.#times.idleMs : this.#times.answerMs;
    const [oldest] = this.#waiting.values();
    if (oldest && now - Math.max(oldest.since, this.#lastAnswer) >= this.#times.answerMs) {
      this.#endBy(new Error(`the staging thread did not answer in ${this.#times.answerMs} ms`));
    } else if (!oldest && now - this.#lastUsed >= idleMs) void this.end();
  }

  #endBy(fault: unknown): void {
    this.#fault ??= fault;
    void this.end();
  }
}
