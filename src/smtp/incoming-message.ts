/**
 * One message on its way in: what `delivery` reads, filled by the parser at the pace of the reader.
 */
import { Refusal } from '../errors/errors.ts';

/** Bytes kept for a reader that is behind, besides the chunk that crosses the mark. */
const BUFFERED_BYTES = 128 * 1024;
/**
 * Chunks that are handed out one by one. Of more, all are joined: a client may send one byte a packet, and
 * what is done for a chunk takes far longer than to copy it.
 */
const FEW = 8;

/**
 * One reader at a time; what a stream of Node does beside that (events, pipes, its own ways to end) would
 * take longer than all that is done with the bytes.
 */
export class IncomingMessage implements AsyncIterable<Buffer> {
  /** True once the end of the message was read, false when the client went away before it. */
  readonly arrived: Promise<boolean>;
  readonly #maxBytes: number;
  readonly #settle: (whole: boolean) => void;
  /** Chunks that wait for the reader, and their octets. */
  readonly #waiting: Buffer[] = [];
  #waitingBytes = 0;
  #bytes = 0;
  #over = false;
  #givenUp = false;
  /** Why, where there is something to say of it. */
  #reason: Error | undefined;
  /** Settles when the reader, who has read all there was, has something to do. */
  #news: PromiseWithResolvers<void> | undefined;
  #resume: (() => void) | undefined;

  /** @param maxBytes octets of the largest message that is taken */
  constructor(maxBytes: number) {
    const { promise, resolve } = Promise.withResolvers<boolean>();
    this.arrived = promise;
    this.#settle = resolve;
    this.#maxBytes = maxBytes;
  }

  /** Octets of the message so far, those that nobody wanted included. */
  get bytes(): number {
    return this.#bytes;
  }

  get tooLarge(): boolean {
    return this.#bytes > this.#maxBytes;
  }

  /** Whether all there will be of the message was read from the client. */
  get over(): boolean {
    return this.#over;
  }

  /** Octets that wait for the reader. */
  get waitingBytes(): number {
    return this.#waitingBytes;
  }

  /** Whether nobody wants it any more. */
  get destroyed(): boolean {
    return this.#givenUp;
  }

  /**
   * Adds bytes. A message that is too large, or that its reader gave up, costs no memory any more: its
   * bytes are counted and dropped, so that the connection stays in step.
   *
   * @param resume called once when the reader wants more, where the answer was false
   * @returns whether more can be added at once
   */
  add(bytes: Buffer, resume: () => void): boolean {
    this.#bytes += bytes.length;
    if (this.tooLarge) {
      this.destroy(new Refusal('message_too_large', sizeLimit(this.#maxBytes)));
    }
    if (this.destroyed || bytes.length === 0) return true;
    this.#waiting.push(bytes);
    this.#waitingBytes += bytes.length;
    this.#tellReader();
    if (this.#waitingBytes < BUFFERED_BYTES) return true;
    this.#resume = resume;
    return false;
  }

  /** The line with the single dot was read. */
  finish(): void {
    this.#end(true);
    this.#tellReader();
  }

  /** The connection ended: a message that is not whole fails for its reader. */
  cutOff(): void {
    if (this.#over) return;
    this.#end(false);
    this.destroy(new Refusal('unavailable', 'The connection ended before the end of the message'));
  }

  /** Gives the message up; a reader who has not come to its end is told why. */
  destroy(reason?: Error): void {
    if (this.#givenUp) return;
    this.#givenUp = true;
    this.#reason = reason;
    this.#waiting.length = 0;
    this.#waitingBytes = 0;
    this.#tellReader();
    this.#wakeSource();
  }

  /** @throws Refusal where the message is too large, or the client went away before its end */
  async *[Symbol.asyncIterator](): AsyncGenerator<Buffer, void, undefined> {
    try {
      for (;;) {
        if (this.#givenUp) throw this.#reason ?? new Error('the message was given up');
        const chunk = this.#takeWaiting();
        if (chunk) {
          if (this.#waitingBytes < BUFFERED_BYTES) this.#wakeSource();
          yield chunk;
        } else if (this.#over) return;
        else await this.#hearNews();
      }
    } finally {
      this.destroy();
    }
  }

  #takeWaiting(): Buffer | undefined {
    const isFew = this.#waiting.length <= FEW;
    const chunk = isFew ? this.#waiting.shift() : Buffer.concat(this.#waiting.splice(0));
    this.#waitingBytes -= chunk?.length ?? 0;
    return chunk;
  }

  #end(whole: boolean): void {
    this.#over = true;
    // Nobody waits for the reader any more; a late wish for bytes must not wake the parser up while
    // it works on the commands that follow the message.
    this.#resume = undefined;
    this.#settle(whole);
  }

  #hearNews(): Promise<void> {
    this.#news ??= Promise.withResolvers();
    return this.#news.promise;
  }

  #tellReader(): void {
    this.#news?.resolve();
    this.#news = undefined;
  }

  #wakeSource(): void {
    const resume = this.#resume;
    this.#resume = undefined;
    resume?.();
  }
}

/** What is said of a message that is too large, or says that it will be. */
export function sizeLimit(maxBytes: number): string {
  return `The message is larger than ${maxBytes} octets`;
}
