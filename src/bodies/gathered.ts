import { Buffer } from 'node:buffer';

/** Octets that there is room for at first: most messages. */
const ROOM = 32 * 1024;
const NOTHING = Buffer.alloc(0);

/**
 * Bytes that come in pieces of any size, kept in one piece of memory. A list of the pieces would cost
 * a client that sends one byte a packet nothing, and us some 170 times the message.
 */
export class Gathered {
  #memory = NOTHING;
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** Copies the bytes. */
  add(bytes: Uint8Array): void {
    const size = this.#size + bytes.length;
    if (size > this.#memory.length) {
      // Not from Node's pool, and not cleared: only what was written to it is ever handed out.
      const memory = Buffer.allocUnsafeSlow(Math.max(size, 2 * this.#memory.length, ROOM));
      memory.set(this.#memory.subarray(0, this.#size));
      this.#memory = memory;
    }
    this.#memory.set(bytes, this.#size);
    this.#size = size;
  }

  /** All of it, in memory that holds nothing else; this is empty from then on. */
  take(): Buffer {
    const { buffer } = this.#memory;
    const taken = this.#size > 0 ? Buffer.from(buffer.transferToFixedLength(this.#size)) : NOTHING;
    this.#memory = NOTHING;
    this.#size = 0;
    return taken;
  }
}
