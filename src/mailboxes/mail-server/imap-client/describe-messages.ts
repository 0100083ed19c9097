/** The fields of new messages in a page of a sync, and of the matches of a search. */
import { UidSet } from '../../../protocols/imap-syntax/imap-syntax.ts';
import {
  type BodyStructure,
  findPreviewPart,
  hasAttachments,
  MessageParser,
  type ParsedMessage,
  parseMessage,
  previewOf,
  readPreview,
  toBodyStructure,
} from '../../../protocols/message/message.ts';
import {
  type AddedMessage,
  type ByteRange,
  formatThreadId,
  hasTexts,
  type MessageField,
  type SyncRequest,
  threadByHeader,
  threadHeaders,
} from '../../mailstore/mailstore.ts';
import { readBodyStructure } from './body-structure.ts';
import type { Connection } from './connection.ts';
import { type ChangeCollector, type FetchedItems, fetchPiece, fetchRows, PIECE } from './fetch.ts';
import {
  type Argument,
  atom,
  bytesOf,
  listOf,
  modseqOf,
  numberOf,
  peek,
  readFlags,
  readInternalDate,
  textOf,
} from './wire.ts';

/**
 * Characters, as JSON, of the new messages in one page with envelopes or structures: both are as long as the sender
 * made them.
 */
const PAGE_TEXT = 4 * 1024 * 1024;

/** Messages whose envelopes are fetched in one command: its whole answer is in memory before it is measured. */
const TEXTS_AT_A_TIME = 100;

/** The new messages of one page. */
export interface Described {
  readonly added: readonly AddedMessage[];
  /** The last of them, where the rest would make the page too large. */
  readonly fullAt: number | undefined;
}

/**
 * New messages with all of their requested fields, as many as fit into a page; at least one. Messages that were removed
 * meanwhile are left out.
 *
 * @param uids in order
 */
export async function describe(
  { connection, request: { fields = [] } }: { connection: Connection; request: SyncRequest },
  uids: readonly number[],
  known?: ChangeCollector,
): Promise<Described> {
  if (fields.length === 0) return { added: uids.map((uid) => ({ uid })), fullAt: undefined };
  if (known && fields.every((field) => field === 'flags')) {
    const added = uids.flatMap((uid) => {
      const row = known.changed.get(uid);
      return row ? [{ uid, flags: readFlags(listOf(row.flags)), modseq: `${row.modseq}` }] : [];
    });
    return { added, fullAt: undefined };
  }
  const withTexts = hasTexts(fields) || fields.includes('preview');
  const step = withTexts ? TEXTS_AT_A_TIME : Math.max(1, uids.length);
  const added: AddedMessage[] = [];
  let length = 0;
  for (let at = 0; at < uids.length; at += step) {
    const chunk = uids.slice(at, at + step);
    const described = await fetchFields(connection, chunk, fields);
    for (const uid of chunk) {
      const message = described.get(uid);
      if (!message) continue;
      if (withTexts) length += JSON.stringify(message).length;
      const last = added.at(-1);
      if (last && length > PAGE_TEXT) return { added, fullAt: last.uid };
      added.push(message);
    }
  }
  return { added, fullAt: undefined };
}

/** Messages of the open mailbox with all of these fields; those that were removed meanwhile are left out. */
export async function fetchFields(
  connection: Connection,
  uids: readonly number[],
  fields: readonly MessageField[],
): Promise<Map<number, AddedMessage>> {
  const described = new Map<number, AddedMessage>();
  const wanted: readonly MessageField[] = fields.includes('preview')
    ? [...fields, 'bodyStructure']
    : fields;
  await fetchRows(connection, UidSet.of(uids), fieldItems(connection, fields), (uid, items) => {
    described.set(uid, { ...described.get(uid), ...readFields(uid, items, wanted) });
  });
  const structures = new Map<number, BodyStructure>();
  for (const [uid, message] of described) {
    if (!isComplete(connection, message, wanted)) {
      const read = await readFromSource(connection, message, fields);
      if (read) described.set(uid, read);
      else described.delete(uid);
    } else if (message.bodyStructure) structures.set(uid, message.bodyStructure);
  }
  if (!fields.includes('preview')) return described;
  const previews = await fetchPreviews(connection, structures);
  for (const [uid, preview] of previews) {
    const { bodyStructure, ...message } = described.get(uid) ?? { uid };
    const structure = fields.includes('bodyStructure') && bodyStructure && { bodyStructure };
    described.set(uid, { ...message, ...structure, preview });
  }
  return described;
}

