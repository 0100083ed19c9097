import type { Bodies } from '../bodies/bodies.ts';
import { MessageParser } from '../message/message.ts';
import type { StagedMessage } from './store.ts';

/**
 * Reads a message to its end in one pass: parses it and keeps its source, large ones on disk.
 *
 * @param head lines to put in front (trace headers), ending in CRLF
 * @throws whatever the source or the disk throws; then nothing is left behind
 */
export async function stageMessage(
  bodies: Bodies,
  source: AsyncIterable<Uint8Array>,
  head?: Uint8Array,
): Promise<StagedMessage> {
  const parser = new MessageParser();
  const body = await bodies.stage(head ? follow(head, source) : source, (chunk) =>
    parser.write(chunk),
  );
  return { parsed: parser.end(), body };
}

async function* follow(
  head: Uint8Array,
  source: AsyncIterable<Uint8Array>,
): AsyncGenerator<Uint8Array> {
  yield head;
  yield* source;
}
