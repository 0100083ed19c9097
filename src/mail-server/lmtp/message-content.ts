/** A stored message as LMTP carries it. */
import { asBuffer, LineEnds } from '../../message/message.ts';

const LF = 0x0a;
const DOT = 0x2e;
const LINE_DOT = Buffer.from('\r\n.');
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

/**
 * What goes over the line between 354 and the end: every line ends in CRLF (RFC 5321 section 2.3.8),
 * and a dot at the start of one is doubled (section 4.5.2). The lone dot at the end is not part of it.
 */
export async function* toWire(source: AsyncIterable<Uint8Array>): AsyncGenerator<Buffer> {
  const lineEnds = new LineEnds();
  let atLineStart = true;
  for await (const chunk of source) {
    const lines = lineEnds.write(chunk);
    if (lines.length === 0) continue;
    yield stuffDots(lines, atLineStart);
    // LineEnds never parts a CR from its LF.
    atLineStart = lines.at(-1) === LF;
  }
  const end = lineEnds.end();
  if (end.length > 0) yield end;
}

/** Chunks without a dot at the start of a line are passed through, not copied. */
function stuffDots(chunk: Buffer, atLineStart: boolean): Buffer {
  const first = atLineStart && chunk[0] === DOT ? 1 : 0;
  let dots = first;
  for (let at = chunk.indexOf(LINE_DOT); at >= 0; at = chunk.indexOf(LINE_DOT, at + 2)) dots++;
  if (dots === 0) return chunk;
  const stuffed = Buffer.allocUnsafe(chunk.length + dots);
  let read = 0;
  let written = first;
  if (first === 1) stuffed[0] = DOT;
  for (let at = chunk.indexOf(LINE_DOT); at >= 0; at = chunk.indexOf(LINE_DOT, at + 2)) {
    written += chunk.copy(stuffed, written, read, at + 2);
    stuffed[written++] = DOT;
    read = at + 2;
  }
  chunk.copy(stuffed, written, read);
  return stuffed;
}
