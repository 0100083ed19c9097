/** What messages are put in order by (RFC 5256 section 3, RFC 5957), read once and kept in as little memory as it takes. */
import type { ImapRow, MessageFact } from '../../mailboxes/mailstore/mailstore.ts';
import type { Envelope } from '../../protocols/message/message.ts';
import { Pace } from './long-work.ts';
import { No, type Session } from './session.ts';
import { readSearchTexts, type SearchTexts, textsOf } from './texts.ts';

export const SORT_KEYS = [
  ...['ARRIVAL', 'CC', 'DATE', 'FROM', 'SIZE', 'SUBJECT', 'TO'],
  ...['DISPLAYFROM', 'DISPLAYTO'],
] as const;
export type SortKey = (typeof SORT_KEYS)[number];

/** Messages that are put in order at once: their keys are in memory. */
const MESSAGES_MAX = 500_000;
/** Messages whose numbers are read at once, and those whose texts are, of which some may have to be made. */
const NUMBERS_AT_A_TIME = 4_096;
const TEXTS_AT_A_TIME = 200;
/** Characters of a text that count. */
const KEY_MAX = 128;

/** The values of one key, message by message. */
export type Values = Float64Array | string[];

/** Texts of a message; without those that were not asked for. */
interface OrderedTexts {
  readonly uid: number;
  readonly envelope: Partial<Envelope>;
  readonly texts: SearchTexts | undefined;
}

/**
 * Texts of messages, some at a time; those that are gone are left out.
 *
 * @param withAddresses whether more than their subjects is asked for
 * @throws No where it takes too long; the texts that were made by then are kept for the next time
 */
export async function* readTexts(
  session: Session,
  uids: readonly number[],
  withAddresses: boolean,
  pace: Pace,
): AsyncGenerator<OrderedTexts[]> {
  const { imap } = session.services.mailstore;
  const { mailbox } = session.selected;
  const columns = [
    ...(['body_id', 'envelope'] as const),
    ...(withAddresses ? (['kept_search'] as const) : []),
  ];
  for (let at = 0; at < uids.length; at += TEXTS_AT_A_TIME) {
    await pace.yieldTurn();
    const some = uids.slice(at, at + TEXTS_AT_A_TIME);
    const rows: TextRow[] = await imap.rows(mailbox, some, columns);
    const lacking = rows.filter(({ kept_search }) => kept_search === null);
    const made = await textsOf(session, ['search'], lacking);
    yield rows.flatMap(({ uid, body_id, envelope, kept_search }) => {
      const search = kept_search ?? made.get(body_id)?.search;
      if (withAddresses && search === undefined) return [];
      const texts = search === undefined ? undefined : readSearchTexts(search);
      return { uid, envelope: JSON.parse(envelope) as Partial<Envelope>, texts };
    });
  }
}

type TextRow = ImapRow<'body_id' | 'envelope'> & Partial<ImapRow<'kept_search'>>;

const readNumber = {
  ARRIVAL: ({ internal_date }) => internal_date,
  DATE: ({ sent_at }) => sent_at,
  SIZE: ({ size }) => size,
} satisfies Partial<Record<SortKey, (message: MessageFact) => number>>;

type NumberKey = keyof typeof readNumber;
const isNumber = (key: SortKey): key is NumberKey => key in readNumber;

const readText: Readonly<Record<Exclude<SortKey, NumberKey>, (message: OrderedTexts) => string>> = {
  SUBJECT: ({ envelope }) => readBaseSubject(envelope.subject ?? '').text,
  FROM: ({ texts }) => texts?.first.from.mailbox ?? '',
  TO: ({ texts }) => texts?.first.to.mailbox ?? '',
  CC: ({ texts }) => texts?.first.cc.mailbox ?? '',
  DISPLAYFROM: ({ texts }) => texts?.first.from.shown ?? '',
  DISPLAYTO: ({ texts }) => texts?.first.to.shown ?? '',
};

/**
 * The values of each key, in the order of the messages.
 *
 * @param uids ascending
 * @returns with them, which of the messages are there
 * @throws No where they are too many, or it takes too long
 */
