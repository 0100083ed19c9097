/** A message that a search may mean. */
import {
  type ByteRange,
  hasFlag,
  type ImapColumn,
  type ImapRow,
} from '../../mailboxes/mailstore/mailstore.ts';
import {
  decodeRawHeader,
  decodeWords,
  fieldValue,
  type HeaderField,
  listNestedMessages,
  MAX_HEADER,
  type MessagePart,
  parseDate,
  readFields,
  readMessageTexts,
} from '../../protocols/message/message.ts';
import { isKeptName } from './header-fields.ts';
import type { EnvelopeField } from './parse-search.ts';
import { columnOf } from './source.ts';
import { plainField, readSearchTexts, type SearchTexts } from './texts.ts';

/** Its other columns are read where a key needs them. */
export type Row = ImapRow<'modseq' | 'body_id'> & Partial<ImapRow<ImapColumn>>;

/** What one search reads of sources, in octets: then it is refused. */
export const OCTETS_MAX = 64 * 1024 * 1024;

/**
 * Octets of the texts of a message, in plain text or in HTML, in which a search looks: to decode forty megabytes would hold
 * all other connections for a second.
 */
const TEXTS_MAX = 1024 * 1024;

interface Reader {
  /** Where the parts of a message are; undefined where it is gone. */
  structure(row: Row): Promise<string | undefined>;
  /** Octets of a source. @throws No where the search has read too much */
  read(row: Row, start: number, end: number): Promise<Buffer>;
  open(row: Row, range: ByteRange): AsyncIterable<Uint8Array>;
}

/** A message that may match; what was read of it is kept for the other keys. */
export class Candidate {
  readonly row: Row;
  readonly #search: Reader;
  readonly #known: string | undefined;
  readonly #keptFields: string | undefined;
  #searched: SearchTexts | undefined;
  #kept: readonly HeaderField[] | undefined;
  #fields: Promise<readonly HeaderField[]> | undefined;
  #texts: Promise<string> | undefined;

  /**
   * @param known what is kept of it for searches
   * @param keptFields of its header; left out, or empty, where they have to be read
   */
  constructor(search: Reader, row: Row, known?: string, keptFields?: string) {
    this.#search = search;
    this.row = row;
    this.#known = known;
    this.#keptFields = keptFields;
  }

  hasFlag(flag: string): boolean {
    return hasFlag(columnOf(this.row, 'flags').toLowerCase(), flag.toLowerCase());
  }

  hasEnvelopeText(field: EnvelopeField, text: string): boolean {
    // What is nowhere in the texts as they are stored is in none of them: most are not parsed.
    if (!this.#known?.includes(JSON.stringify(text).slice(1, -1))) return false;
    const plain = plainField(this.#known, field);
    if (plain !== undefined) return plain.includes(text);
    this.#searched ??= readSearchTexts(this.#known);
    return this.#searched[field].includes(text);
  }

  /** By the day as it was written, in the sender's zone (RFC 9051 section 6.4.4). */
  async wasSent(from: number, before: number): Promise<boolean> {
    const [value = ''] = await this.#valuesOf('date');
    const read = parseDate(value, 'ignored');
    const at = read === undefined ? columnOf(this.row, 'internal_date') : Date.parse(read);
    return at >= from && at < before;
  }

  async hasHeader(name: string, text: string): Promise<boolean> {
    const values = await this.#valuesOf(name);
    return values.some((value) => value.toLowerCase().includes(text));
  }

  async hasText(text: string, isBody: boolean): Promise<boolean> {
    if (!isBody) {
      const fields = await this.#header();
      if (fields.some((field) => lineOf(field).toLowerCase().includes(text))) return true;
    }
    this.#texts ??= this.#readTexts();
    return (await this.#texts).includes(text);
  }

  /** Of the message and of those in it, whose headers are text of its body (RFC 3501 section 6.4.4). */
  async #readTexts(): Promise<string> {
    const texts: string[] = [];
    let left = TEXTS_MAX;
    const root = await this.#root();
    for (const message of root ? withNested(root) : []) {
      if (left <= 0) break;
      if (texts.length > 0) texts.push(...(await this.#readHeader(message)).map(lineOf));
      const { text = '', html = '' } = await readMessageTexts(message, left, (range) =>
        this.#search.open(this.row, range),
      );
      texts.push(text, html);
      left -= Math.max(text.length, html.length);
    }
    return texts.join('\n').toLowerCase();
  }

  async #root(): Promise<MessagePart | undefined> {
    const structure = await this.#search.structure(this.row);
    return structure === undefined ? undefined : (JSON.parse(structure) as MessagePart);
  }

  /** Of the fields of a name. A header is long, and most searches are for names that are kept. */
  async #valuesOf(name: string): Promise<string[]> {
    const kept = isKeptName(name) ? this.#keptFields : undefined;
    if (kept) this.#kept ??= readFields(Buffer.from(kept, 'latin1'));
    const fields = (kept && this.#kept) || (await this.#header());
    return fields.filter((field) => field.name === name).map(decodedOf);
  }

  #header() {
    this.#fields ??= this.#root().then((root) => (root ? this.#readHeader(root) : []));
    return this.#fields;
  }

  async #readHeader({ headerStart, bodyStart }: MessagePart): Promise<readonly HeaderField[]> {
    const end = Math.min(bodyStart, headerStart + MAX_HEADER);
    return readFields(await this.#search.read(this.row, headerStart, end));
  }
}

/** Decoded. */
const decodedOf = (field: HeaderField) => decodeWords(decodeRawHeader(fieldValue(field)));

const lineOf = (field: HeaderField) => `${field.name}: ${decodedOf(field)}`;

/** A message, and those that are forwarded in it. */
function* withNested(message: MessagePart): Generator<MessagePart> {
  yield message;
  for (const nested of listNestedMessages(message)) yield* withNested(nested);
}
