/** Finds the messages that a search means: by columns first, and by sources only where nothing else has ruled them out. */
import { setImmediate as turn } from 'node:timers/promises';
import type { ImapRow, ImapTexts } from '../../mailboxes/mailstore/mailstore.ts';
import {
  decodeRawHeader,
  decodeWords,
  fieldValue,
  HeaderReader,
  type MessagePart,
  parseDate,
  readMessageTexts,
} from '../../protocols/message/message.ts';
import type { EnvelopeField, SearchKey } from './parse-search.ts';
import { No, type Session } from './session.ts';
import { readSearchTexts, type SearchTexts, textsOf } from './texts.ts';

/** A message that was found. */
export type Row = ImapRow<
  'modseq' | 'flags' | 'size' | 'internal_date' | 'body_id' | 'structure' | 'saved_at' | 'thread_id'
>;

/** Rows that are read at once: without texts, and with them, of which one row may have half a megabyte. */
const ROWS_AT_A_TIME = 500;
const WITH_TEXTS = 50;
/** What one search reads of sources, in octets and milliseconds: then it is refused. */
const OCTETS_MAX = 64 * 1024 * 1024;
const TIME_MAX = 10_000;

/** Whether a key of a kind is in it. */
export function names(key: SearchKey, kind: SearchKey['kind']): boolean {
  if (key.kind === kind) return true;
  if (key.kind === 'not') return names(key.key, kind);
  return key.kind === 'and' || key.kind === 'or' ? key.keys.some((one) => names(one, kind)) : false;
}

/** Whether the key asks for nothing but flags, MODSEQs and sets. */
function onlyFlags(key: SearchKey): boolean {
  if (key.kind === 'not') return onlyFlags(key.key);
  if (key.kind === 'and' || key.kind === 'or') return key.keys.every(onlyFlags);
  return ['all', 'recent', 'set', 'flag', 'modseq'].includes(key.kind);
}

export class Search {
  readonly #session: Session;
  readonly #key: SearchKey;
  /** What `$` means in the key. */
  readonly #saved: readonly number[];
  readonly #sets = new Map<SearchKey, ReadonlySet<number>>();
  readonly #until = performance.now() + TIME_MAX;
  #octets = 0;

  constructor(session: Session, key: SearchKey, saved: readonly number[]) {
    this.#session = session;
    this.#key = key;
    this.#saved = saved;
    this.#resolve(key);
  }

