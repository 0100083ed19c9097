/** What is indexed of a message, and what is found, on either engine. */

import type { EpochMs } from '../../platform/time/time.ts';
import {
  asBuffer,
  createDecoder,
  type Envelope,
  htmlToText,
  listAttachments,
  listNestedMessages,
  listTextParts,
  type Mailbox,
  type MessagePart,
  type ParsedMessage,
  readEnvelope,
  readFields,
  readPartText,
} from '../../protocols/message/message.ts';
import type { Bodies, ByteRange, StoredBody } from '../bodies/bodies.ts';
import { type DocumentTexts, documentTerms, type QueryTerm } from './terms.ts';

/** A text part of a message, as it is in the source. */
export interface TextPart extends Pick<MessagePart, 'type' | 'parameters' | 'encoding'> {
  readonly bytes: Uint8Array;
}

/** What is indexed of one message. Plain data, so that it can be sent to a thread. */
export interface SearchDocument {
  readonly accountId: number;
  readonly bodyId: number;
  /** INTERNALDATE. */
  readonly date: EpochMs;
  readonly subject: string;
  readonly from: string;
  /** To, Cc and Bcc. */
  readonly to: string;
  readonly attachmentNames: string;
  readonly parts: readonly TextPart[];
}

/** A change, with the id of its row in the queue. */
export type SearchChange = { readonly row: number } & (
  | { readonly kind: 'add'; readonly document: SearchDocument }
  /** The account has no message of this body any more. */
  | { readonly kind: 'remove'; readonly accountId: number; readonly bodyId: number }
  /** The account was deleted. It may have more than is removed at a time. */
  | { readonly kind: 'forget'; readonly accountId: number }
);

/**
 * Documents of a deleted account that are removed at a time. With all of them at once, searches on SQLite would wait until
 * none is left; on PostgreSQL everybody's events, which are told only up to the oldest open transaction.
 */
export const FORGET_AT_A_TIME = 500;

/** A message that matches: the caller finds the mailboxes that hold its body. */
export interface Hit {
  readonly id: number;
  readonly bodyId: number;
  readonly date: number;
}

/** Where a page ended; hits come newest first, and of one date the latest id first. */
export type HitPosition = Pick<Hit, 'date' | 'id'>;

export interface FindRequest {
  readonly accountId: number;
  /** All must be in the message; at least one. */
  readonly terms: readonly QueryTerm[];
  readonly after?: HitPosition | undefined;
  readonly limit: number;
}

/* Reads the searchable texts of a stored message. */

/** The most octets of encoded text that are read of one message, all parts together. */
const ENCODED_MAX = 512 * 1024;
/** Octets that are read at once at least: a thousand small parts would be as many requests to a bucket. */
const AHEAD = 16 * 1024;

/** A message as its rows have it: the `Envelope` and the outermost `MessagePart` as JSON, and the body. */
export interface StoredMessage extends StoredBody {
  readonly accountId: number;
  readonly bodyId: number;
  readonly date: number;
  readonly envelope: string;
  readonly structure: string;
}

/** @throws the error of the disk where the body's file cannot be read */
export async function readDocument(
  bodies: Pick<Bodies, 'read'>,
  message: StoredMessage,
): Promise<SearchDocument> {
  const { accountId, bodyId, date } = message;
  const envelope: Envelope = JSON.parse(message.envelope);
  const structure: MessagePart = JSON.parse(message.structure);
  const texts = await readTexts({ envelope, structure }, (range) => bodies.read(message, range));
  return { accountId, bodyId, date, ...texts };
}

type Texts = Omit<SearchDocument, 'accountId' | 'bodyId' | 'date'>;

async function readTexts(
  { envelope, structure }: Pick<ParsedMessage, 'envelope' | 'structure'>,
  open: OpenRange,
): Promise<Texts> {
  const reader = new PartReader(open);
  await reader.read(structure);
  return {
    ...headTexts(envelope),
    attachmentNames: attachmentNames(structure),
    parts: reader.parts,
  };
}

function headTexts({ subject, from, to, cc, bcc }: Envelope) {
  return {
    subject,
    from: addressesText(from),
    to: addressesText([...(to ?? []), ...(cc ?? []), ...(bcc ?? [])]),
  };
}

function attachmentNames(structure: MessagePart): string {
  return listAttachments(structure)
    .map(({ filename }) => filename ?? '')
    .join(' ');
}

