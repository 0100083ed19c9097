/** What FETCH tells of one message (RFC 9051 section 7.5.2). */
import type { ImapColumn, ImapRow, ImapTexts } from '../../mailboxes/mailstore/mailstore.ts';
import { imapDateTime } from '../../protocols/imap-syntax/imap-syntax.ts';
import { findPart, isDecodable, type MessagePart } from '../../protocols/message/message.ts';
import { writeStructure } from './body-structure.ts';
import { readHeader } from './header-fields.ts';
import type { FetchItem, FetchRequest } from './parse-fetch.ts';
import { type BinaryItem, cut, findSection, type Section, selectFields } from './sections.ts';
import { No, type Session } from './session.ts';
import { columnOf, type Source } from './source.ts';
import { type Part, utf8String } from './write.ts';

/** Columns that only some items need. */
type OtherColumn = Exclude<ImapColumn, 'uid' | 'body_id' | 'preview' | 'envelope' | 'structure'>;

/** Its other columns are read where an item needs them. */
export type Message = ImapRow<'body_id'> & Partial<ImapRow<OtherColumn>>;

/** The columns that a FETCH needs of every message: each costs time for all of them. */
export function columnsOf({ items, changedSince }: FetchRequest): ImapColumn[] {
  const has = (kind: FetchItem['kind']) => items.some((item) => item.kind === kind);
  // Where sources are read, it says how many at once.
  const withSize = has('BODY') || items.some((item) => 'section' in item || 'part' in item);
  const marksSeen = items.some((item) => 'marksSeen' in item && item.marksSeen);
  return [
    'body_id',
    ...(changedSince || has('MODSEQ') ? (['modseq'] as const) : []),
    ...(marksSeen || has('FLAGS') ? (['flags'] as const) : []),
    ...(withSize || has('RFC822.SIZE') ? (['size'] as const) : []),
    ...(has('INTERNALDATE') ? (['internal_date'] as const) : []),
    ...(has('SAVEDATE') ? (['saved_at'] as const) : []),
    ...(has('THREADID') ? (['thread_id'] as const) : []),
    ...(has('ENVELOPE') ? (['kept_envelope'] as const) : []),
    ...(has('BODYSTRUCTURE') ? (['kept_structure'] as const) : []),
  ];
}

/** What was read of a message before it is written. */
export interface Prepared {
  /** Undefined where nothing of it is asked for. */
  readonly source: Source | undefined;
  /** Where they were not kept with its row. */
  readonly texts: Pick<ImapTexts, 'envelope' | 'structure'> | undefined;
  /** The fields that are kept of its header; `''` where they have to be read. Undefined where others are asked for. */
  readonly header: string | undefined;
  /** The first words, where they were asked for and are known. */
  readonly preview: string | undefined;
  readonly hasNewFlags: boolean;
}

/**
 * Reads text of an answer. It begins when it is called: what comes before may wait for the client, and a failure of
 * a read that nobody waits for yet would end the process.
 */
export type ReadText = () => Promise<string>;

/** An item: its text, one that has to be read, or text with the octets that follow it. */
type Written = string | ReadText | readonly [label: string, octets: Part];

/** Characters of an answer that are held before they are sent. */
export const TEXT_MAX = 64 * 1024;
/** Octets of a header whose fields are picked at once: of a longer one others have their turn after each list of fields. */
const SHORT_HEADER = 8 * 1024;
const FLAGS: FetchItem = { kind: 'FLAGS' };
const MODSEQ: FetchItem = { kind: 'MODSEQ' };

/**
 * @param prepared what was read of the message already
 * @param hasNewFlags whether this command changed its flags, which are told then
 */
export function writeMessage(
  session: Session,
  row: Message,
  items: readonly FetchItem[],
  prepared: Prepared,
): Iterable<Part | ReadText> {
  const { selected: view } = session;
  const number = view.numberOf(row.uid);
  if (number === 0) return [];
  const all = prepared.hasNewFlags ? withFlags(items, session.condstore) : items;
  const head = `${view.announce(row.flags ?? '')}* ${number} FETCH (`;
  if (prepared.source || prepared.header === '')
    return writeParts(session, head, all, row, prepared);
  let text = head;
  for (let at = 0; at < all.length; at++) {
    const item = all[at] ?? FLAGS;
    if (at > 0) text += ' ';
    text +=
      item.kind === 'section'
        ? writeFields(prepared.header ?? gone(row), item.section)
        : writeItem(session, item.kind, row, prepared);
  }
  return [`${text})\r\n`];
}

/** With what is told of changed flags: who uses CONDSTORE is told their MODSEQ, too (RFC 7162 section 3.1). */
function withFlags(items: readonly FetchItem[], withModseq: boolean): readonly FetchItem[] {
  const told = withModseq ? [FLAGS, MODSEQ] : [FLAGS];
  return [...items, ...told.filter(({ kind }) => !items.some((item) => item.kind === kind))];
}

