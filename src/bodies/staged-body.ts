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
  #pieces: readonly Buffer[];

  constructor(pieces: readonly Buffer[], size: number) {
    this.#pieces = pieces;
    this.size = size;
  }

  get content(): Buffer {
    const [first] = this.#pieces;
    if (first && this.#pieces.length === 1) return first;
    // Not from the pool that small buffers share: what is alone in its memory can be handed to
    // another thread as it is.
    const content = Buffer.allocUnsafeSlow(this.size);
    let at = 0;
    for (const piece of this.#pieces) at += piece.copy(content, at);
    if (at !== this.size) throw new Error('a body has lost a piece');
    this.#pieces = [content];
    return content;
  }

  prepend(head: Buffer): HeldBody {
    return new HeldBody([head, ...this.#pieces], head.length + this.size);
  }
}

/**
 * Keeps a body in memory, in as many pieces as it came in. Each costs some 170 octets besides its own,
 * so they must not be as many as a client likes.
 *
 * @param pieces whose bytes must not change any more
 */
export function holdBody(pieces: readonly Uint8Array[]): StagedBody {
  const held = pieces.map(({ buffer, byteOffset, length }) =>
    Buffer.from(buffer, byteOffset, length),
  );
  return new HeldBody(
    held,
    held.reduce((size, { length }) => size + length, 0),
  );
}

/** Puts bytes in front of a body, such as header lines that its end had to be read for. */
export function prependBody(head: Buffer, body: StagedBody): StagedBody {
  if (body instanceof HeldBody) return body.prepend(head);
  const content = Buffer.concat([head, body.content]);
  return { ...body, size: head.length + body.size, content };
}
