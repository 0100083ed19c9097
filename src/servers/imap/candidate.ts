/** A message that a search may mean. */
import { hasFlag, type ImapColumn, type ImapRow } from '../../mailboxes/mailstore/mailstore.ts';
import {
  decodeRawHeader,
  decodeWords,
  fieldValue,
  HeaderReader,
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

interface Reader {
  /** Octets of a source. @throws No where the search has read too much */
  read(row: Row, start: number, end: number): Promise<Buffer>;
}

/** A message that may match; what was read of it is kept for the other keys. */
export class Candidate {
  readonly row: Row;
  readonly #search: Reader;
  readonly #known: string | undefined;
  #searched: SearchTexts | undefined;
  #fields: Promise<readonly { name: string; value: string }[]> | undefined;
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
      const found = fields.some((field) =>
        `${field.name}: ${field.value}`.toLowerCase().includes(text),
      );
      if (found) return true;
    }
    this.#texts ??= this.#readTexts();
    return (await this.#texts).includes(text);
  }

  async #readTexts(): Promise<string> {
    const open = async function* (search: Reader, row: Row, start: number, end: number) {
      yield await search.read(row, start, end);
    };
    const { text = '', html = '' } = await readMessageTexts(
      this.#root,
      OCTETS_MAX,
      ({ start, end }) => open(this.#search, this.row, start, end),
    );
    return `${text}\n${html}`.toLowerCase();
  }

  get #root(): MessagePart {
    return JSON.parse(columnOf(this.row, 'structure')) as MessagePart;
  }

  #header() {
    this.#fields ??= this.#readHeader();
    return this.#fields;
  }

  async #readHeader() {
    const { headerStart, bodyStart } = this.#root;
    const reader = new HeaderReader();
    const bytes = await this.#search.read(this.row, headerStart, Math.min(bodyStart, MAX_HEADER));
    if (reader.write(bytes) === undefined) reader.end();
    return reader.header.fields.map((field) => ({
      name: field.name,
      value: decodeWords(decodeRawHeader(fieldValue(field))),
    }));
  }
}