  #resolve(key: SearchKey): void {
    if (key.kind === 'set') {
      const { selected } = this.#session;
      const uids = key.set === '$' ? this.#saved : selected.resolve(key.set, key.isUids, true);
      this.#sets.set(key, new Set(uids));
    }
    if (key.kind === 'not') this.#resolve(key.key);
    if (key.kind === 'and' || key.kind === 'or') for (const one of key.keys) this.#resolve(one);
  }

  /** Messages in the view that match, ascending. */
  async run(): Promise<Row[]> {
    const { selected: view, services } = this.#session;
    const columns = [
      ...([
        'modseq',
        'flags',
        'size',
        'internal_date',
        'body_id',
        'saved_at',
        'thread_id',
      ] as const),
    ];
    const withTexts = (['sent', 'header', 'text'] as const).some((kind) => names(this.#key, kind));
    const withFields = names(this.#key, 'envelope');
    const all = onlyFlags(this.#key)
      ? await services.mailstore.imap.flags(view.mailbox)
      : undefined;
    if (all) return this.#inIndex(all);
    const found: Row[] = [];
    const size = withTexts ? WITH_TEXTS : ROWS_AT_A_TIME;
    for (let at = 0; at < view.size; at += size) {
      const uids = view.uids.slice(at, at + size);
      // Other connections have their turn.
      await turn();
      const { imap } = services.mailstore;
      const rows: Row[] = withTexts
        ? await imap.rows(view.mailbox, uids, [...columns, 'structure'])
        : (await imap.rows(view.mailbox, uids, columns)).map((row) => ({
            ...row,
            structure: '',
          }));
      const texts = withFields ? await textsOf(this.#session, rows) : undefined;
      for (const row of rows) {
        const candidate = new Candidate(this, row, texts?.get(row.body_id));
        if (await this.#matches(this.#key, candidate)) found.push(row);
      }
    }
    return found;
  }

  /** By flags alone, which an index has. */
  async #inIndex(all: readonly ImapRow<'modseq' | 'flags'>[]): Promise<Row[]> {
    const { selected: view } = this.#session;
    const found: Row[] = [];
    const nothing = {
      ...{ size: 0, internal_date: 0, body_id: 0, structure: '' },
      ...{ saved_at: null, thread_id: null },
    };
    for (const one of all) {
      const row = { ...nothing, ...one };
      const isSeen = view.numberOf(row.uid) > 0;
      if (isSeen && (await this.#matches(this.#key, new Candidate(this, row)))) found.push(row);
    }
    return found;
  }

  async #matches(key: SearchKey, message: Candidate): Promise<boolean> {
    const { row } = message;
    switch (key.kind) {
      case 'all':
        return true;
      case 'recent':
        return this.#session.selected.recent?.has(row.uid) ?? false;
      case 'set':
        return this.#sets.get(key)?.has(row.uid) ?? false;
      case 'flag':
        return message.hasFlag(key.flag) === key.isSet;
      case 'size':
        return row.size >= key.from && row.size <= key.to;
      case 'arrived':
        return row.internal_date >= key.from && row.internal_date < key.before;
      case 'saved':
        return row.saved_at !== null && row.saved_at >= key.from && row.saved_at < key.before;
      case 'emailid':
        return this.#session.services.mailstore.imap.objectIds.email(row.body_id) === key.id;
      case 'threadid':
        return row.thread_id !== null && this.#threadId(row.thread_id) === key.id;
      case 'modseq':
        return row.modseq >= key.from;
      case 'envelope':
        return message.envelopeText(key.field).includes(key.text);
      case 'sent':
        return message.wasSent(key.from, key.before);
      case 'header':
        return message.hasHeader(key.name, key.text);
      case 'text':
        return message.hasText(key.text, key.isBody);
      case 'not':
        return !(await this.#matches(key.key, message));
      case 'and':
        // The cheap ones first.
        for (const one of key.keys.toSorted((a, b) => costOf(a) - costOf(b))) {
          if (!(await this.#matches(one, message))) return false;
        }
        return true;
      default:
        for (const one of key.keys) if (await this.#matches(one, message)) return true;
        return false;
    }
  }

  #threadId(id: number): string {
    return this.#session.services.mailstore.imap.objectIds.thread(id);
  }

  /** Octets of a source, which count. @throws No where this search has read too much */
  async read({ uid, body_id }: Row, start: number, end: number): Promise<Buffer> {
    this.#octets += end - start;
    if (this.#octets > OCTETS_MAX || performance.now() > this.#until) {
      throw new No(
        'LIMIT',
        'The search reads too much: search fewer messages, by date for example',
      );
    }
    const { imap } = this.#session.services.mailstore;
    const body = await imap.body(body_id);
    if (!body) return Buffer.alloc(0);
    const pieces: Uint8Array[] = [];
    const { accountId } = this.#session.user;
    const about = { accountId, uid, bodyId: body_id };
    for await (const piece of imap.source(body, { start, end }, about)) {
      pieces.push(Uint8Array.from(piece));
    }
    return Buffer.concat(pieces);
  }
}

function costOf(key: SearchKey): number {
  if (key.kind === 'text') return 3;
  if (key.kind === 'header' || key.kind === 'sent') return 2;
  if (key.kind === 'not') return costOf(key.key);
  return key.kind === 'and' || key.kind === 'or' ? Math.max(...key.keys.map(costOf)) : 1;
}

/** A message that may match; what was read of it is kept for the other keys. */
class Candidate {
  readonly row: Row;
  readonly #search: Search;
  readonly #known: ImapTexts | undefined;
  #searched: SearchTexts | undefined;
  #fields: Promise<readonly { name: string; value: string }[]> | undefined;
  #texts: Promise<string> | undefined;

  constructor(search: Search, row: Row, texts?: ImapTexts) {
    this.#search = search;
    this.row = row;
    this.#known = texts;
  }

  hasFlag(flag: string): boolean {
    const wanted = flag.toLowerCase();
    return this.row.flags.split(' ').some((one) => one.toLowerCase() === wanted);
  }

  envelopeText(field: EnvelopeField): string {
    if (this.#known) this.#searched ??= readSearchTexts(this.#known);
    return this.#searched?.[field] ?? '';
  }

  /** By the day as it was written, in the sender's zone (RFC 9051 section 6.4.4). */
  async wasSent(from: number, before: number): Promise<boolean> {
    const fields = await this.#header();
    const value = fields.find(({ name }) => name === 'date')?.value ?? '';
    const read = parseDate(value.replace(/(\d\d:\d\d(?::\d\d)?).*$/, '$1'));
    const at = read === undefined ? this.row.internal_date : Date.parse(read);
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
    const root = JSON.parse(this.row.structure) as MessagePart;
    const open = async function* (search: Search, row: Row, start: number, end: number) {
      yield await search.read(row, start, end);
    };
    const { text = '', html = '' } = await readMessageTexts(root, OCTETS_MAX, ({ start, end }) =>
      open(this.#search, this.row, start, end),
    );
    return `${text}\n${html}`.toLowerCase();
  }

  #header() {
    this.#fields ??= this.#readHeader();
    return this.#fields;
  }

  async #readHeader() {
    const { headerStart, bodyStart } = JSON.parse(this.row.structure) as MessagePart;
    const reader = new HeaderReader();
    const bytes = await this.#search.read(this.row, headerStart, bodyStart);
    if (reader.write(bytes) === undefined) reader.end();
    return reader.header.fields.map((field) => ({
      name: field.name,
      value: decodeWords(decodeRawHeader(fieldValue(field))),
    }));
  }
}
