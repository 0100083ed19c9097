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
  HeaderReader,
  listNestedMessages,
  MAX_HEADER,
  type MessagePart,
  parseDate,
  readMessageTexts,
} from '../../protocols/message/message.ts';
import type { EnvelopeField } from './parse-search.ts';
import { columnOf } from './source.ts';
import { readSearchTexts, type SearchTexts } from './texts.ts';

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
  /** Octets of a source. @throws No where the search has read too much */
  read(row: Row, start: number, end: number): Promise<Buffer>;
  open(row: Row, range: ByteRange): AsyncIterable<Uint8Array>;
}

/** A message that may match; what was read of it is kept for the other keys. */
export class Candidate {
  readonly row: Row;
  readonly #search: Reader;
  readonly #known: string | undefined;
  #searched: SearchTexts | undefined;
  #fields: Promise<readonly Field[]> | undefined;
  #texts: Promise<string> | undefined;

  /** @param known what is kept of it for searches */
  constructor(search: Reader, row: Row, known?: string) {
    this.#search = search;
    this.row = row;
    this.#known = known;
  }

  hasFlag(flag: string): boolean {
    return hasFlag(columnOf(this.row, 'flags').toLowerCase(), flag.toLowerCase());
  }

  hasEnvelopeText(field: EnvelopeField, text: string): boolean {
    // What is nowhere in the texts as they are stored is in none of them: most are not parsed.
    if (!this.#known?.includes(JSON.stringify(text).slice(1, -1))) return false;
    this.#searched ??= readSearchTexts(this.#known);
    return this.#searched[field].includes(text);
  }

  /** By the day as it was written, in the sender's zone (RFC 9051 section 6.4.4). */
  async wasSent(from: number, before: number): Promise<boolean> {
    const fields = await this.#header();
    const value = fields.find(({ name }) => name === 'date')?.value ?? '';
    const read = parseDate(value.replace(/(\d\d:\d\d(?::\d\d)?).*$/, '$1'));
    const at = read === undefined ? columnOf(this.row, 'internal_date') : Date.parse(read);
    return at >= from && at < before;
  }

  async hasHeader(name: string, text: string): Promise<boolean> {
    const fields = await this.#header();
    return fields.some((field) => field.name === name && field.value.toLowerCase().includes(text));
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
    for (const message of withNested(this.#root)) {
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

  get #root(): MessagePart {
    return JSON.parse(columnOf(this.row, 'structure')) as MessagePart;
  }

  #header() {
    this.#fields ??= this.#readHeader(this.#root);
    return this.#fields;
  }

  async #readHeader({ headerStart, bodyStart }: MessagePart): Promise<readonly Field[]> {
    const reader = new HeaderReader();
    const end = Math.min(bodyStart, headerStart + MAX_HEADER);
    const bytes = await this.#search.read(this.row, headerStart, end);
    if (reader.write(bytes) === undefined) reader.end();
    return reader.header.fields.map((field) => ({
      name: field.name,
      value: decodeWords(decodeRawHeader(fieldValue(field))),
    }));
  }
}

/** A field of a header, decoded. */
interface Field {
  readonly name: string;
  readonly value: string;
}

const lineOf = ({ name, value }: Field) => `${name}: ${value}`;

/** A message, and those that are forwarded in it. */
function* withNested(message: MessagePart): Generator<MessagePart> {
  yield message;
  for (const nested of listNestedMessages(message)) yield* withNested(nested);
}