function isComplete(
  connection: Connection,
  message: AddedMessage,
  fields: readonly MessageField[],
): boolean {
  return fields.every((field) => {
    if (field === 'preview') return true;
    if (field === 'bodyStructure' && message.bodyStructure) return !isGuess(message.bodyStructure);
    if (field === 'emailId') return message.emailId !== undefined || !connection.has('OBJECTID');
    return message[field] !== undefined;
  });
}

/** Whether a server made nothing of the message or of a multipart in it, such as one without a boundary. */
function isGuess(structure: BodyStructure, isRoot = true): boolean {
  const { type, childNodes = [] } = structure;
  const isWhole = isRoot || type.startsWith('multipart/');
  return (isWhole && isNothing(structure)) || childNodes.some((child) => isGuess(child, false));
}

/** Dovecot and Cyrus then name an empty text in its place, and Courier a multipart without parts. */
function isNothing({ type, size, childNodes = [] }: BodyStructure): boolean {
  const isMultipart = type.startsWith('multipart/');
  if (childNodes.length > 0) return isMultipart && childNodes.every(isNothing);
  return isMultipart || (type === 'text/plain' && size === 0);
}

/**
 * Reads a message itself where the server did not give all that was asked: its parts are nested too deep for the parser
 * of its answer, it makes nothing of them, or the message was removed meanwhile. Only the first piece is read, so that a
 * page of such messages is cheap: the structure ends there, where the server gave none.
 *
 * @param given what the server told
 * @returns undefined where it was removed
 */
async function readFromSource(
  connection: Connection,
  given: AddedMessage,
  fields: readonly MessageField[],
): Promise<AddedMessage | undefined> {
  const { uid } = given;
  const told = fields.filter((field) => ['flags', 'internalDate', 'emailId'].includes(field));
  const more = [...fieldItems(connection, told), atom('RFC822.SIZE')];
  const piece = await fetchPiece(connection, uid, '', 0, more);
  if (!piece) return undefined;
  const { bytes, items } = piece;
  async function* open({ start, end }: ByteRange = { start: 0, end: bytes.length }) {
    yield bytes.subarray(start, end);
  }
  const parsed = await parseMessage(open());
  const all = {
    envelope: parsed.envelope,
    flags: readFlags(listOf(items.get('FLAGS'))),
    size: numberOf(items.get('RFC822.SIZE')) ?? parsed.size,
    internalDate: new Date(0).toISOString(),
    bodyStructure: toBodyStructure(parsed.structure),
    preview: await readPreview(parsed.structure, open),
    threadId: threadIdOf(parsed),
    hasAttachment: hasAttachments(parsed.structure),
  };
  const isCut = bytes.length === PIECE;
  const known = isCut ? chosen(given, fields) : {};
  return { ...chosen(all, fields), ...known, ...readFields(uid, items, told) };
}

/** Those of the fields that have a value. */
function chosen(
  all: { [Field in MessageField]?: AddedMessage[Field] | undefined },
  fields: readonly MessageField[],
) {
  const found = fields.filter((field) => all[field] !== undefined);
  return Object.fromEntries(found.map((field) => [field, all[field]])) as Partial<AddedMessage>;
}

/*
 * The fields that a sync adds to new messages, read from the server without their sources.
 *
 * The parser of `message/` reads the envelope from the header fields, as in our own store. The server's ENVELOPE
 * is not used: it fills in Sender and Reply-To, and each server splits addresses in its own way.
 */

const ENVELOPE_FIELDS = [
  'DATE',
  'SUBJECT',
  'FROM',
  'SENDER',
  'REPLY-TO',
  'TO',
  'CC',
  'BCC',
  'IN-REPLY-TO',
  'MESSAGE-ID',
  'REFERENCES',
];

