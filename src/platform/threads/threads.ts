/**
 * Threads that answer requests. One may end at any time, for lack of memory, for example: then what it was asked fails,
 * and whoever needs it starts another one. It keeps the process from ending only while an answer is missing.
 */
import { parentPort, type Transferable, type Worker } from 'node:worker_threads';

interface Asked {
  readonly id: number;
  readonly request: unknown;
}

type Posted =
  | { readonly id: number; readonly value: unknown }
  | { readonly id: number; readonly failure: string }
  | { readonly told: unknown };

interface AskedThreadOptions<Told> {
  /** Milliseconds for an answer; after them it is ended. */
  readonly answerMs?: number;
  /** Called with what it tells without being asked. */
  readonly onTold?: (told: Told) => void;
  /** Called once, when it has ended. */
  readonly onEnd?: (fault: Error) => void;
}

/** A thread that was ended, or ended by itself without an error. */
export class ThreadEnded extends Error {
  override readonly name = 'ThreadEnded';
}

/** The side of whoever asks; in the thread runs {@link answerRequests}. */
export class AskedThread<Request, Told = never> {
  readonly #worker: Worker;
  readonly #options: AskedThreadOptions<Told>;
  readonly #waiting = new Map<number, PromiseWithResolvers<unknown>>();
  #lastId = 0;
  #fault: Error | undefined;

  constructor(worker: Worker, options: AskedThreadOptions<Told> = {}) {
    this.#worker = worker;
    this.#options = options;
    worker.unref();
    worker.on('message', (posted: Posted) => this.#take(posted));
    worker.on('error', (error: Error) => this.#end(error));
    worker.once('exit', (code) => this.#end(new ThreadEnded(`the thread ended with ${code}`)));
  }

  /** Why it has ended; undefined while it runs. */
  get fault(): Error | undefined {
    return this.#fault;
  }

  /** How many answers are missing. */
  get waiting(): number {
    return this.#waiting.size;
  }

  /**
   * @param given memory that the thread gets, in place of a copy
   * @throws Error of the answer, and where the thread has ended or does not answer
   */
  async ask<Answer>(request: Request, given: Transferable[] = []): Promise<Answer> {
    if (this.#fault) throw this.#fault;
    const id = ++this.#lastId;
    const asked = Promise.withResolvers<unknown>();
    this.#worker.postMessage({ id, request } satisfies Asked, given);
    this.#waiting.set(id, asked);
    this.#worker.ref();
    const { answerMs } = this.#options;
    // In a process that was frozen the time is over before the answers are read that have come: they are read first.
    const giveUp = () => setImmediate(() => this.#waiting.has(id) && this.#giveUp());
    const timer = answerMs === undefined ? undefined : setTimeout(giveUp, answerMs);
    try {
      return (await asked.promise) as Answer;
    } finally {
      clearTimeout(timer);
    }
  }

  async end(): Promise<void> {
    await this.#worker.terminate();
  }

  #giveUp(): void {
    this.#end(new Error(`the thread did not answer in ${this.#options.answerMs} ms`));
    void this.end();
  }

  #take(posted: Posted): void {
    // One that did not answer may do so while it is ended.
    if (this.#fault) return;
    if ('told' in posted) {
      this.#options.onTold?.(posted.told as Told);
      return;
    }
    const asked = this.#waiting.get(posted.id);
    this.#waiting.delete(posted.id);
    if (this.#waiting.size === 0) this.#worker.unref();
    // Node hands over a thousand messages before its event loop goes on, also those that come meanwhile: whoever asks again
    // after each answer would hold everybody else for all that he asks.
    setImmediate(() => {
      if ('failure' in posted) asked?.reject(new Error(posted.failure));
      else asked?.resolve(posted.value);
    });
  }

  #end(fault: Error): void {
    if (this.#fault) return;
    this.#fault = fault;
    this.#worker.unref();
    this.#options.onEnd?.(fault);
    for (const asked of this.#waiting.values()) asked.reject(fault);
    this.#waiting.clear();
  }
}

function port() {
  if (!parentPort) throw new Error('this file is run as a thread');
  return parentPort;
}

/** Tells whoever started this thread something that was not asked. */
export function tell(told: unknown): void {
  port().postMessage({ told } satisfies Posted);
}

/**
 * Answers each request in this thread; an error is an answer, too.
 *
 * @param giving memory that an answer gives away, in place of a copy
 * @param endsIt whether an error ends the thread
 */
export function answerRequests<Request, Answer>(
  answer: (request: Request) => Answer | Promise<Answer>,
  giving: (answer: Answer) => Transferable[] = () => [],
  endsIt: (error: unknown) => boolean = () => false,
): void {
  const asker = port();
  const settle = async ({ id, request }: Asked) => {
    try {
      const value = await answer(request as Request);
      asker.postMessage({ id, value } satisfies Posted, giving(value));
    } catch (error) {
      if (endsIt(error)) throw error;
      asker.postMessage({ id, failure: String(error) } satisfies Posted);
    }
  };
  asker.on('message', (asked: Asked) => void settle(asked));
}
