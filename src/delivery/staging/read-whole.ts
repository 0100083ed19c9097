import { Gathered } from '../../bodies/bodies.ts';

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
  const read = new Gathered();
  while (read.size <= most) {
    const { done, value } = await rest.next();
    if (done) {
      const whole = read.take();
      return { whole, begun: follow(whole, undefined) };
    }
    read.add(value);
  }
  return { begun: follow(read.take(), rest) };
}

async function* follow(
  start: Uint8Array,
  rest: AsyncIterator<Uint8Array> | undefined,
): AsyncGenerator<Uint8Array> {
  let ended = rest === undefined;
  try {
    yield start;
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
