/**
 * One message on its way in: what `delivery` reads, filled by the parser at the pace of the reader.
 */
import { Readable } from 'node:stream';
import { Refusal } from '../errors/errors.ts';

/** Bytes kept for a reader that is behind, besides the chunk that crosses the mark. */
const BUFFERED_BYTES = 128 * 1024;

export class IncomingMessage extends Readable {
  /** True once the end of the message was read, false when the client went away before it. */
  readonly arrived: Promise<boolean>;
  readonly #maxBytes: number;
  readonly #settle: (whole: boolean) => void;
  #bytes = 0;
  #over = false;
  #resume: (() => void) | undefined;

  /** @param maxBytes octets of the largest message that is taken */
  constructor(maxBytes: number) {
    super({ highWaterMark: BUFFERED_BYTES });
    const { promise, resolve } = Promise.withResolvers<boolean>();
    this.arrived = promise;
    this.#settle = resolve;
    this.#maxBytes = maxBytes;
    // A reader that has not begun yet learns of an error when it does; without a listener, an error
    // before that would end the process.
    this.on('error', () => {});
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

  /**
   * Adds bytes. A message that is too large, or that its reader gave up, costs no memory any more: its
   * bytes are counted and dropped, so that the connection stays in step.
   *
   * @param resume called once when the reader wants more, where the answer was false
   * @returns whether more can be added at once
   */
  add(bytes: Buffer, resume: () => void): boolean {
    this.#bytes += bytes.length;
    if (this.tooLarge && !this.destroyed) {
      this.destroy(new Refusal('message_too_large', sizeLimit(this.#maxBytes)));
    }
    if (this.destroyed || bytes.length === 0) return true;
    if (this.push(bytes) || this.destroyed) return true;
    this.#resume = resume;
    return false;
  }

  /** The line with the single dot was read. */
  finish(): void {
    this.#over = true;
    // Nobody waits for the reader any more; a late wish for bytes must not wake the parser up while
    // it works on the commands that follow the message.
    this.#resume = undefined;
    this.push(null);
    this.#settle(true);
  }

  /** The connection ended: a message that is not whole fails for its reader. */
  cutOff(): void {
    if (this.#over) return;
    this.#over = true;
    this.#resume = undefined;
    this.destroy(new Refusal('unavailable', 'The connection ended before the end of the message'));
    this.#settle(false);
  }

  override _read(): void {
    this.#wake();
  }

  override _destroy(error: Error | null, callback: (error?: Error | null) => void): void {
    callback(error);
    this.#wake();
  }

  #wake(): void {
    const resume = this.#resume;
    this.#resume = undefined;
    resume?.();
  }
}

/** What is said of a message that is too large, or says that it will be. */
export function sizeLimit(maxBytes: number): string {
  return `The message is larger than ${maxBytes} octets`;
}
