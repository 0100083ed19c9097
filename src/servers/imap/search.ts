/** SEARCH and UID SEARCH: columns first, and sources only of messages that nothing else has ruled out. */
import { setImmediate as turn } from 'node:timers/promises';
import type { ImapRow } from '../../mailboxes/mailstore/mailstore.ts';
import { Turns } from '../../platform/net/net.ts';
import {
  decodeRawHeader,
  decodeWords,
  type Envelope,
  fieldValue,
  HeaderReader,
  type MessagePart,
  parseDate,
  readMessageTexts,
} from '../../protocols/message/message.ts';
import { type Return, readSearch, type SearchKey } from './parse-search.ts';
import { type Command, No, type Session } from './session.ts';
import { numberSet } from './write.ts';

type Row = ImapRow<
  'modseq' | 'flags' | 'size' | 'internal_date' | 'body_id' | 'envelope' | 'structure'
>;

/** Rows that are read at once: without texts, and with them, of which one row may have half a megabyte. */
const ROWS_AT_A_TIME = 500;
const WITH_TEXTS = 50;
/** What one search reads of sources, in octets and milliseconds: then it is refused. */
const OCTETS_MAX = 64 * 1024 * 1024;
const TIME_MAX = 10_000;

export const search = searching(false);
export const uidSearch = searching(true);

function searching(isByUid: boolean): Command {
  return {
    states: ['selected'],
    tells: isByUid ? 'everything' : 'no removals',
    async *run(session, command) {
      const { returns, key } = readSearch(command);
      const hasModseq = names(key, 'modseq');
      if (hasModseq) yield session.enableCondstore();
      const view = session.selected;
      const isSaved = returns?.has('SAVE') ?? false;
      // A search that is refused leaves nothing (RFC 5182 section 2.1).
      const before = view.saved;
      if (isSaved) view.saved = [];
      const found = await inTurn(session, key, before);
      if (isSaved) view.saved = saved(found, returns);
      const numbers = found.map(({ uid }) => (isByUid ? uid : view.numberOf(uid)));
      const told = found.filter((_, at) => countsForModseq(at, found.length, returns));
      const modseq = hasModseq ? told.reduce((most, row) => Math.max(most, row.modseq), 0) : 0;
      if (isSaved && returns?.size === 1) yield '';
      else if (returns) yield writeExtended(session, numbers, returns, isByUid, modseq);
      else {
        const more = modseq > 0 ? ` (MODSEQ ${modseq})` : '';
        yield `* SEARCH${numbers.map((number) => ` ${number}`).join('')}${more}\r\n`;
      }
      return 'That is all';
    },
  };
}

/** Searches that read sources, in all and of one account: they take the processor from everybody else. */
const reading = new Turns(2);

function inTurn(session: Session, key: SearchKey, before: readonly number[]): Promise<Row[]> {
  const run = () => new Search(session, key, before).run();
  const readsSources = ['text', 'header', 'sent'] as const;
  if (!readsSources.some((kind) => names(key, kind))) return run();
  const party = { name: `account ${session.user.accountId}`, most: 1 };
  return reading.run([party], run, session.channel.signal);
}

/** The messages that `$` means from now on (RFC 5182 section 2.4). */
function saved(found: readonly Row[], returns: ReadonlySet<Return> | undefined): number[] {
  const isWhole = returns?.has('ALL') || returns?.has('COUNT');
  const onlyEnds = !isWhole && (returns?.has('MIN') || returns?.has('MAX'));
  const some = onlyEnds
    ? found.filter((_, at) => countsForModseq(at, found.length, returns))
    : found;
  return some.map(({ uid }) => uid);
}

/** Where only the first or the last is asked for, the MODSEQ is theirs (RFC 7162 section 3.1.10). */
function countsForModseq(
  at: number,
  count: number,
  returns: ReadonlySet<Return> | undefined,
): boolean {
  if (!returns || returns.has('ALL') || returns.has('COUNT')) return true;
  if (!returns.has('MIN') && !returns.has('MAX')) return true;
  return (returns.has('MIN') && at === 0) || (returns.has('MAX') && at === count - 1);
}

/** ESEARCH (RFC 4731): it names the command that it answers. */
function writeExtended(
  session: Session,
  numbers: readonly number[],
  returns: ReadonlySet<Return>,
  isByUid: boolean,
  modseq: number,
): string {
  const items = [
    ...(isByUid ? ['UID'] : []),
    ...(returns.has('MIN') && numbers.length > 0 ? [`MIN ${numbers[0]}`] : []),
    ...(returns.has('MAX') && numbers.length > 0 ? [`MAX ${numbers.at(-1)}`] : []),
    ...(returns.has('ALL') && numbers.length > 0 ? [`ALL ${numberSet(numbers)}`] : []),
    ...(returns.has('COUNT') ? [`COUNT ${numbers.length}`] : []),
    ...(modseq > 0 ? [`MODSEQ ${modseq}`] : []),
  ];
  return `* ESEARCH (TAG "${session.tag}")${items.map((item) => ` ${item}`).join('')}\r\n`;
}

function names(key: SearchKey, kind: SearchKey['kind']): boolean {
  if (key.kind === kind) return true;
  if (key.kind === 'not') return names(key.key, kind);
  return key.kind === 'and' || key.kind === 'or' ? key.keys.some((one) => names(one, kind)) : false;
}

class Search {
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
    const columns = ['modseq', 'flags', 'size', 'internal_date', 'body_id'] as const;
    const needsTexts = ['envelope', 'sent', 'header', 'text'] as const;
    const withTexts = needsTexts.some((kind) => names(this.#key, kind));
    const found: Row[] = [];
    const size = withTexts ? WITH_TEXTS : ROWS_AT_A_TIME;
    for (let at = 0; at < view.size; at += size) {
      const uids = view.uids.slice(at, at + size);
      // Other connections have their turn.
      await turn();
      const { imap } = services.mailstore;
      const rows: Row[] = withTexts
        ? await imap.rows(view.mailbox, uids, [...columns, 'envelope', 'structure'])
        : (await imap.rows(view.mailbox, uids, columns)).map((row) => ({
            ...row,
            envelope: '',
            structure: '',
          }));
      for (const row of rows)
        if (await this.#matches(this.#key, new Candidate(this, row))) found.push(row);
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
  #envelope: Envelope | undefined;
  #fields: Promise<readonly { name: string; value: string }[]> | undefined;
  #texts: Promise<string> | undefined;

  constructor(search: Search, row: Row) {
    this.#search = search;
    this.row = row;
  }

  hasFlag(flag: string): boolean {
    const wanted = flag.toLowerCase();
    return this.row.flags.split(' ').some((one) => one.toLowerCase() === wanted);
  }

  envelopeText(field: 'from' | 'to' | 'cc' | 'bcc' | 'subject'): string {
    this.#envelope ??= JSON.parse(this.row.envelope) as Envelope;
    if (field === 'subject') return this.#envelope.subject.toLowerCase();
    const people = this.#envelope[field] ?? [];
    return people
      .map(({ name, address }) => `${name} <${address}>`)
      .join(', ')
      .toLowerCase();
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
