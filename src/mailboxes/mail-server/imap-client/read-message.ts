/**
 * Reading one message and its parts.
 *
 * Each request, and each further piece of a long message, opens the mailbox by EXAMINE first. A session keeps its view
 * of a mailbox after another client deleted it, created it again or expunged from it. It would then return old
 * messages, fail, or (with Dovecot's sdbox) empty the new mailbox. NOOP and STATUS answer from the same old view, so
 * there is no shorter command.
 */
import { LRUCache } from 'lru-cache';
import { Refusal } from '../../../platform/errors/errors.ts';
import { entries } from '../../../platform/memory/memory.ts';
import { UidSet } from '../../../protocols/imap-syntax/imap-syntax.ts';
import {
  type BodyStructure,
  createDecoder,
  decodePart,
  findPart,
  hasAttachments,
  parseMessage,
  partFilename,
  readPreview,
  toBodyStructure,
} from '../../../protocols/message/message.ts';
import type { ByteRange, MailUser, Message, PartContent } from '../../mailstore/mailstore.ts';
import { readBodyStructure } from './body-structure.ts';
import type { Connection } from './connection.ts';
import { threadIdOf } from './describe-messages.ts';
import {
  fetchPiece,
  fetchRows,
  listUids,
  PIECE,
  type Piece,
  readPieces,
  type Section,
} from './fetch.ts';
import { ReaderHold, type UseOptions } from './pool.ts';
import { type Argument, atom, listOf, readFlags, readInternalDate } from './wire.ts';

/** Runs work that changes nothing, a second time on another connection where the first broke. */
export type Read = <T>(
  user: MailUser,
  mailbox: string,
  work: (connection: Connection, isKept: boolean) => Promise<T>,
  options?: UseOptions,
) => Promise<T>;

/** Identity encodings do not change a part's octets (RFC 2045 section 6.2). */
const IDENTITY = new Set(['7bit', '8bit', 'binary']);

/** Sizes of parts that are remembered. */
const SIZES_KEPT = 2_000;

interface MessageLocation {
  readonly user: MailUser;
  readonly mailbox: string;
  readonly uidvalidity: string;
  readonly uid: number;
}

export class MessageReader {
  readonly #read: Read;
  /** Decoded sizes of large parts: a message never changes under its UIDVALIDITY and UID. */
  readonly #sizes = new LRUCache<string, number, () => Promise<number>>({
    ...entries(SIZES_KEPT),
    // It reads the part; run once for readers that come together.
    fetchMethod: (_key, _known, { context: measure }) => measure(),
    // Where others take its slot meanwhile, its readers get it all the same.
    ignoreFetchAbort: true,
  });

  constructor(read: Read) {
    this.#read = read;
  }

  /**
   * The source is parsed once by `message/`, so that the description is the same as in every store of ours. A source
   * of one piece is kept; a longer one is fetched again by each reader.
   */
  async message(user: MailUser, mailbox: string, uid: number): Promise<Message> {
    const { items, open, parsed } = await this.#parse(user, mailbox, uid);
    const internalDate = readInternalDate(items.get('INTERNALDATE'));
    return {
      uid,
      envelope: parsed.envelope,
      flags: readFlags(listOf(items.get('FLAGS'))),
      bodyStructure: toBodyStructure(parsed.structure),
      structure: parsed.structure,
      size: parsed.size,
      describe: async () => ({
        preview: await readPreview(parsed.structure, open),
        threadId: threadIdOf(parsed),
        hasAttachment: hasAttachments(parsed.structure),
      }),
      internalDate: internalDate ?? new Date(0).toISOString(),
      open,
    };
  }

  async #parse(user: MailUser, mailbox: string, uid: number) {
    const first = await this.#read(user, mailbox, async (connection) => {
      const { uidvalidity } = await connection.select(mailbox, 'EXAMINE');
      const items = [atom('FLAGS'), atom('INTERNALDATE')];
      const piece = await fetchFirst(connection, { mailbox, uidvalidity, uid }, '', items);
      if (!piece) throw messageNotFound(mailbox, uid);
      return { ...piece, uidvalidity };
    });
    const { bytes, items, uidvalidity } = first;
    const location = { user, mailbox, uidvalidity, uid };
    const open = (range?: ByteRange) => this.#open(location, '', bytes, range);
    return { items, uidvalidity, open, parsed: await parseMessage(open()) };
  }

  /**
   * The part is found in the server's BODYSTRUCTURE and its octets are `BODY.PEEK[part]`, so that a small part of a
   * large message costs only its own size. The decoded size of a part that is longer than one piece is found by
   * reading it once, and is then remembered.
   */
  async part(user: MailUser, mailbox: string, uid: number, number: string): Promise<PartContent> {
    const found = await this.#read(user, mailbox, async (connection) => {
      const { uidvalidity } = await connection.select(mailbox, 'EXAMINE');
      const row = await fetchStructure(connection, uid);
      if (!row) throw messageNotFound(mailbox, uid);
      const part = row.structure && findIn(row.structure, number);
      const location = { mailbox, uidvalidity, uid };
      const piece = part && (await fetchFirst(connection, location, number));
      return part && piece && { part, first: piece.bytes, uidvalidity };
    });
    if (!found) return this.#parsedPart(user, mailbox, uid, number);
    const { part, first, uidvalidity } = found;
    const location = { user, mailbox, uidvalidity, uid };
    const etag = `"${uidvalidity}-${uid}-${number}"`;
    const encoded = () => this.#open(location, number, first);
    const key = `${user.accountId} ${mailbox} ${etag}`;
    const measure = () => decodedSize(part, first, encoded);
    const size = await this.#sizes.forceFetch(key, { context: measure });
    return {
      size,
      etag,
      filename: partFilename(part),
      open: (range?: ByteRange) => {
        const isPlain = IDENTITY.has(part.encoding);
        // Where there is no encoding, the octets before the range are not fetched.
        if (range && isPlain) return this.#open(location, number, first, range);
        return decodePart(part.encoding, encoded(), range ?? { start: 0, end: size });
      },
    };
  }

  /**
   * A part that the server does not tell of, but our parser does: clients get the structure of our parser, which reads
   * messages leniently (Courier sees no parts without MIME-Version).
   */
  async #parsedPart(
    user: MailUser,
    mailbox: string,
    uid: number,
    number: string,
  ): Promise<PartContent> {
    const { open, parsed, uidvalidity } = await this.#parse(user, mailbox, uid);
    const part = findPart(parsed.structure, number);
    if (!part) throw new Refusal('part_not_found', `message ${uid} has no part ${number}`);
    return {
      size: part.decodedSize,
      etag: `"${uidvalidity}-${uid}-${number}"`,
      filename: partFilename(part),
      open: (range?: ByteRange) =>
        decodePart(part.encoding, open({ start: part.bodyStart, end: part.bodyEnd }), range),
    };
  }

  /**
   * The octets of a section, whose first piece was fetched already. The connection is held from piece to piece. If two
   * EXAMINEs find the same mailbox, everything read between them is of that mailbox; so an EXAMINE follows the last
   * piece.
   */
  async *#open(
    { user, mailbox, uidvalidity, uid }: MessageLocation,
    section: Section,
    first: Buffer,
    { start, end }: ByteRange = { start: 0, end: Number.POSITIVE_INFINITY },
  ): AsyncGenerator<Uint8Array> {
    const requireSame = async (connection: Connection) => {
      const selected = await connection.select(mailbox, 'EXAMINE');
      if (selected.uidvalidity !== uidvalidity) throw messageNotFound(mailbox, uid);
    };
    const keep = new ReaderHold();
    const next = async (at: number): Promise<Piece> => {
      // The first piece was fetched from an earlier offset.
      const isWhole = first.length < PIECE;
      if (at < first.length || isWhole) return { bytes: first.subarray(at), isLast: isWhole };
      const length = Math.min(PIECE, end - at);
      const read = async (connection: Connection, isKept: boolean) => {
        if (!isKept) await requireSame(connection);
        const piece = await fetchPiece(connection, uid, section, at, [], length);
        if (!piece) throw messageNotFound(mailbox, uid);
        const { bytes } = piece;
        const isLast = bytes.length < length || at + length >= end;
        if (isLast) await requireSame(connection);
        // An empty piece may mean the end, or that Courier no longer has the message.
        const isCut = bytes.length === 0 && (await listUids(connection, uid, uid)).size === 0;
        if (isCut) throw messageNotFound(mailbox, uid);
        return { bytes, isLast };
      };
      return this.#read(user, mailbox, read, { keep });
    };
    try {
      yield* readPieces(next, start, end);
    } finally {
      keep.end();
    }
  }
}

