/**
 * The octets of a message that FETCH asks for, and where they are: sections (RFC 9051 section 6.4.5) such as
 * `BODY[1.2.HEADER.FIELDS (SUBJECT)]<0.100>`, and parts without their transfer encoding, `BINARY[1.2]` (RFC 3516).
 */
import type { ByteRange } from '../../mailboxes/mailstore/mailstore.ts';
import { findPart, type MessagePart, parsePartNumber } from '../../protocols/message/message.ts';
import { BadCommand, type Cursor } from './cursor.ts';
import { string } from './write.ts';

type What = '' | 'HEADER' | 'TEXT' | 'MIME' | 'HEADER.FIELDS' | 'HEADER.FIELDS.NOT';

/** From this octet on, as many. */
export interface Piece {
  readonly start: number;
  readonly octets: number;
}

export interface Section {
  /** `''` for the message. */
  readonly part: string;
  readonly what: What;
  /** In lower case. */
  readonly names: readonly string[];
  readonly partial: Piece | undefined;
  /** How the answer names it. */
  readonly label: string;
}

/** Names of one list of header fields. */
const NAMES_MAX = 100;
const SECTION =
  /^(?:([1-9][\d.]*)(?:\.|$))?(HEADER|TEXT|MIME|HEADER\.FIELDS|HEADER\.FIELDS\.NOT)?$/i;
const FIELD_NAME = /^[!-9;-~]{1,998}$/;
const ATOM = /^[^(){%*"\\\]]+$/;

/** Reads from after the `[` on. @param item `BODY`, as the answer names it */
export function readSection(command: Cursor, item: string): Section {
  const text = command.sees(']') ? '' : command.atom('a section');
  const match = SECTION.exec(text);
  const part = match?.[1]?.replace(/\.$/, '') ?? '';
  const what = (match?.[2]?.toUpperCase() ?? '') as What;
  const isKnown = match && (part === '' || parsePartNumber(part) !== undefined);
  if (!isKnown || (what === 'MIME' && part === ''))
    throw new BadCommand('The section is not known');
  let names: string[] = [];
  if (what.startsWith('HEADER.FIELDS')) {
    names = command.space().list(() => command.astring('a field name').toLowerCase());
    if (names.length > NAMES_MAX || !names.every((name) => FIELD_NAME.test(name))) {
      throw new BadCommand(`Expected at most ${NAMES_MAX} names of fields`);
    }
  }
  command.expect(']');
  const partial = readPartial(command);
  // As strings where they are no atoms: the answer must end where it ends.
  const shown = names.map((name) => (ATOM.test(name) ? name : string(name)).toUpperCase());
  const list = names.length > 0 ? ` (${shown.join(' ')})` : '';
  const label = `${item}[${text.toUpperCase()}${list}]${partial ? `<${partial.start}>` : ''}`;
  return { part, what, names, partial, label };
}

export function readPartial(command: Cursor): Piece | undefined {
  if (!command.has('<')) return undefined;
  const start = command.number('an octet');
  command.expect('.');
  const octets = command.number('a number of octets');
  if (octets === 0) throw new BadCommand('Expected at least one octet');
  command.expect('>');
  return { start, octets };
}

export interface BinaryItem {
  readonly kind: 'binary' | 'binary size';
  /** `''` for the message, which has no encoding of its own. */
  readonly part: string;
  readonly partial: Piece | undefined;
  readonly marksSeen: boolean;
  /** How the answer names it. */
  readonly label: string;
}

/** What FETCH BINARY asks for begins with this. */
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

/** Whether a section is the message from its first octet to its last one. */
export function isWhole({ part, what }: Section): boolean {
  return part === '' && what === '';
}

/**
 * Where a section is in the source; of lists of fields, where their header is.
 *
 * @param source what is known of it
 * @param size of the source
 * @returns undefined where the message has no such section
 */
export function findSection(
  source: { readonly bodyStart: number; readonly root: MessagePart },
  size: number,
  section: Section,
): ByteRange | undefined {
  const { part, what } = section;
  if (isWhole(section)) return { start: 0, end: size };
  if (part === '') return rangeOf({ start: 0, body: source.bodyStart, end: size }, what);
  const found = findPart(source.root, part);
  if (!found) return undefined;
  if (what === '') return { start: found.bodyStart, end: found.bodyEnd };
  if (what === 'MIME') return { start: found.headerStart, end: found.bodyStart };
  const [nested] = found.type.startsWith('message/') ? (found.childNodes ?? []) : [];
  if (!nested) return undefined;
  return rangeOf({ start: nested.headerStart, body: nested.bodyStart, end: found.bodyEnd }, what);
}

function rangeOf(message: { start: number; body: number; end: number }, what: What): ByteRange {
  if (what === '') return { start: message.start, end: message.end };
  if (what === 'TEXT') return { start: message.body, end: message.end };
  return { start: message.start, end: message.body };
}

/** The fields of a header that a section names, as they are in the source, with the empty line at the end. */
export function selectFields(
  header: string | Buffer,
  { what, names }: Pick<Section, 'what' | 'names'>,
): string {
  const text = typeof header === 'string' ? header : header.toString('latin1');
  const isWanted = what === 'HEADER.FIELDS';
  let selected = '';
  let isIn = false;
  for (let at = 0; at < text.length; ) {
    const lf = text.indexOf('\n', at);
    const end = lf < 0 ? text.length : lf + 1;
    const first = text[at];
    // The empty line is the end of the header.
    if (first === '\n' || text.startsWith('\r\n', at)) break;
    if (first !== ' ' && first !== '\t') {
      const colon = text.indexOf(':', at);
      const name = text.slice(at, colon < 0 || colon > end ? at : colon);
      isIn = names.includes(name.trimEnd().toLowerCase()) === isWanted;
    }
    if (isIn) selected += lf < 0 ? `${text.slice(at)}\r\n` : text.slice(at, end);
    at = end;
  }
  return `${selected}\r\n`;
}

/** The part of a range that was asked for. */
export function cut({ start, end }: ByteRange, partial: Piece | undefined): ByteRange {
  if (!partial) return { start, end };
  const from = Math.min(end, start + partial.start);
  return { start: from, end: Math.min(end, from + partial.octets) };
}
