/** What messages are put in order by (RFC 5256 section 3, RFC 5957), read once and kept in as little memory as it takes. */
import type { ImapRow } from '../../mailboxes/mailstore/mailstore.ts';
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
const ROWS_AT_A_TIME = 500;
/** With the texts of each, of which some may have to be made. */
const WITH_TEXTS = 200;
/** Characters of a text that count. */
const KEY_MAX = 128;

/** The values of one key, message by message. */
export type Values = Float64Array | string[];

type OrderedRow = ImapRow<'size' | 'internal_date'>;

/** A message to put in order; without what was not asked for. */
export interface Ordered {
  readonly row: OrderedRow;
  readonly envelope: Partial<Envelope>;
  readonly texts: SearchTexts | undefined;
}

/**
 * Messages, some at a time; those that are gone are left out.
 *
 * @throws No where they are too many, or take too long; the texts that were made by then are kept for the next time
 */
export async function* readInPieces(
  session: Session,
  uids: readonly number[],
  { withEnvelopes, needsTexts }: { withEnvelopes: boolean; needsTexts: boolean },
): AsyncGenerator<Ordered[]> {
  if (uids.length > MESSAGES_MAX) {
    throw new No('LIMIT', `At most ${MESSAGES_MAX} messages are put in order`);
  }
  const { imap } = session.services.mailstore;
  const { mailbox } = session.selected;
  const atATime = needsTexts ? WITH_TEXTS : ROWS_AT_A_TIME;
  const columns = [
    ...(['size', 'internal_date', 'body_id'] as const),
    ...(withEnvelopes ? (['envelope'] as const) : []),
    ...(needsTexts ? (['kept_search'] as const) : []),
  ];
  const pace = new Pace(session);
  for (let at = 0; at < uids.length; at += atATime) {
    await pace.yieldTurn();
    const rows: Read[] = await imap.rows(mailbox, uids.slice(at, at + atATime), columns);
    const lacking = rows.filter(({ kept_search }) => kept_search === null);
    const made = await textsOf(session, ['search'], lacking);
    yield rows.flatMap((row) => {
      const search = row.kept_search ?? made.get(row.body_id)?.search;
      if (needsTexts && search === undefined) return [];
      const envelope = JSON.parse(row.envelope ?? '{}') as Partial<Envelope>;
      return { row, envelope, texts: search === undefined ? undefined : readSearchTexts(search) };
    });
  }
}

type Read = OrderedRow & ImapRow<'body_id'> & Partial<ImapRow<'envelope' | 'kept_search'>>;

const readValue: Readonly<Record<SortKey, (message: Ordered) => string | number>> = {
  ARRIVAL: ({ row }) => row.internal_date,
  DATE: ({ row, envelope }) => sentAt(envelope, row),
  SIZE: ({ row }) => row.size,
  SUBJECT: ({ envelope }) => textKey(readBaseSubject(envelope.subject ?? '').text),
  FROM: ({ texts }) => textKey(texts?.first.from.mailbox ?? ''),
  TO: ({ texts }) => textKey(texts?.first.to.mailbox ?? ''),
  CC: ({ texts }) => textKey(texts?.first.cc.mailbox ?? ''),
  DISPLAYFROM: ({ texts }) => textKey(texts?.first.from.shown ?? ''),
  DISPLAYTO: ({ texts }) => textKey(texts?.first.to.shown ?? ''),
};

/** @returns the messages that are there, and the values of each key in the same order */
export async function readSortKeys(
  session: Session,
  uids: readonly number[],
  keys: readonly SortKey[],
): Promise<{ uids: number[]; values: Values[] }> {
  const isNumber = (key: SortKey) => ['ARRIVAL', 'DATE', 'SIZE'].includes(key);
  const needsTexts = keys.some((key) => !isNumber(key) && key !== 'SUBJECT');
  const values: Values[] = keys.map((key) => (isNumber(key) ? new Float64Array(uids.length) : []));
  const there: number[] = [];
  const pieces = readInPieces(session, uids, {
    withEnvelopes: keys.includes('DATE') || keys.includes('SUBJECT'),
    needsTexts,
  });
  for await (const messages of pieces) {
    for (const message of messages) {
      for (const [index, key] of keys.entries()) {
        const column = values[index];
        if (column) column[there.length] = readValue[key](message);
      }
      there.push(message.row.uid);
    }
  }
  return { uids: there, values };
}

/** RFC 5256 section 2.2: the time of arrival where the Date field cannot be read. */
export function sentAt(
  { date }: Partial<Envelope>,
  { internal_date }: Pick<OrderedRow, 'internal_date'>,
): number {
  return date === undefined ? internal_date : Date.parse(date);
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
