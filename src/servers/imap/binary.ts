/** FETCH BINARY (RFC 3516, RFC 9051 section 6.4.5): parts without their transfer encoding. */
import {
  findPart,
  isDecodable,
  type MessagePart,
  parsePartNumber,
} from '../../protocols/message/message.ts';
import { BadCommand, type Cursor } from './cursor.ts';
import { cut, type Piece, readPartial } from './sections.ts';
import type { Source } from './source.ts';
import type { Part } from './write.ts';

export interface BinaryItem {
  readonly kind: 'binary' | 'binary size';
  /** `''` for the message, which has no encoding of its own. */
  readonly part: string;
  readonly partial: Piece | undefined;
  readonly marksSeen: boolean;
  /** How the answer names it. */
  readonly label: string;
}

export const BINARY = /^BINARY(\.PEEK|\.SIZE)?\[/i;

/** Reads from after the `[` on. @param form what followed `BINARY` */
export function readBinary(command: Cursor, form: string | undefined): BinaryItem {
  const part = command.sees(']') ? '' : command.atom('a part');
  if (part !== '' && parsePartNumber(part) === undefined) {
    throw new BadCommand('Expected the number of a part');
  }
  command.expect(']');
  const isSize = form?.toUpperCase() === '.SIZE';
  const partial = isSize ? undefined : readPartial(command);
  const place = `[${part}]${partial ? `<${partial.start}>` : ''}`;
  const kind = isSize ? 'binary size' : 'binary';
  const marksSeen = form === undefined;
  return { kind, part, partial, marksSeen, label: `BINARY${isSize ? '.SIZE' : ''}${place}` };
}

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
): [label: string, octets?: Part] {
  const { part, kind, label } = item;
  const whole = { bodyStart: 0, bodyEnd: size, decodedSize: size, encoding: 'binary' };
  const found = part === '' ? whole : findPart(source.root, part);
  if (kind === 'binary size') return [`${label} ${found?.decodedSize ?? 0}`];
  if (!found) return [`${label} NIL`];
  const range = cut({ start: 0, end: found.decodedSize }, item.partial);
  const octets = range.end - range.start;
  // As literal8 in any case: whether there is a NUL would be known too late.
  const head = `${label} ~{${octets}}\r\n`;
  if (octets === 0) return [head];
  return [head, { octets, open: () => source.decoded(found, range) }];
}
