/** Finds the messages that a search means: by columns first, and by sources only where nothing else has ruled them out. */
import { type ByteRange, isFact } from '../../mailboxes/mailstore/mailstore.ts';
import { chunks } from '../../platform/database/database.ts';
import { UidSet } from '../../protocols/imap-syntax/imap-syntax.ts';
import { Candidate, OCTETS_MAX, type Row } from './candidate.ts';
import { headersOf } from './header-fields.ts';
import { Pace, tooMuch } from './long-work.ts';
import type { SearchKey } from './parse-search.ts';
import {
  columnsOf,
  costOf,
  hasKey,
  isMadeOf,
  names,
  neededText,
  onlyFlags,
  usesKept,
} from './search-keys.ts';
import type { Session } from './session.ts';
import { columnOf } from './source.ts';
import { textsOf } from './texts.ts';

/** What a search has found. */
export interface Found {
  /** In the order of the answer. */
  readonly uids: readonly number[];
  /** By UID; undefined where none are asked for. */
  readonly modseqs?: ReadonlyMap<number, number> | undefined;
}

/** Messages of which nothing but facts is read at once. */
const FACTS_AT_A_TIME = 4_096;
/** Rows that are read at once: without texts, with kept fields of headers, and with structures of up to half a megabyte. */
const ROWS_AT_A_TIME = 500;
const WITH_HEADERS = 200;
const WITH_TEXTS = 50;

/** Messages after which the time is checked, where their flags are known to match or not. */
const KNOWN_AT_ONCE = 1_024;

export class Search {
  readonly #session: Session;
  readonly #key: SearchKey;
  readonly #sets = new Map<SearchKey, UidSet>();
  readonly #pace: Pace;
  readonly #found: number[] = [];
  readonly #modseqs: Map<number, number> | undefined;
  /** What every message that matches has in its texts. */
  readonly #needed: string;
  #octets = 0;

  /** @param saved what `$` means in the key */
  constructor(session: Session, key: SearchKey, saved: readonly number[]) {
    this.#session = session;
    this.#pace = new Pace(session);
    this.#key = key;
    this.#needed = neededText(key);
    this.#modseqs = names(key, 'modseq') ? new Map() : undefined;
    this.#resolve(key, new Map([['$', UidSet.of(saved)]]));
  }

