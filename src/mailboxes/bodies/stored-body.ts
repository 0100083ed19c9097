/** A body before and after it is in a row. */
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
