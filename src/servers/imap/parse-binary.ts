/** What FETCH BINARY asks for (RFC 3516, RFC 9051 section 6.4.5). */
import { parsePartNumber } from '../../protocols/message/message.ts';
import { BadCommand, type Cursor } from './cursor.ts';
import { type Piece, readPartial } from './sections.ts';

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
  const section = `[${part}]${partial ? `<${partial.start}>` : ''}`;
  const kind = isSize ? 'binary size' : 'binary';
  const marksSeen = form === undefined;
  return { kind, part, partial, marksSeen, label: `BINARY${isSize ? '.SIZE' : ''}${section}` };
}
