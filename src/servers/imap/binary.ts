/** FETCH BINARY (RFC 3516, RFC 9051 section 6.4.5): parts without their transfer encoding. */
import { findPart, isDecodable, type MessagePart } from '../../protocols/message/message.ts';
import type { BinaryItem } from './parse-binary.ts';
import { cut } from './sections.ts';
import type { Source } from './source.ts';
import type { Part } from './write.ts';

/** Whether the part has an encoding that nobody knows. */
export function isUnknown({ part }: BinaryItem, root: MessagePart): boolean {
  const found = part === '' ? undefined : findPart(root, part);
  return found !== undefined && !isDecodable(found.encoding);
}

/** @param size of the source @returns text, and the octets that follow it */
export function writeBinary(
  item: BinaryItem,
  size: number,
  source: Source,
): string | [label: string, octets: Part] {
  const { part, kind, label } = item;
  const whole = { bodyStart: 0, bodyEnd: size, decodedSize: size, encoding: 'binary' };
  const found = part === '' ? whole : findPart(source.root, part);
  if (kind === 'binary size') return `${label} ${found?.decodedSize ?? 0}`;
  if (!found) return `${label} NIL`;
  const range = cut({ start: 0, end: found.decodedSize }, item.partial);
  const octets = range.end - range.start;
  // As literal8 in any case: whether there is a NUL would be known too late.
  const head = `${label} ~{${octets}}\r\n`;
  if (octets === 0) return head;
  return [head, { octets, open: () => source.decoded(found, range) }];
}