function addressesText(mailboxes: readonly Mailbox[] | undefined): string {
  return (mailboxes ?? []).map(({ name, address }) => `${name ?? ''} ${address ?? ''}`).join(' ');
}

/** Reads some octets of a source. */
type OpenRange = (range: ByteRange) => AsyncIterable<Uint8Array>;

/** Reads the texts of a message and of the messages in it, up to the limit. */
class PartReader {
  readonly parts: TextPart[] = [];
  readonly #open: OpenRange;
  #left = ENCODED_MAX;
  /** What was read last, and from which octet on. */
  #read = { from: 0, octets: Buffer.alloc(0) };

  constructor(open: OpenRange) {
    this.#open = open;
  }

  /** The plain text; the HTML only where there is no plain text, since both mostly say the same. */
  async read(structure: MessagePart): Promise<void> {
    const plain = listTextParts(structure, 'text/plain');
    const html = plain.length > 0 ? [] : listTextParts(structure, 'text/html');
    for (const { type, parameters, encoding, bodyStart, bodyEnd } of [...plain, ...html]) {
      const bytes = await this.#take(bodyStart, bodyEnd);
      if (!bytes) return;
      this.parts.push({ type, encoding, bytes, ...(parameters && { parameters }) });
    }
    for (const nested of listNestedMessages(structure)) {
      await this.#readHead(nested);
      await this.read(nested);
    }
  }

  /** Who wrote a forwarded message and what about, as the body of the one around it (RFC 3501 section 6.4.4). */
  async #readHead(nested: MessagePart): Promise<void> {
    const bytes = await this.#take(nested.headerStart, nested.bodyStart);
    if (!bytes) return;
    const head = headTexts(readEnvelope(readFields(bytes)));
    const texts = [...Object.values(head), attachmentNames(nested)];
    this.parts.push({
      type: 'text/plain',
      parameters: { charset: 'utf-8' },
      encoding: '8bit',
      bytes: new Uint8Array(Buffer.from(texts.join('\n'))),
    });
  }

  /** The next octets of the source; undefined after the limit. */
  async #take(start: number, end: number): Promise<Uint8Array | undefined> {
    if (this.#left <= 0) return undefined;
    const until = Math.min(end, start + this.#left);
    const { from, octets } = this.#read;
    if (start < from || until > from + octets.length) await this.#readAhead(start, until);
    const at = start - this.#read.from;
    // Not a view: a thread would be sent all of the memory behind it.
    const bytes = new Uint8Array(this.#read.octets.subarray(at, at + until - start));
    this.#left -= bytes.length;
    return bytes;
  }

  async #readAhead(start: number, until: number): Promise<void> {
    const range = { start, end: Math.max(until, start + AHEAD) };
    const pieces = await Array.fromAsync(this.#open(range), asBuffer);
    this.#read = { from: start, octets: Buffer.concat(pieces) };
  }
}

async function* asSource(bytes: Uint8Array) {
  yield bytes;
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

function documentTexts(document: Texts): DocumentTexts {
  const { subject, from, to, attachmentNames, parts } = document;
  const body = parts.map((part) => {
    const decoder = createDecoder(part.encoding);
    const decoded = [decoder.write(asBuffer(part.bytes)), decoder.end()];
    const text = readPartText(part, Buffer.concat(decoded));
    return part.type === 'text/html' ? htmlToText(text) : text;
  });
  return { subject, from, to, body: [attachmentNames, ...body].join('\n') };
}

/* The terms of a message that is not stored yet. */

/** Stands in terms for the account, while it is not known: no account has this id. */
const NOBODY = 0;
/** The most characters of terms that are written with a message: what has more is read again later. */
const UNOWNED_MAX = 32 * 1024;

/**
 * The terms of a message, separated by spaces, for an account that is not known yet ({@link ownTerms}).
 *
 * @returns undefined where they are many, or the message cannot be read: then it is read when it is indexed
 */
export async function readTerms(
  parsed: ParsedMessage,
  source: Uint8Array,
): Promise<string | undefined> {
  try {
    const texts = await readTexts(parsed, ({ start, end }) =>
      asSource(source.subarray(start, end)),
    );
    const terms = documentTerms(NOBODY, documentTexts(texts)).join(' ');
    return terms.length > UNOWNED_MAX ? undefined : terms;
  } catch {
    return undefined;
  }
}

/** The same as those of an account. */
export function ownTerms(terms: string, accountId: number): string {
  return terms.replace(/(^| )0(?=_)/g, `$1${accountId.toString(36)}`);
}
