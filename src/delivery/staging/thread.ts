/** The staging thread as the others see it. */
import type { Worker } from 'node:worker_threads';
import type { ArrivedMail, StagedMail } from './staging.ts';
import type { Found, StagingAnswer, StagingQuestion } from './staging-port.ts';

interface Waiting {
  resolve(staged: StagedMail): void;
  reject(error: Error): void;
}

export class StagingThread {
  readonly #worker: Worker;
  readonly #waiting = new Map<number, Waiting>();
  #lastId = 0;
  #isReady = false;

  /** @param onEnd told once that the thread is gone, and what ended it */
  constructor(worker: Worker, onEnd: (error: Error) => void) {
    this.#worker = worker;
    // A thread that waits for questions must not keep the process from ending.
    worker.unref();
    worker.on('message', (answer: StagingAnswer) => this.#settle(answer));
    let fault: unknown;
    worker.on('error', (error) => {
      fault = error;
    });
    worker.once('exit', (code) => {
      this.#isReady = false;
      const error = new Error(`the staging thread ended with ${code}`, { cause: fault });
      for (const { reject } of this.#waiting.values()) reject(error);
      this.#waiting.clear();
      onEnd(error);
    });
  }

  /** Whether it has said that it takes questions, and is not gone. */
  get isReady(): boolean {
    return this.#isReady;
  }

  /**
   * Has a message staged.
   *
   * @param content is handed over: the caller has no use for it any more
   * @throws Error where staging has a bug, or the thread ends before it answers
   */
  stage(mail: ArrivedMail, content: Uint8Array<ArrayBuffer>): Promise<StagedMail> {
    const { promise, resolve, reject } = Promise.withResolvers<StagedMail>();
    const id = ++this.#lastId;
    this.#waiting.set(id, { resolve, reject });
    const question: StagingQuestion = { id, mail, content };
    this.#worker.postMessage(question, [content.buffer]);
    return promise;
  }

  /** Ends the thread at once. */
  async end(): Promise<void> {
    await this.#worker.terminate();
  }

  #settle(answer: StagingAnswer): void {
    if (answer.kind === 'ready') {
      this.#isReady = true;
      return;
    }
    const waiting = this.#waiting.get(answer.id);
    this.#waiting.delete(answer.id);
    if (answer.kind === 'failed') {
      waiting?.reject(new Error('staging failed', { cause: answer.bug }));
      return;
    }
    const { parsed, verdicts } = JSON.parse(answer.found) as Found;
    const content = Buffer.from(answer.content.buffer);
    const message = { parsed, body: { size: content.length, content } };
    waiting?.resolve({ message, ...(verdicts && { verdicts }) });
  }
}