/** Octets of a header that our parser reads; the rest is not fetched. */
const HEADER_MAX = 256 * 1024;

const header = peek(`HEADER.FIELDS (${ENVELOPE_FIELDS.join(' ')})`, [0, HEADER_MAX]);
const structure = atom('BODYSTRUCTURE');

/** Data items of RFC 3501 section 6.4.5. */
const itemsOfField: Readonly<Record<MessageField, readonly Argument[]>> = {
  envelope: [header],
  flags: [atom('FLAGS')],
  size: [atom('RFC822.SIZE')],
  internalDate: [atom('INTERNALDATE')],
  bodyStructure: [structure],
  // Decides which part is fetched for it.
  preview: [structure],
  threadId: [header],
  emailId: [],
  hasAttachment: [structure],
};

/** The items to fetch for fields of messages in the open mailbox. */
function fieldItems(connection: Connection, fields: readonly MessageField[]): Argument[] {
  const items = new Set(fields.flatMap((field) => itemsOfField[field]));
  // RFC 8474: Dovecot and Courier have none.
  if (connection.has('OBJECTID') && fields.includes('emailId')) items.add(atom('EMAILID'));
  if (connection.selected?.modseq !== undefined && fields.includes('flags'))
    items.add(atom('MODSEQ'));
  return [...items];
}

function readFields(
  uid: number,
  items: FetchedItems,
  fields: readonly MessageField[],
): AddedMessage {
  const bytes = bytesOf(items.get('BODY'));
  const parsed = bytes && parseHeader(bytes);
  const structure = readBodyStructure(items.get('BODYSTRUCTURE'));
  const modseq = modseqOf(listOf(items.get('MODSEQ'))[0]);
  const all = {
    envelope: parsed?.envelope,
    flags: readFlags(listOf(items.get('FLAGS'))),
    size: numberOf(items.get('RFC822.SIZE')),
    internalDate: readInternalDate(items.get('INTERNALDATE')),
    bodyStructure: structure,
    threadId: parsed && threadIdOf(parsed),
    // `EMAILID (M6d99ac3275bb4e)` (RFC 8474 section 5.1)
    emailId: textOf(listOf(items.get('EMAILID'))[0]),
    hasAttachment: structure && hasAttachments(structure),
  };
  const withModseq = fields.includes('flags') && modseq !== undefined;
  return { uid, ...chosen(all, fields), ...(withModseq && { modseq: `${modseq}` }) };
}

function parseHeader(header: Buffer): ParsedMessage {
  const parser = new MessageParser();
  parser.write(header);
  return parser.end();
}

/** The thread by the header, as in our own store: few servers have THREADID, and their ids differ from ours. */
export function threadIdOf({ envelope, references }: ParsedMessage): string {
  const headers = threadHeaders(envelope.messageId, references);
  return formatThreadId(threadByHeader(headers, () => JSON.stringify(envelope)));
}

/**
 * Previews of messages in the open mailbox: the first octets of one part of each, fetched together where the part has
 * the same number.
 *
 * @param structures as the server returned them, by UID
 */
export async function fetchPreviews(
  connection: Connection,
  structures: ReadonlyMap<number, BodyStructure>,
): Promise<Map<number, string>> {
  const found = [...structures].flatMap(([uid, structure]) => {
    const part = findPreviewPart(structure);
    return part ? [{ uid, ...part }] : [];
  });
  const previews = new Map([...structures.keys()].map((uid) => [uid, '']));
  const groups = Map.groupBy(found, ({ part, octets }) => `${part.part ?? '1'} ${octets}`);
  for (const group of groups.values()) {
    const [first] = group;
    if (!first) continue;
    const parts = new Map(group.map(({ uid, part }) => [uid, part]));
    const item = peek(first.part.part ?? '1', [0, first.octets]);
    await fetchRows(connection, UidSet.of(parts.keys()), [item], (uid, items) => {
      const [part, bytes] = [parts.get(uid), bytesOf(items.get('BODY'))];
      if (part && bytes) previews.set(uid, previewOf(part, bytes));
    });
  }
  return previews;
}
