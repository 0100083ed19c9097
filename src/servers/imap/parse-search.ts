/** SEARCH (RFC 9051 section 6.4.4, RFC 4731, RFC 7162): text to a tree of criteria. */

import { DAY_MS, type EpochMs } from '../../platform/time/time.ts';
import { readDate } from '../../protocols/imap-syntax/imap-syntax.ts';
import { BadCommand, type Cursor, readUtf8 } from './cursor.ts';
import { type PartialRange, readPartialRange } from './partial.ts';
import { No } from './session.ts';

export type SearchKey =
  | { readonly kind: 'all' | 'recent' }
  | { readonly kind: 'set'; readonly set: string; readonly isUids: boolean }
  | { readonly kind: 'flag'; readonly flag: string; readonly isSet: boolean }
  /** In the decoded subject or names and addresses. */
  | { readonly kind: 'envelope'; readonly field: EnvelopeField; readonly text: string }
  | { readonly kind: 'header'; readonly name: string; readonly text: string }
  /** Anywhere in the message, or only in its body. */
  | { readonly kind: 'text'; readonly text: string; readonly isBody: boolean }
  | { readonly kind: 'size'; readonly from: number; readonly to: number }
  /** Days from the first to the one before the last, as milliseconds since 1970. */
  | { readonly kind: 'arrived' | 'sent' | 'saved'; readonly from: number; readonly before: number }
  | { readonly kind: 'modseq'; readonly from: number }
  /** RFC 8474. */
  | { readonly kind: 'emailid' | 'threadid'; readonly id: string }
  | { readonly kind: 'not'; readonly key: SearchKey }
  | { readonly kind: 'or'; readonly keys: readonly SearchKey[] }
  | { readonly kind: 'and'; readonly keys: readonly SearchKey[] };

export type EnvelopeField = 'from' | 'to' | 'cc' | 'bcc' | 'subject';
export type Return = 'MIN' | 'MAX' | 'ALL' | 'COUNT' | 'SAVE' | 'PARTIAL';

export interface SearchCommand {
  /** Undefined for an answer as in IMAP4rev1. */
  readonly returns: ReadonlySet<Return> | undefined;
  readonly partial: PartialRange | undefined;
  /** What it is answered with in any case. */
  readonly refusal: No | undefined;
  readonly key: SearchKey;
}

const KEYS_MAX = 1_000;
const DEPTH_MAX = 50;
const EVER = Number.MAX_SAFE_INTEGER;

const FLAGS: Readonly<Record<string, string>> = {
  ANSWERED: '\\Answered',
  DELETED: '\\Deleted',
  DRAFT: '\\Draft',
  FLAGGED: '\\Flagged',
  SEEN: '\\Seen',
};

/** @param now by which mail is dated; of this machine where left out */
export function readSearch(command: Cursor, now?: () => EpochMs): SearchCommand {
  const returned = readReturn(command);
  const refusal = command.has(' CHARSET ') ? readCharset(command) : undefined;
  return { ...returned, refusal, key: readKeys(command, now, refusal) };
}

/** `RETURN` with its options, where it is there (RFC 4731, RFC 5267 section 3). */
export function readReturn(command: Cursor): Pick<SearchCommand, 'returns' | 'partial'> {
  if (!command.has(' RETURN ')) return { returns: undefined, partial: undefined };
  let partial: PartialRange | undefined;
  const read = command.list(() => {
    const option = command.atom('an option').toUpperCase();
    if (option === 'PARTIAL') {
      partial = readPartialRange(command.space());
    }
    return option;
  }, true);
  const known = ['MIN', 'MAX', 'ALL', 'COUNT', 'SAVE', 'PARTIAL'] as const;
  const returns = new Set<Return>(known.filter((one) => read.includes(one)));
  if (returns.size < new Set(read).size) throw new BadCommand('The return option is not known');
  if (read.length === 0) returns.add('ALL');
  // RFC 9394 section 3.1.
  if (partial && returns.has('ALL')) throw new BadCommand('Expected either ALL or PARTIAL');
  return { returns, partial };
}

/** @returns what the command is refused with where it is another one than UTF-8 or a part of that */
export function readCharset(command: Cursor): No | undefined {
  const charset = command.astring('a charset').toUpperCase();
  if (charset === 'UTF-8' || charset === 'US-ASCII') return undefined;
  return new No('BADCHARSET (US-ASCII UTF-8)', 'The charset is not known');
}

/** The criteria, which end the command; in a charset that is not known nobody reads them. */
export function readKeys(command: Cursor, now?: () => EpochMs, refusal?: No): SearchKey {
  if (refusal) return { kind: 'all' };
  const reader = new KeyReader(command, now);
  command.expect(' ');
  const key = reader.all();
  command.end();
  return key;
}

class KeyReader {
  readonly #command: Cursor;
  #keys = 0;
  #depth = 0;
  readonly #clock: () => EpochMs;
  #now: EpochMs | undefined;

  constructor(command: Cursor, clock: () => EpochMs = Date.now) {
    this.#command = command;
    this.#clock = clock;
  }

