import { Buffer } from 'node:buffer';
import { HEADER_START, startsHeader } from './header.ts';
import { asBuffer } from './text.ts';

const LF = 0x0a;
const EMPTY_LINE = Buffer.from('\r\n');

/**
 * Puts header lines, ending in CRLF, in front of a message. Text without a header gets the empty line that begins a body: without it the
 * first line of the text would become part of the header, or even of the last line in front.
 */
export async function* putInFront(
  head: Uint8Array,
  source: AsyncIterable<Uint8Array>,
): AsyncGenerator<Uint8Array> {
  /** The start of the text, until there is enough of it to decide; then undefined. */
  let start: Uint8Array | undefined = new Uint8Array();
  for await (const chunk of source) {
    if (!start) {
      yield chunk;
      continue;
    }
    start = start.length > 0 ? Buffer.concat([start, chunk]) : chunk;
    if (start.length < HEADER_START && !start.includes(LF)) continue;
    yield hasHeader(start) ? head : Buffer.concat([head, EMPTY_LINE]);
    yield start;
    start = undefined;
  }
  if (!start) return;
  yield hasHeader(start) ? head : Buffer.concat([head, EMPTY_LINE]);
  yield start;
}

/** Whether a text begins with header fields, so that no empty line has to go in front of it. */
function hasHeader(start: Uint8Array): boolean {
  const text = asBuffer(start);
  return text.length === 0 || text[0] === LF || text.indexOf('\r\n') === 0 || startsHeader(text);
}
