/**
 * Makes a message with NUL fit for programs that expect text: what has NUL in it becomes base64 (RFC 3516 section 5,
 * RFC 2045 section 6.8). All other octets stay.
 */
import { Buffer } from 'node:buffer';
import type { OpenSource } from './content.ts';
import { isIdentity } from './part-content.ts';
import type { MessagePart } from './structure.ts';
import { asBuffer } from './text.ts';

/** Octets of a header that is rewritten: a part with a longer one stays as it is. */
const HEADER_MAX = 256 * 1024;
/** Octets that make a line of 76 characters. */
const LINE = 57;
const ENCODING = /^content-transfer-encoding[ \t]*:[^\n]*\n(?:[ \t][^\n]*\n)*/gim;

/** Octets of the source. */
type Range = Parameters<OpenSource>[0];

/**
 * @param root of the message
 * @param size octets of the source
 * @param open reads the source, of parts with NUL more than once
 */
export async function* encodeBinary(
  root: MessagePart,
  size: number,
  open: OpenSource,
): AsyncGenerator<Uint8Array> {
  let at = 0;
  for (const part of leavesOf(root)) {
    const body = { start: part.bodyStart, end: part.bodyEnd };
    if (!mayBeEncoded(part) || !(await hasNul(open(body)))) continue;
    yield* open({ start: at, end: part.headerStart });
    yield await rewriteHeader({ start: part.headerStart, end: part.bodyStart }, open);
    yield* toBase64(open(body));
    at = part.bodyEnd;
  }
  yield* open({ start: at, end: size });
}

function* leavesOf(part: MessagePart): Generator<MessagePart> {
  if (!part.childNodes) yield part;
  else for (const child of part.childNodes) yield* leavesOf(child);
}

/** Multiparts and messages have no such encoding (RFC 2045 section 6.4). */
function mayBeEncoded({ type, encoding, headerStart, bodyStart }: MessagePart): boolean {
  const isWhole = /^(?:multipart|message)\//.test(type);
  return !isWhole && isIdentity(encoding) && bodyStart - headerStart <= HEADER_MAX;
}

async function hasNul(source: AsyncIterable<Uint8Array>): Promise<boolean> {
  for await (const chunk of source) if (chunk.includes(0)) return true;
  return false;
}

async function rewriteHeader(range: Range, open: OpenSource): Promise<Buffer> {
  let text = '';
  for await (const chunk of open(range)) text += asBuffer(chunk).toString('latin1');
  const others = text.replace(ENCODING, '');
  const end = /(?:^|\n)\r?\n$/.test(others) ? '' : '\r\n';
  return Buffer.from(`Content-Transfer-Encoding: base64\r\n${others}${end}`, 'latin1');
}

async function* toBase64(source: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
  let held = Buffer.alloc(0);
  for await (const chunk of source) {
    const octets = Buffer.concat([held, chunk]);
    const whole = octets.length - (octets.length % LINE);
    yield toLines(octets.subarray(0, whole));
    held = octets.subarray(whole);
  }
  yield toLines(held);
}

function toLines(octets: Buffer): Buffer {
  return Buffer.from(octets.toString('base64').replace(/.{76}/g, '$&\r\n'));
}