export async function readSortKeys(
  session: Session,
  uids: readonly number[],
  keys: readonly SortKey[],
): Promise<{ isThere: Uint8Array; values: Values[] }> {
  refuseTooMany(uids);
  const pace = new Pace(session);
  const isThere = new Uint8Array(uids.length).fill(1);
  const columns = new Map<SortKey, Values>();
  const [numbers, texts] = [keys.filter(isNumber), keys.filter((key) => !isNumber(key))];
  if (numbers.length > 0) {
    const numbersOf = numbers.map(
      (key) => [new Float64Array(uids.length), readNumber[key]] as const,
    );
    for (const [at, key] of numbers.entries()) columns.set(key, numbersOf[at]?.[0] ?? []);
    await place(uids, isThere, readFacts(session, uids, pace), (at, message) => {
      for (const [column, read] of numbersOf) column[at] = read(message);
    });
  }
  if (texts.length > 0) {
    const textsOfKeys = texts.map((key) => [uids.map(() => ''), readText[key]] as const);
    for (const [at, key] of texts.entries()) columns.set(key, textsOfKeys[at]?.[0] ?? []);
    const withAddresses = texts.some((key) => key !== 'SUBJECT');
    await place(uids, isThere, readTexts(session, uids, withAddresses, pace), (at, message) => {
      for (const [column, read] of textsOfKeys) column[at] = textKey(read(message));
    });
  }
  return { isThere, values: keys.map((key) => columns.get(key) ?? []) };
}

async function* readFacts(
  session: Session,
  uids: readonly number[],
  pace: Pace,
): AsyncGenerator<MessageFact[]> {
  const { services, user, selected } = session;
  for (let at = 0; at < uids.length; at += NUMBERS_AT_A_TIME) {
    await pace.yieldTurn();
    const some = uids.slice(at, at + NUMBERS_AT_A_TIME);
    yield await services.mailstore.imap.facts.read(user, selected.mailbox, some);
  }
}

/** Takes what was read of messages, each at its place; those of which nothing was read are not there. */
async function place<Message extends { readonly uid: number }>(
  uids: readonly number[],
  isThere: Uint8Array,
  pieces: AsyncIterable<readonly Message[]>,
  take: (at: number, message: Message) => void,
): Promise<void> {
  let at = 0;
  for await (const messages of pieces) {
    for (const message of messages) {
      for (; uids[at] !== message.uid; at++) isThere[at] = 0;
      take(at++, message);
    }
  }
  isThere.fill(0, at);
}

/** @throws No where they would take too much memory */
export function refuseTooMany(uids: readonly number[]): void {
  if (uids.length <= MESSAGES_MAX) return;
  throw new No('LIMIT', `At most ${MESSAGES_MAX} messages are put in order`);
}

/**
 * Without regard to case, as `i;unicode-casemap` (RFC 5051) compares. It is copied: V8 keeps a long text whole in memory for
 * each piece that was cut from it.
 */
export function textKey(text: string): string {
  const key = text.slice(0, KEY_MAX).normalize('NFKD').toUpperCase().slice(0, KEY_MAX);
  return Buffer.from(key, 'utf16le').toString('utf16le');
}

/** The base subject (RFC 5256 section 2.1): what is left without `Re:`, `[Fwd: ...]`, `(fwd)` and names of lists. */
export interface BaseSubject {
  readonly text: string;
  /** Whether something was left out that only answers and forwarded messages have. */
  readonly isReply: boolean;
}

/** Characters that are read: the patterns below must not take long over what a stranger wrote. */
const LENGTH_MAX = 256;
/** `subj-trailer`. */
const TRAILER = /(?:\(fwd\)|\s)$/i;
/** `subj-blob`s and a `subj-refwd`; then blobs alone. */
const LEADER = /^\s*(?:\[[^[\]]*\]\s*)*(?:re|fwd?)\s*(?:\[[^[\]]*\]\s*)?:\s*/i;
const BLOB = /^\[[^[\]]*\]\s*/;
/** `subj-fwd`. */
const FORWARDED = /^\[fwd:(.*)\]$/i;

/** @param subject decoded and unfolded */
export function readBaseSubject(subject: string): BaseSubject {
  let text = subject.slice(0, LENGTH_MAX).replace(/\s+/g, ' ').trimStart();
  let isReply = false;
  for (;;) {
    // Steps 2 to 5.
    for (let before = ''; before !== text; ) {
      before = text;
      const withoutTrailer = text.replace(TRAILER, '');
      isReply ||= text.endsWith(')') && withoutTrailer !== text;
      const withoutLeader = withoutTrailer.replace(LEADER, '');
      isReply ||= withoutLeader !== withoutTrailer;
      text = withoutLeader.trimStart();
      const rest = text.replace(BLOB, '');
      if (rest !== '') text = rest;
    }
    // Step 6.
    const forwarded = FORWARDED.exec(text);
    if (!forwarded) return { text, isReply };
    text = (forwarded[1] ?? '').trimStart();
    isReply = true;
  }
}