/** The end of the text that Courier returns for a message which another session expunged since the EXAMINE. */
const STAND_IN = /This message is no longer available on the server\.\r?\n$/;

/**
 * The first piece of a section. One that could be Courier's text is fetched again after another EXAMINE, which lists
 * the message only if it exists.
 *
 * @returns undefined where the message was removed
 */
async function fetchFirst(
  connection: Connection,
  { mailbox, uidvalidity, uid }: Omit<MessageLocation, 'user'>,
  section: Section,
  items: readonly Argument[] = [],
) {
  const piece = await fetchPiece(connection, uid, section, 0, items);
  if (!piece || !STAND_IN.test(piece.bytes.subarray(-100).toString('latin1'))) return piece;
  const selected = await connection.select(mailbox, 'EXAMINE');
  if (selected.uidvalidity !== uidvalidity) return undefined;
  return fetchPiece(connection, uid, section, 0, items);
}

/** @returns undefined where there is no such message; no structure where the server's cannot be read */
async function fetchStructure(
  connection: Connection,
  uid: number,
): Promise<{ readonly structure: BodyStructure | undefined } | undefined> {
  let row: { readonly structure: BodyStructure | undefined } | undefined;
  await fetchRows(connection, UidSet.of([uid]), [atom('BODYSTRUCTURE')], (_, items) => {
    row = { structure: readBodyStructure(items.get('BODYSTRUCTURE')) };
  });
  return row;
}

function findIn(structure: BodyStructure, number: string): BodyStructure | undefined {
  if (structure.part === number) return structure;
  for (const child of structure.childNodes ?? []) {
    const found = findIn(child, number);
    if (found) return found;
  }
  return undefined;
}

async function decodedSize(
  { encoding }: BodyStructure,
  first: Buffer,
  encoded: () => AsyncIterable<Uint8Array>,
): Promise<number> {
  const decoder = createDecoder(encoding);
  if (first.length < PIECE) return decoder.write(first).length + decoder.end().length;
  let size = 0;
  for await (const chunk of encoded()) size += decoder.write(Buffer.from(chunk)).length;
  return size + decoder.end().length;
}

function messageNotFound(mailbox: string, uid: number): Refusal {
  return new Refusal('message_not_found', `there is no message ${uid} in "${mailbox}"`);
}