/** The same with what may have to be read from the source, item by item. */
function* writeParts(
  session: Session,
  head: string,
  items: readonly FetchItem[],
  row: Message,
  prepared: Prepared,
): Generator<Part | ReadText> {
  const { source } = prepared;
  // Once for all items that ask for it.
  let header: Promise<Buffer> | undefined;
  const headerOnce = () => {
    header ??= readHeader(session, row);
    return header;
  };
  let text = head;
  for (let at = 0; at < items.length; at++) {
    session.channel.signal.throwIfAborted();
    const item = items[at] ?? FLAGS;
    if (at > 0) text += ' ';
    const written =
      item.kind === 'section' && !source
        ? async () => writeFields(await headerOnce(), item.section)
        : source
          ? writeFromSource(item, row, source, () => writeItem(session, item.kind, row, prepared))
          : writeItem(session, item.kind, row, prepared);
    if (typeof written === 'string') text += written;
    if (typeof written === 'string' && text.length < TEXT_MAX) continue;
    if (Array.isArray(written)) text += written[0];
    yield text;
    text = '';
    if (typeof written === 'function') yield written;
    if (Array.isArray(written)) yield written[1];
  }
  yield `${text})\r\n`;
}

function writeFromSource(
  item: FetchItem,
  row: Message,
  source: Source,
  other: () => string,
): Written {
  if (item.kind === 'section') return writeSection(item.section, row, source);
  if ('part' in item) return writeBinary(item, columnOf(row, 'size'), source);
  return item.kind === 'BODY' ? () => writeBody(source) : other();
}

function writeItem(
  { selected: view, services }: Session,
  kind: FetchItem['kind'],
  row: Message,
  { texts, preview }: Prepared,
): string {
  const { objectIds } = services.mailstore.imap;
  switch (kind) {
    case 'UID':
      return `UID ${row.uid}`;
    case 'FLAGS':
      return `FLAGS (${view.flagsOf(row.uid, columnOf(row, 'flags'))})`;
    case 'INTERNALDATE':
      return `INTERNALDATE "${imapDateTime(columnOf(row, 'internal_date'))}"`;
    case 'RFC822.SIZE':
      return `RFC822.SIZE ${columnOf(row, 'size')}`;
    case 'MODSEQ':
      return `MODSEQ (${columnOf(row, 'modseq')})`;
    case 'SAVEDATE': {
      const at = columnOf(row, 'saved_at');
      return `SAVEDATE ${at === null ? 'NIL' : `"${imapDateTime(at)}"`}`;
    }
    case 'EMAILID':
      return `EMAILID (${objectIds.email(row.body_id)})`;
    case 'THREADID': {
      const id = columnOf(row, 'thread_id');
      return `THREADID ${id === null ? 'NIL' : `(${objectIds.thread(id)})`}`;
    }
    case 'PREVIEW':
      return `PREVIEW ${preview === undefined ? 'NIL' : utf8String(cutPreview(preview))}`;
    case 'ENVELOPE':
      return `ENVELOPE ${row.kept_envelope ?? texts?.envelope ?? gone(row)}`;
    default:
      return `BODYSTRUCTURE ${row.kept_structure ?? texts?.structure ?? gone(row)}`;
  }
}

async function writeBody(source: Source): Promise<string> {
  const read = (start: number, end: number) => source.read(start, end);
  return `BODY ${await writeStructure(source.root, read, false)}`;
}

function writeSection(section: Section, row: Message, source: Source): Written {
  const range = findSection(source, columnOf(row, 'size'), section);
  if (!range) return `${section.label} NIL`;
  if (section.names.length > 0) {
    const isShort = range.end - range.start <= SHORT_HEADER;
    const inRow = isShort ? source.inRow(range.start, range.end) : undefined;
    if (inRow) return writeFields(inRow, section);
    return async () => writeFields(await source.header(range.start, range.end), section);
  }
  const { start, end } = cut(range, section.partial);
  const octets = end - start;
  const label = `${section.label} {${octets}}\r\n`;
  if (octets === 0) return label;
  return [label, source.inRow(start, end) ?? { octets, open: () => source.open(start, end) }];
}

/** Whether FETCH BINARY asks for a part with an encoding that nobody knows. */
export function isUnknown({ part }: BinaryItem, root: MessagePart): boolean {
  const found = part === '' ? undefined : findPart(root, part);
  return found !== undefined && !isDecodable(found.encoding);
}

/** A part without its transfer encoding. @param size of the source @returns text, and the octets that follow it */
function writeBinary(
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

function writeFields(header: string | Buffer, section: Section): string {
  const text = selectFields(header, section);
  const { start, end } = cut({ start: 0, end: text.length }, section.partial);
  return `${section.label} {${end - start}}\r\n${text.slice(start, end)}`;
}

/** Of at most 256 characters (RFC 8970 section 4). */
function cutPreview(text: string): string {
  return [...text.slice(0, 512)].slice(0, 256).join('').toWellFormed();
}

function gone({ uid }: Message): never {
  throw new No('EXPUNGEISSUED', `Message ${uid} is gone`);
}
