/** A body on its way from memory to its row. */
import { Buffer } from 'node:buffer';

/** Where the bytes of a body are, by its row: first `content`, then `file`. */
export interface StoredBody {
  readonly size: number;
  readonly content: Uint8Array | null;
  readonly file: string | null;
}

/**
 * A body that was read to its end but is not in a row yet: the bytes in memory, followed by those in a file on the
 * disk, if any.
 */
export interface StagedBody {
  readonly size: number;
  readonly content: Buffer;
  readonly file?: string;
}

/** Puts bytes in front of a body, such as header lines that depend on the whole message. */
export function prependBody(head: Buffer, body: StagedBody): StagedBody {
  const content = Buffer.concat([head, body.content]);
  return { ...body, size: head.length + body.size, content };
}

/** Bytes from `start` up to but not including `end`. */
export interface ByteRange {
  readonly start: number;
  readonly end: number;
}

/** Bytes that are allocated first: most messages fit. */
const ROOM = 32 * 1024;
const NOTHING = Buffer.alloc(0);

/**
 * Bytes that come in pieces of any size, collected in one piece of memory. With a list of the pieces, a client that
 * sends one byte per packet at no cost would make us use some 170 times the size of the message.
 */
export class GrowingBuffer {
  #memory: Buffer<ArrayBuffer> = NOTHING;
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** Copies the bytes. */
  add(bytes: Uint8Array): void {
    const size = this.#size + bytes.length;
    if (size > this.#memory.length) {
      // Not from Node's pool, and not cleared: only bytes that were written to it are ever returned.
      const memory = Buffer.allocUnsafeSlow(Math.max(size, 2 * this.#memory.length, ROOM));
      memory.set(this.#memory.subarray(0, this.#size));
      this.#memory = memory;
    }
    this.#memory.set(bytes, this.#size);
    this.#size = size;
  }

  /** Returns all of it, in memory that holds nothing else; this object is empty after that. */
  take(): Buffer<ArrayBuffer> {
    const { buffer } = this.#memory;
    const taken =
      this.#size > 0 ? Buffer.from(buffer.transferToFixedLength(this.#size)) : Buffer.alloc(0);
    this.#memory = NOTHING;
    this.#size = 0;
    return taken;
  }
}
