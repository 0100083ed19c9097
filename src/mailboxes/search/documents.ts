/** What is indexed of a message, on either engine, and the interface of an index. */
import type { Bodies, StoredBody } from '../bodies/bodies.ts';
import {
  createDecoder,
  decodeText,
  type Envelope,
  htmlToText,
  listAttachments,
  listTextParts,
  type Mailbox,
  type MessagePart,
} from '../message/message.ts';
import { type DocumentTexts, documentTerms, type QueryTerm } from './terms.ts';

/** A text part of a message, as it is in the source. */
export interface TextPart {
  readonly html: boolean;
  /** Content-Transfer-Encoding, as the structure has it. */
  readonly encoding: string;
  readonly charset: string | undefined;
  readonly bytes: Uint8Array;
}

/** What is indexed of one message. Plain data, so that it can be sent to a thread. */
export interface SearchDocument {
  readonly accountId: number;
  readonly bodyId: number;
  /** INTERNALDATE, milliseconds since 1970. */
  readonly date: number;
  readonly subject: string;
  readonly from: string;
  /** To, Cc and Bcc. */
  readonly to: string;
  readonly attachmentNames: string;
  readonly parts: readonly TextPart[];
}

export type SearchChange =
  | { readonly kind: 'add'; readonly document: SearchDocument }
  /** The account has no message of this body any more. */
  | { readonly kind: 'remove'; readonly accountId: number; readonly bodyId: number }
  /** The account was deleted. */
  | { readonly kind: 'forget'; readonly accountId: number };

/** A message that matches: the caller finds the mailboxes that hold its body. */
export interface Hit {
  readonly id: number;
  readonly bodyId: number;
  readonly date: number;
}

/** Where a page ended; hits come newest first, and of one date the latest id first. */
export type HitPlace = Pick<Hit, 'date' | 'id'>;

export interface FindRequest {
  readonly accountId: number;
  /** All must be in the message; at least one. */
  readonly terms: readonly QueryTerm[];
  /** Only hits after this one. */
  readonly after?: HitPlace | undefined;
  readonly limit: number;
}

export interface SearchIndex {
  /**
   * Makes changes in order. They are in the index when this resolves; a repeated change does no harm.
   *
   * @param position of the last of them in the queue; stored in the index together with them
   * @returns messages that could not be read; they do not stop the others
   */
  apply(changes: readonly SearchChange[], position: number): Promise<readonly Unreadable[]>;
  find(request: FindRequest): Promise<Hit[]>;
}

/* Reads the searchable texts of a stored message. */

/** The most octets of encoded text that are read of one message, all parts together. */
const ENCODED_MAX = 512 * 1024;

export interface StoredMessage {
  readonly accountId: number;
  readonly bodyId: number;
  readonly date: number;
  readonly envelope: Envelope;
  readonly structure: MessagePart;
  readonly body: StoredBody;
}

/** @throws the error of the disk where the body's file cannot be read */
export async function readDocument(
  bodies: Pick<Bodies, 'read'>,
  message: StoredMessage,
): Promise<SearchDocument> {
  const { accountId, bodyId, date, envelope, structure, body } = message;
  const { from, to, cc, bcc } = envelope;
  return {
    accountId,
    bodyId,
    date,
    subject: envelope.subject ?? '',
    from: addressesText(from),
    to: addressesText([...(to ?? []), ...(cc ?? []), ...(bcc ?? [])]),
    attachmentNames: listAttachments(structure)
      .map(({ filename }) => filename ?? '')
      .join(' '),
    parts: await readTextParts(bodies, body, structure),
  };
}

function addressesText(mailboxes: readonly Mailbox[] | undefined): string {
  return (mailboxes ?? []).map(({ name, address }) => `${name ?? ''} ${address ?? ''}`).join(' ');
}

/** The plain text; the HTML only where there is no plain text, since both mostly say the same. */
async function readTextParts(
  bodies: Pick<Bodies, 'read'>,
  body: StoredBody,
  structure: MessagePart,
): Promise<TextPart[]> {
  const plain = listTextParts(structure, 'text/plain');
  const html = plain.length > 0 ? [] : listTextParts(structure, 'text/html');
  const parts: TextPart[] = [];
  let left = ENCODED_MAX;
  for (const part of [...plain, ...html]) {
    if (left <= 0) break;
    const end = Math.min(part.bodyEnd, part.bodyStart + left);
    const pieces: Buffer[] = [];
    for await (const piece of bodies.read(body, { start: part.bodyStart, end })) {
      pieces.push(Buffer.from(piece));
    }
    const bytes = new Uint8Array(Buffer.concat(pieces));
    left -= bytes.length;
    const isHtml = part.type === 'text/html';
    parts.push({ html: isHtml, encoding: part.encoding, charset: part.parameters?.charset, bytes });
  }
  return parts;
}

/** A message that cannot be found by its words, since it could not be read. */
export interface Unreadable {
  readonly accountId: number;
  readonly bodyId: number;
  readonly failure: string;
}

/** The terms of a document: the work of the index's thread. One that throws has no terms. */
export function tryTerms(document: SearchDocument): { terms: string[]; unreadable?: Unreadable } {
  const { accountId, bodyId } = document;
  try {
    return { terms: documentTerms(accountId, documentTexts(document)) };
  } catch (error) {
    return { terms: [], unreadable: { accountId, bodyId, failure: String(error) } };
  }
}

function documentTexts(document: SearchDocument): DocumentTexts {
  const { subject, from, to, attachmentNames, parts } = document;
  const body = parts.map(({ html, encoding, charset, bytes }) => {
    const decoder = createDecoder(encoding);
    const decoded = [decoder.write(Buffer.from(bytes)), decoder.end()];
    const text = decodeText(Buffer.concat(decoded), charset);
    return html ? htmlToText(text) : text;
  });
  return { subject, from, to, body: [attachmentNames, ...body].join('\n') };
}
