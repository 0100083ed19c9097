/** What FETCH tells of one message (RFC 9051 section 7.5.2). */
import type { ImapRow, ImapStore, ImapTexts } from '../../mailboxes/mailstore/mailstore.ts';
import { writeBinary } from './binary.ts';
import { writeStructure } from './body-structure.ts';
import type { FetchItem } from './parse-fetch.ts';
import { cut, findSection, type Section, selectFields } from './sections.ts';
import { No, type Session } from './session.ts';
import type { Source } from './source.ts';
import { dateTime, type Output, utf8String } from './write.ts';

export type Message = ImapRow<
  'modseq' | 'flags' | 'size' | 'internal_date' | 'body_id' | 'structure' | 'saved_at' | 'thread_id'
>;

/** What was read of a message before it is written. */
export interface Prepared {
  readonly source: Source;
  /** Undefined where nothing of it is asked for, or the source is gone. */
  readonly texts: ImapTexts | undefined;
  /** The first words, where they were asked for and are known. */
  readonly preview: string | undefined;
  readonly hasNewFlags: boolean;
}

/**
 * @param prepared what was read of the message already
 * @param hasNewFlags whether this command changed its flags, which are told then
 */
export function writeMessage(
  session: Session,
  row: Message,
  items: readonly FetchItem[],
  prepared: Prepared,
): string | Promise<Output[]> {
  const { selected: view } = session;
  const { objectIds } = session.services.mailstore.imap;
  const number = view.numberOf(row.uid);
  if (number === 0) return '';
  const isFlagged = items.some(({ kind }) => kind === 'FLAGS');
  const all: readonly FetchItem[] =
    prepared.hasNewFlags && !isFlagged ? [...items, { kind: 'FLAGS' }] : items;
  const told = { ...row, flags: view.flagsOf(row.uid, row.flags) };
  const head = `${view.announce(row.flags)}* ${number} FETCH (`;
  let text = head;
  for (const [index, item] of all.entries()) {
    if (item.kind === 'section' || item.kind === 'BODY' || 'part' in item) {
      return writeParts(head, all, told, prepared, objectIds);
    }
    if (index > 0) text += ' ';
    text += writeItem(item.kind, told, prepared, objectIds);
  }
  return `${text})\r\n`;
}

/** The same with what has to be read from the source. */
async function writeParts(
  head: string,
  items: readonly FetchItem[],
  row: Message,
  prepared: Prepared,
  objectIds: ImapStore['objectIds'],
): Promise<Output[]> {
  const { source } = prepared;
  const parts: Output[] = [head];
  for (const [index, item] of items.entries()) {
    if (index > 0) parts.push(' ');
    if (item.kind === 'section') parts.push(...(await writeSection(item.section, row, source)));
    else if ('part' in item) parts.push(...writeBinary(item, row.size, source));
    else if (item.kind === 'BODY') {
      const read = (start: number, end: number) => source.read(start, end);
      parts.push(`BODY ${await writeStructure(source.root, read, false)}`);
    } else parts.push(writeItem(item.kind, row, prepared, objectIds));
  }
  return [...parts, ')\r\n'];
}

function writeItem(
  kind: Exclude<FetchItem['kind'], 'section' | 'BODY' | 'binary' | 'binary size'>,
  row: Message,
  { texts, preview }: Prepared,
  objectIds: ImapStore['objectIds'],
): string {
  switch (kind) {
    case 'UID':
      return `UID ${row.uid}`;
    case 'FLAGS':
      return `FLAGS (${row.flags})`;
    case 'INTERNALDATE':
      return `INTERNALDATE ${dateTime(row.internal_date)}`;
    case 'RFC822.SIZE':
      return `RFC822.SIZE ${row.size}`;
    case 'MODSEQ':
      return `MODSEQ (${row.modseq})`;
    case 'SAVEDATE':
      return `SAVEDATE ${row.saved_at === null ? 'NIL' : dateTime(row.saved_at)}`;
    case 'EMAILID':
      return `EMAILID (${objectIds.email(row.body_id)})`;
    case 'THREADID':
      return `THREADID ${row.thread_id === null ? 'NIL' : `(${objectIds.thread(row.thread_id)})`}`;
    case 'PREVIEW':
      return `PREVIEW ${preview === undefined ? 'NIL' : utf8String(cutPreview(preview))}`;
    case 'ENVELOPE':
      return `ENVELOPE ${(texts ?? gone(row)).envelope}`;
    default:
      return `BODYSTRUCTURE ${(texts ?? gone(row)).structure}`;
  }
}

async function writeSection(section: Section, row: Message, source: Source): Promise<Output[]> {
  const range = findSection(source.root, row.size, section);
  if (!range) return [`${section.label} NIL`];
  if (section.names.length > 0) {
    const text = selectFields(await source.read(range.start, range.end), section);
    const { start, end } = cut({ start: 0, end: text.length }, section.partial);
    return [`${section.label} {${end - start}}\r\n${text.slice(start, end)}`];
  }
  const { start, end } = cut(range, section.partial);
  const octets = end - start;
  const head = `${section.label} {${octets}}\r\n`;
  if (octets === 0) return [head];
  return [
    head,
    (await source.inRow(start, end)) ?? { octets, open: () => source.open(start, end) },
  ];
}

/** Of at most 256 characters (RFC 8970 section 4). */
function cutPreview(text: string): string {
  return [...text.slice(0, 512)].slice(0, 256).join('').toWellFormed();
}

function gone({ uid }: Message): never {
  throw new No('EXPUNGEISSUED', `Message ${uid} is gone`);
}
