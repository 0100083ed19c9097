/** What came of a source: all of it, or its start and the rest behind that. */
export interface ReadWhole {
  /** In memory of its own; undefined where there is more than was asked for. */
  readonly whole?: Uint8Array<ArrayBuffer>;
  /** All of the source, to be read once. */
  readonly begun: AsyncIterable<Uint8Array>;
}

/**
 * Reads a source to its end, unless it has more octets than `most`.
 *
 * @throws whatever the source throws
 */
export async function readWhole(
  source: AsyncIterable<Uint8Array>,
  most: number,
): Promise<ReadWhole> {
  const rest = source[Symbol.asyncIterator]();
  const chunks: Uint8Array[] = [];
  let size = 0;
  while (size <= most) {
    const { done, value } = await rest.next();
    if (done) {
      const whole = join(chunks, size);
      return { whole, begun: follow([whole], undefined) };
    }
    chunks.push(value);
    size += value.length;
  }
  return { begun: follow(chunks, rest) };
}

function join(chunks: readonly Uint8Array[], size: number): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(size);
  let at = 0;
  for (const chunk of chunks) {
    whole.set(chunk, at);
    at += chunk.length;
  }
  return whole;
}

async function* follow(
  chunks: readonly Uint8Array[],
  rest: AsyncIterator<Uint8Array> | undefined,
): AsyncGenerator<Uint8Array> {
  let ended = rest === undefined;
  try {
    yield* chunks;
    while (rest && !ended) {
      const { done, value } = await rest.next();
      ended = done === true;
      if (!done) yield value;
    }
  } finally {
    // Whoever stops early gives the source up.
    if (!ended) await rest?.return?.();
  }
}