  /** @param known sets by how they are written: one that is there often is kept once */
  #resolve(key: SearchKey, known: Map<string, UidSet>): void {
    if (key.kind === 'set') {
      const name = key.isUids && key.set !== '$' ? `UID ${key.set}` : key.set;
      const set = known.get(name) ?? this.#session.selected.rangesOf(key.set, key.isUids);
      known.set(name, set);
      this.#sets.set(key, set);
    }
    if (key.kind === 'not') this.#resolve(key.key, known);
    if (key.kind === 'and' || key.kind === 'or') {
      for (const one of key.keys) this.#resolve(one, known);
    }
  }

  /** Messages in the view that match, ascending. Of their rows, which may have texts, nothing else is held. */
  async run(): Promise<Found> {
    if (onlyFlags(this.#key)) await this.#inIndex();
    else await this.#inRows();
    return { uids: this.#found, modseqs: this.#modseqs };
  }

  #add({ uid, modseq }: Row): void {
    this.#found.push(uid);
    this.#modseqs?.set(uid, modseq);
  }

  async #inRows(): Promise<void> {
    const { selected: view, services, user } = this.#session;
    const { imap } = services.mailstore;
    const columns = columnsOf(this.#key);
    const withHeaders = hasKey(this.#key, usesKept);
    const atATime = withHeaders ? WITH_HEADERS : ROWS_AT_A_TIME;
    const isByFacts =
      view.size > atATime && columns.every((one) => isFact(one) || one === 'kept_search');
    const ofRows = columns.includes('structure') ? WITH_TEXTS : atATime;
    const size = isByFacts ? FACTS_AT_A_TIME : ofRows;
    for (let at = 0; at < view.size; at += size) {
      const uids = view.uids.slice(at, at + size);
      await this.#pace.yieldTurn();
      const rows: Row[] = isByFacts
        ? await imap.facts.read(user, view.mailbox, uids)
        : await imap.rows(view.mailbox, uids, columns);
      const withTexts = columns.includes('kept_search');
      const pieces = withTexts || withHeaders ? [...chunks(rows, atATime)] : [rows];
      for (const [index, some] of pieces.entries()) {
        this.#session.progress = { done: at + index * atATime, of: view.size };
        if (index > 0) await this.#pace.yieldTurn();
        await this.#judge(some, withTexts, withHeaders);
      }
    }
  }

  /** Looks at some messages. @param withTexts whether what is kept for searches is needed, which may not be in their rows */
  async #judge(all: readonly Row[], withTexts: boolean, withHeaders: boolean): Promise<void> {
    const texts = withTexts ? await this.#textsOf(all) : undefined;
    const textOf = ({ kept_search, body_id }: Row) => kept_search ?? texts?.get(body_id);
    const needed = this.#needed;
    const rows = needed === '' ? all : all.filter((row) => textOf(row)?.includes(needed));
    // What is read of a message is held only while it is looked at: a text may have a megabyte.
    const candidateOf = (row: Row, kept?: string) => new Candidate(this, row, textOf(row), kept);
    const judged: (readonly [Row, boolean | undefined])[] = [];
    for (const row of rows) {
      if (this.#pace.mustYield) await this.#pace.yieldTurn();
      judged.push([row, this.#matchesRow(this.#key, candidateOf(row))]);
    }
    const open = judged.flatMap(([row, isKnown]) => (isKnown === undefined ? [row] : []));
    const headers = withHeaders ? await headersOf(this.#session, open) : undefined;
    for (const [row, isKnown] of judged) {
      const isMatch = () => this.#matches(this.#key, candidateOf(row, headers?.get(row.body_id)));
      if (isKnown ?? (await isMatch())) this.#add(row);
    }
  }

  /** What is kept of bodies for searches, where it did not come with the rows. */
  async #textsOf(rows: readonly Row[]): Promise<ReadonlyMap<number, string>> {
    const { imap } = this.#session.services.mailstore;
    const unread = rows.filter(({ kept_search }) => kept_search === undefined);
    const ids = unread.map(({ body_id }) => body_id);
    const texts =
      ids.length > 0 ? await imap.searchTexts(ids, this.#needed) : new Map<number, string>();
    const lacking = rows.filter(
      ({ kept_search, body_id }) =>
        kept_search === null || (kept_search === undefined && !texts.has(body_id)),
    );
    const made = await textsOf(this.#session, ['search'], lacking);
    for (const [id, { search }] of made) texts.set(id, search);
    return texts;
  }

  async structure(row: Row): Promise<string | undefined> {
    if (row.structure !== undefined) return row.structure;
    const { selected, services } = this.#session;
    const [read] = await services.mailstore.imap.rows(selected.mailbox, [row.uid], ['structure']);
    return read?.structure;
  }

  /** By flags alone: no row is read. */
  async #inIndex(): Promise<void> {
    const { selected: view, services, user } = this.#session;
    const { uids, modseqs, flags } = await services.mailstore.imap.index(user, view.mailbox);
    // Most messages have one of a few combinations of flags: where these decide, each combination is judged once.
    const known = isMadeOf(this.#key, ['all', 'flag']) ? new Map<string, boolean>() : undefined;
    for (let at = 0; at < uids.length; at++) {
      const row = {
        uid: uids[at] ?? 0,
        body_id: 0,
        modseq: modseqs[at] ?? 0,
        flags: flags[at] ?? '',
      };
      let matches = known?.get(row.flags);
      const isTime = matches === undefined || at % KNOWN_AT_ONCE === 0;
      if (isTime && this.#pace.mustYield) await this.#pace.yieldTurn();
      if (matches === undefined) {
        matches = this.#matchesRow(this.#key, new Candidate(this, row)) ?? false;
        known?.set(row.flags, matches);
      }
      const isSeen = matches && (view.uids[at] === row.uid || view.numberOf(row.uid) > 0);
      if (isSeen) this.#add(row);
    }
  }

  /** Whether a message matches; undefined where its source has to be read to say. */
  #matchesRow(key: SearchKey, message: Candidate): boolean | undefined {
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
        return isWithin(columnOf(row, 'size'), key.from, key.to);
      case 'arrived':
        return isWithin(columnOf(row, 'internal_date'), key.from, key.before - 1);
      case 'saved':
        return isWithin(columnOf(row, 'saved_at'), key.from, key.before - 1);
      case 'emailid':
        return this.#session.services.mailstore.imap.objectIds.email(row.body_id) === key.id;
      case 'threadid':
        return this.#threadId(columnOf(row, 'thread_id')) === key.id;
      case 'modseq':
        return row.modseq >= key.from;
      case 'envelope':
        return message.hasEnvelopeText(key.field, key.text);
      case 'not': {
        const is = this.#matchesRow(key.key, message);
        return is === undefined ? undefined : !is;
      }
      case 'and':
      case 'or': {
        // One key decides: one that does not match, or one that does.
        const decides = key.kind === 'or';
        let isOpen = false;
        for (const one of key.keys) {
          const is = this.#matchesRow(one, message);
          if (is === decides) return decides;
          isOpen ||= is === undefined;
        }
        return isOpen ? undefined : !decides;
      }
      default:
        return undefined;
    }
  }

  async #matches(key: SearchKey, message: Candidate): Promise<boolean> {
    if (this.#pace.mustYield) await this.#pace.yieldTurn();
    const isKnown = this.#matchesRow(key, message);
    if (isKnown !== undefined) return isKnown;
    switch (key.kind) {
      case 'sent':
        return message.wasSent(key.from, key.before);
      case 'header':
        return message.hasHeader(key.name, key.text);
      case 'text':
        return message.hasText(key.text, key.isBody);
      case 'not':
        return !(await this.#matches(key.key, message));
      case 'and':
      case 'or': {
        const decides = key.kind === 'or';
        // The cheap ones first.
        for (const one of key.keys.toSorted((a, b) => costOf(a) - costOf(b))) {
          if ((await this.#matches(one, message)) === decides) return decides;
        }
        return !decides;
      }
      default:
        throw new Error(`a search for ${key.kind} needs no source`);
    }
  }

  #threadId(id: number | null): string | undefined {
    if (id === null) return undefined;
    return this.#session.services.mailstore.imap.objectIds.thread(id);
  }

  /** Octets of a source. @throws No where this search has read too much */
  async read(row: Row, start: number, end: number): Promise<Buffer> {
    const pieces: Uint8Array[] = [];
    for await (const piece of this.open(row, { start, end })) pieces.push(Uint8Array.from(piece));
    return Buffer.concat(pieces);
  }

  /** The same piece by piece; those count that are taken. */
  async *open({ uid, body_id }: Row, range: ByteRange): AsyncGenerator<Uint8Array> {
    const { imap } = this.#session.services.mailstore;
    const body = await imap.body(body_id);
    if (!body) return;
    const { accountId } = this.#session.user;
    const about = { accountId, uid, bodyId: body_id };
    for await (const piece of imap.source(body, range, about)) {
      this.#octets += piece.length;
      if (this.#octets > OCTETS_MAX) throw tooMuch();
      if (this.#pace.mustYield) await this.#pace.yieldTurn();
      yield piece;
    }
  }
}

function isWithin(value: number | null, from: number, to: number): boolean {
  return value !== null && value >= from && value <= to;
}