  /** Keys with spaces between them, all of which must hold. */
  all(): SearchKey {
    const keys = [this.#key()];
    const command = this.#command;
    // Some clients leave a space at the end.
    while (!command.sees(')') && command.has(' ') && !command.isAtEnd) keys.push(this.#key());
    return { kind: 'and', keys };
  }

  #key(): SearchKey {
    if (++this.#keys > KEYS_MAX || this.#depth > DEPTH_MAX) {
      throw new BadCommand('The search is too long or too deep');
    }
    const command = this.#command;
    if (command.has('(')) {
      const key = this.#deeper(() => this.all());
      command.expect(')');
      return key;
    }
    if (command.seesDigit() || command.sees('*') || command.sees('$')) {
      return { kind: 'set', set: command.sequenceSet(), isUids: false };
    }
    const name = command.atom('a search key').toUpperCase();
    const key = this.#flagKey(name) ?? this.#textKey(name) ?? this.#dayKey(name);
    return key ?? this.#valueKey(name) ?? unknown();
  }

  #deeper<T>(read: () => T): T {
    this.#depth++;
    const value = read();
    this.#depth--;
    return value;
  }

  #flagKey(name: string): SearchKey | undefined {
    const flag = FLAGS[name.replace(/^UN/, '')];
    if (flag) return { kind: 'flag', flag, isSet: !name.startsWith('UN') };
    if (name === 'ALL') return { kind: 'all' };
    if (name === 'RECENT') return { kind: 'recent' };
    if (name === 'OLD') return { kind: 'not', key: { kind: 'recent' } };
    if (name === 'NEW') {
      const unseen: SearchKey = { kind: 'flag', flag: FLAGS.SEEN ?? '', isSet: false };
      return { kind: 'and', keys: [{ kind: 'recent' }, unseen] };
    }
    if (name !== 'KEYWORD' && name !== 'UNKEYWORD') return undefined;
    return {
      kind: 'flag',
      flag: this.#command.space().atom('a keyword'),
      isSet: name === 'KEYWORD',
    };
  }

  #textKey(name: string): SearchKey | undefined {
    if (['FROM', 'TO', 'CC', 'BCC', 'SUBJECT'].includes(name)) {
      return { kind: 'envelope', field: name.toLowerCase() as EnvelopeField, text: this.#text() };
    }
    if (name === 'BODY' || name === 'TEXT') {
      return { kind: 'text', isBody: name === 'BODY', text: this.#text() };
    }
    if (name !== 'HEADER') return undefined;
    return { kind: 'header', name: this.#text(), text: this.#text() };
  }

  #text(): string {
    return readUtf8(this.#command.space().astring('a text')).toLowerCase();
  }

  #valueKey(name: string): SearchKey | undefined {
    switch (name) {
      case 'LARGER':
        return { kind: 'size', from: this.#number() + 1, to: EVER };
      case 'SMALLER':
        return { kind: 'size', from: 0, to: this.#number() - 1 };
      case 'UID':
        return { kind: 'set', set: this.#command.space().sequenceSet(), isUids: true };
      case 'SAVEDATESUPPORTED':
        return { kind: 'all' };
      // RFC 5032: seconds before now.
      case 'YOUNGER':
        return { kind: 'arrived', from: this.#ago(), before: EVER };
      case 'OLDER':
        return { kind: 'arrived', from: -EVER, before: this.#ago() + 1 };
      case 'EMAILID':
      case 'THREADID':
        return {
          kind: name === 'EMAILID' ? 'emailid' : 'threadid',
          id: this.#command.space().astring('an id'),
        };
      case 'MODSEQ':
        return this.#modseq();
      case 'NOT':
        this.#command.expect(' ');
        return { kind: 'not', key: this.#deeper(() => this.#key()) };
      case 'OR':
        return { kind: 'or', keys: this.#deeper(() => [this.#spaced(), this.#spaced()]) };
      default:
        return undefined;
    }
  }

  #spaced(): SearchKey {
    this.#command.expect(' ');
    return this.#key();
  }

  #number(): number {
    return this.#command.space().number('a number');
  }

  #ago(): number {
    // One instant for all keys: else a message could be neither OLDER nor YOUNGER than the same number of seconds.
    this.#now ??= this.#clock();
    return this.#now - this.#number() * 1_000;
  }

  /** RFC 7162 section 3.1.5: the name of a flag and who set it may come first; both mean nothing here. */
  #modseq(): SearchKey {
    this.#command.expect(' ');
    if (this.#command.sees('"')) {
      this.#command.string('a flag');
      this.#command.space().atom('priv, shared or all');
      this.#command.expect(' ');
    }
    return { kind: 'modseq', from: this.#command.number('a MODSEQ') };
  }

  /** A day, or all from it on, or before it: of the arrival, or `SENT` or `SAVED`. */
  #dayKey(name: string): SearchKey | undefined {
    const [, of = 'ARRIVED', which] = /^(SENT|SAVED)?(ON|SINCE|BEFORE)$/.exec(name) ?? [];
    if (which === undefined) return undefined;
    const kind = of.toLowerCase() as 'arrived' | 'sent' | 'saved';
    const day = this.#day();
    const from = which === 'BEFORE' ? -EVER : day;
    const before = which === 'SINCE' ? EVER : which === 'ON' ? day + DAY_MS : day;
    return { kind, from, before };
  }

  /** The begin of a day in UTC. */
  #day(): number {
    const at = readDate(this.#command.space().astring('a date'));
    if (at === undefined) throw new BadCommand('Expected a date: 1-Feb-1994');
    return at;
  }
}

function unknown(): never {
  throw new BadCommand('The search key is not known');
}
