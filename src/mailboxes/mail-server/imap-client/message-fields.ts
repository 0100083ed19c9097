/**
 * The fields that a sync adds to new messages, read from the server without their sources.
 *
 * The parser of `message/` reads the envelope from the header fields, as in our own store. The server's ENVELOPE
 * is not used: it fills in Sender and Reply-To, and each server splits addresses in its own way.
 */

import { UidSet } from '../../../protocols/imap-syntax/imap-syntax.ts';
import {
  type BodyStructure,
  findPreviewPart,
  hasAttachments,
  MessageParser,
  type ParsedMessage,
  previewOf,
} from '../../../protocols/message/message.ts';
import {
  type AddedMessage,
  formatThreadId,
  type MessageField,
  threadByHeader,
  threadHeaders,
} from '../../mailstore/mailstore.ts';
import { readBodyStructure } from './body-structure.ts';
import type { Connection } from './connection.ts';
import { type FetchedItems, fetchRows } from './fetch.ts';
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
export function fieldItems(connection: Connection, fields: readonly MessageField[]): Argument[] {
  const items = new Set(fields.flatMap((field) => itemsOfField[field]));
  // RFC 8474: Dovecot and Courier have none.
  if (connection.has('OBJECTID') && fields.includes('emailId')) items.add(atom('EMAILID'));
  if (connection.selected?.modseq !== undefined && fields.includes('flags'))
    items.add(atom('MODSEQ'));
  return [...items];
}

export function readFields(
  uid: number,
  items: FetchedItems,
  fields: readonly MessageField[],
): AddedMessage {
  const has = new Set(fields);
  const bytes = bytesOf(items.get('BODY'));
  const parsed = bytes && parseHeader(bytes);
  const size = numberOf(items.get('RFC822.SIZE'));
  const internalDate = readInternalDate(items.get('INTERNALDATE'));
  const structure = readBodyStructure(items.get('BODYSTRUCTURE'));
  const modseq = modseqOf(listOf(items.get('MODSEQ'))[0]);
  // `EMAILID (M6d99ac3275bb4e)` (RFC 8474 section 5.1)
  const emailId = textOf(listOf(items.get('EMAILID'))[0]);
  return {
    uid,
    ...(has.has('envelope') && parsed && { envelope: parsed.envelope }),
    ...(has.has('flags') && { flags: readFlags(listOf(items.get('FLAGS'))) }),
    ...(has.has('flags') && modseq !== undefined && { modseq: `${modseq}` }),
    ...(has.has('size') && size !== undefined && { size }),
    ...(has.has('internalDate') && internalDate !== undefined && { internalDate }),
    ...(has.has('bodyStructure') && structure && { bodyStructure: structure }),
    ...(has.has('threadId') && parsed && { threadId: threadIdOf(parsed) }),
    ...(has.has('emailId') && emailId !== undefined && { emailId }),
    ...(has.has('hasAttachment') && structure && { hasAttachment: hasAttachments(structure) }),
  };
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
