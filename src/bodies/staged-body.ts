/** Bodies between their arrival and the row that names them. */

/**
 * A body that is whole but not yet referred to: what is in memory, followed by what is in a file on
 * the disk, if anything.
 */
export interface StagedBody {
  readonly size: number;
  readonly content: Buffer;
  readonly file?: string;
}

/** A body that is all in memory; its bytes are put together once, when somebody asks for them. */
class HeldBody implements StagedBody {
  readonly size: number;
  #chunks: readonly Uint8Array[];

  constructor(chunks: readonly Uint8Array[], size: number) {
    this.size = size;
    this.#chunks = chunks;
  }

  get content(): Buffer {
    const [first] = this.#chunks;
    if (this.#chunks.length === 1 && Buffer.isBuffer(first)) return first;
    const content = Buffer.concat(this.#chunks, this.size);
    this.#chunks = [content];
    return content;
  }

  prepend(head: Buffer): HeldBody {
    return new HeldBody([head, ...this.#chunks], head.length + this.size);
  }
}

/** Keeps a body in memory; the chunks must not change any more. */
export function holdBody(chunks: readonly Uint8Array[], size: number): StagedBody {
  return new HeldBody(chunks, size);
}

/** Puts bytes in front of a body, such as header lines that its end had to be read for. */
export function prependBody(head: Buffer, body: StagedBody): StagedBody {
  if (body instanceof HeldBody) return body.prepend(head);
  const content = Buffer.concat([head, body.content]);
  return { ...body, size: head.length + body.size, content };
}
