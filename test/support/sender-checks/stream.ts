/** Bytes as they come from a network. */

/** The bytes cut at the given offsets, whatever their order. */
export function cutAt(bytes: Buffer, offsets: readonly number[]): Buffer[] {
  const cuts = [0, ...offsets.map((offset) => offset % (bytes.length + 1)), bytes.length];
  cuts.sort((a, b) => a - b);
  return cuts.slice(1).map((end, index) => bytes.subarray(cuts[index], end));
}

export async function* streamOf(chunks: Iterable<Buffer>): AsyncGenerator<Buffer> {
  yield* chunks;
}

export async function collect(stream: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const chunks: Uint8Array[] = [];
  for await (const chunk of stream) chunks.push(chunk);
  return Buffer.concat(chunks);
}
