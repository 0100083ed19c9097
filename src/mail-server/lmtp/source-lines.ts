/** A stored message as a mail server gets it. */
import { asBuffer, LineEnds } from '../../message/message.ts';

const RETURN_PATH = Buffer.from('Return-Path: ');
/** Longer than any line of ours. */
const RETURN_PATH_MAX = 4096;

/**
 * Takes the Return-Path line off that we put in front of every message: by LMTP the server makes the
 * final delivery and writes its own from the reverse-path (RFC 5321 section 4.4).
 */
export async function* withoutReturnPath(
  source: AsyncIterable<Uint8Array>,
): AsyncGenerator<Buffer> {
  let start: Buffer | undefined = Buffer.alloc(0);
  for await (const chunk of source) {
    if (!start) {
      yield asBuffer(chunk);
      continue;
    }
    start = Buffer.concat([start, chunk]);
    const mayBe = start
      .subarray(0, RETURN_PATH.length)
      .equals(RETURN_PATH.subarray(0, start.length));
    if (mayBe && !start.includes('\n') && start.length < RETURN_PATH_MAX) continue;
    yield cutReturnPath(start);
    start = undefined;
  }
  if (start) yield cutReturnPath(start);
}

function cutReturnPath(start: Buffer): Buffer {
  if (!start.subarray(0, RETURN_PATH.length).equals(RETURN_PATH)) return start;
  return start.subarray(start.indexOf('\n') + 1);
}

/** Every line ends in CRLF (RFC 5321 section 2.3.8). */
export async function* withLineEnds(source: AsyncIterable<Uint8Array>): AsyncGenerator<Buffer> {
  const lineEnds = new LineEnds();
  for await (const chunk of source) yield lineEnds.write(chunk);
  yield lineEnds.end();
}
