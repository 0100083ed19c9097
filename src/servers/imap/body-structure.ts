/**
 * BODY and BODYSTRUCTURE (RFC 9051 section 7.5.2). The tree is the one that was stored with the message; what it lacks
 * (descriptions, languages, envelopes of nested messages) is read from the headers of the parts.
 */
import {
  fieldValue,
  type HeaderField,
  type MessagePart,
  readFields,
} from '../../protocols/message/message.ts';
import { writeEnvelope } from './envelope.ts';
import { nstring, string } from './write.ts';

/** Octets of a message from a start to an end. */
export type ReadOctets = (start: number, end: number) => Promise<Buffer>;

/**
 * @param isExtended false for BODY, which has no extension fields
 * @throws any error of the source
 */
export async function writeStructure(
  part: MessagePart,
  read: ReadOctets,
  isExtended: boolean,
): Promise<string> {
  const [type = '', subtype = ''] = part.type.split('/');
  const fields = await fieldsOf(part, read);
  const extensions = isExtended ? writeExtensions(part, fields, type) : '';
  if (type === 'multipart' && part.childNodes && part.childNodes.length > 0) {
    const children: string[] = [];
    for (const child of part.childNodes)
      children.push(await writeStructure(child, read, isExtended));
    return `(${children.join('')} ${upper(subtype)}${extensions})`;
  }
  const id = nstring(part.id);
  const description = nstring(textOf(fields, 'content-description'));
  const own = `${parameters(part.parameters)} ${id} ${description} ${upper(part.encoding)} ${part.size}`;
  const more = await writeContent(part, read, isExtended);
  return `(${upper(type)} ${upper(subtype)} ${own}${more}${extensions})`;
}

/** What texts and nested messages have after their size. */
async function writeContent(part: MessagePart, read: ReadOctets, isExtended: boolean) {
  const [nested] = part.childNodes ?? [];
  // Also of message/global (RFC 6532 section 3.7).
  if (part.type.startsWith('message/') && nested) {
    const envelope = writeEnvelope(await fieldsOf(nested, read));
    const structure = await writeStructure(nested, read, isExtended);
    return ` ${envelope} ${structure} ${await countLines(part, read)}`;
  }
  // One that was not read, since it is encoded or too deep: the grammar demands a message in it all the same.
  if (part.type === 'message/rfc822' || part.type === 'message/global') {
    const empty = `("TEXT" "PLAIN" NIL NIL NIL "7BIT" 0 0${isExtended ? ' NIL NIL NIL NIL' : ''})`;
    return ` ${writeEnvelope([])} ${empty} ${await countLines(part, read)}`;
  }
  return part.type.startsWith('text/') ? ` ${part.lines ?? 0}` : '';
}

function writeExtensions(part: MessagePart, fields: readonly HeaderField[], type: string): string {
  const disposition =
    part.disposition === undefined
      ? 'NIL'
      : `(${upper(part.disposition)} ${parameters(part.dispositionParameters)})`;
  const languages = (textOf(fields, 'content-language') ?? '').split(',').map((one) => one.trim());
  const [language, ...others] = languages.filter(Boolean).map(string);
  const written = others.length > 0 ? `(${[language, ...others].join(' ')})` : (language ?? 'NIL');
  const location = nstring(textOf(fields, 'content-location'));
  const first =
    type === 'multipart' && part.childNodes?.length
      ? parameters(part.parameters)
      : nstring(textOf(fields, 'content-md5'));
  return ` ${first} ${disposition} ${written} ${location}`;
}

function textOf(fields: readonly HeaderField[], name: string): string | undefined {
  const field = fields.find((one) => one.name === name);
  return field && fieldValue(field);
}

async function fieldsOf({ headerStart, bodyStart }: MessagePart, read: ReadOctets) {
  return headerStart < bodyStart ? readFields(await read(headerStart, bodyStart)) : [];
}

/** Octets read at once to count lines. */
const PIECE = 128 * 1024;

async function countLines({ bodyStart, bodyEnd }: MessagePart, read: ReadOctets): Promise<number> {
  let lines = 0;
  for (let at = bodyStart; at < bodyEnd; at += PIECE) {
    const piece = await read(at, Math.min(bodyEnd, at + PIECE));
    for (let lf = piece.indexOf(0x0a); lf >= 0; lf = piece.indexOf(0x0a, lf + 1)) lines++;
  }
  return lines;
}

function upper(text: string): string {
  return string(text.toUpperCase());
}

function parameters(given: Readonly<Record<string, string>> | undefined): string {
  const entries = Object.entries(given ?? {});
  if (entries.length === 0) return 'NIL';
  const pairs = entries.map(([name, value]) => {
    if (/^[\x01-\x7f]*$/.test(value)) return `${upper(name)} ${string(value)}`;
    // RFC 2231 section 4: what is not ASCII.
    const encoded = encodeURIComponent(value.toWellFormed()).replace(/['()*]/g, escapeOctet);
    return `${upper(`${name}*`)} ${string(`utf-8''${encoded}`)}`;
  });
  return `(${pairs.join(' ')})`;
}

function escapeOctet(character: string): string {
  return `%${character.charCodeAt(0).toString(16)}`;
}
