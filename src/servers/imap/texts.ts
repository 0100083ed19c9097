/**
 * What is told of a message again and again: its ENVELOPE, its BODYSTRUCTURE, and the fields that programs search in. Each
 * is made from the source when it is asked for the first time, and kept for the body, so for all its recipients.
 */
import type { ImapRow, ImapTexts } from '../../mailboxes/mailstore/mailstore.ts';
import {
  decodeRawHeader,
  decodeWords,
  fieldValue,
  type HeaderField,
  readReferences,
} from '../../protocols/message/message.ts';
import { writeStructure } from './body-structure.ts';
import { type ReadEntries, readingEntries, writeEnvelope } from './envelope.ts';
import type { EnvelopeField } from './parse-search.ts';
import type { Session } from './session.ts';
import { type Source, sourcesOf } from './source.ts';

/** Characters of the texts of a message that are kept; longer ones are made each time. */
const KEPT_MAX = 64 * 1024;
/** Characters of a name or an address by which messages are put in order. */
const SHOWN_MAX = 128;
/** Characters of one field in which a search looks. */
const FIELD_MAX = 8_000;

/** What `search` of a body has, as JSON. */
export interface SearchTexts extends Readonly<Record<EnvelopeField, string>> {
  /** Ids of earlier messages without angle brackets; the last one is of the message that it answers. */
  readonly references: readonly string[];
  readonly first: Readonly<Record<'from' | 'to' | 'cc', FirstAddress>>;
}

/** Of a field, by which messages are put in order; `''` where it has none. */
export interface FirstAddress {
  /** Its mailbox (RFC 5256 section 3). */
  readonly mailbox: string;
  /** What programs show of it (RFC 5957 section 3). */
  readonly shown: string;
}

/** @param text as it is kept */
export function readSearchTexts(text: string): SearchTexts {
  return JSON.parse(text) as SearchTexts;
}

/**
 * A field of it without parsing all of that: a quote within a text has a backslash.
 *
 * @returns undefined where its text has one, so that it stands there in another form
 */
export function plainField(text: string, field: EnvelopeField): string | undefined {
  const label = `"${field}":"`;
  const start = text.indexOf(label) + label.length;
  const end = text.indexOf('","', start);
  if (start < label.length || end < 0) return undefined;
  const found = text.slice(start, end);
  return found.includes('\\') ? undefined : found;
}

/**
 * Some kinds of texts of messages, by the ids of their bodies.
 *
 * @param rows of the selected mailbox; a message without a source is left out
 */
export async function textsOf<Kind extends keyof ImapTexts>(
  session: Session,
  kinds: readonly Kind[],
  rows: readonly ImapRow<'body_id'>[],
): Promise<ReadonlyMap<number, Pick<ImapTexts, Kind>>> {
  if (rows.length === 0) return new Map();
  const { imap } = session.services.mailstore;
  const texts = await imap.texts(kinds, [...new Set(rows.map(({ body_id }) => body_id))]);
  const kept = new Map<number, ImapTexts>();
  const missing = rows.filter(({ body_id }) => !texts.has(body_id));
  for await (const [id, source] of sourcesOf(session, missing)) {
    const made = await makeTexts(source);
    texts.set(id, made);
    const { envelope, structure, search } = made;
    if (envelope.length + structure.length + search.length <= KEPT_MAX) kept.set(id, made);
  }
  // Where the database cannot write now, they are made again.
  if (kept.size > 0) await imap.keepTexts(kept).catch(() => {});
  return texts;
}

async function makeTexts(source: Source): Promise<ImapTexts> {
  const fields = await source.fields();
  const entriesOf = readingEntries();
  const read = (start: number, end: number) => source.read(start, end);
  return {
    envelope: writeEnvelope(fields, entriesOf),
    structure: await writeStructure(source.root, read, true),
    search: JSON.stringify(searchTexts(fields, entriesOf)),
  };
}

function searchTexts(fields: readonly HeaderField[], entriesOf: ReadEntries): SearchTexts {
  const text = (name: string) =>
    searchText(
      fields.filter((field) => field.name === name),
      name === 'subject' ? () => [] : entriesOf,
    );
  const first = (name: string) => {
    const field = fields.find((one) => one.name === name);
    return firstAddress(field ? entriesOf(field) : []);
  };
  const named = readReferences(fields.filter(({ name }) => name === 'references'));
  return {
    ...{ from: text('from'), to: text('to'), cc: text('cc'), bcc: text('bcc') },
    subject: text('subject'),
    // Of In-Reply-To, which may name others too, the first one counts (RFC 5256 section 4).
    references: named.length > 0 ? named : readReferences(fields).slice(0, 1),
    first: { from: first('from'), to: first('to'), cc: first('cc') },
  };
}

function firstAddress([entry]: ReturnType<ReadEntries>): FirstAddress {
  if (!entry || entry.kind === 'group end') return { mailbox: '', shown: '' };
  const title = decodeWords(entry.name).trim().slice(0, SHOWN_MAX);
  // A group has a name, and no address.
  if (entry.kind === 'group') return { mailbox: title, shown: title };
  const mailbox = entry.local.slice(0, SHOWN_MAX);
  const address = entry.domain === '' ? mailbox : `${mailbox}@${entry.domain}`;
  return { mailbox, shown: title || address.slice(0, SHOWN_MAX) };
}

function searchText(found: readonly HeaderField[], entriesOf: ReadEntries): string {
  const texts = found.map((field) => decodeWords(decodeRawHeader(fieldValue(field))));
  // Addresses also without the comments and spaces that may stand in them.
  const addresses = found
    .flatMap((field) => entriesOf(field))
    .flatMap((entry) => (entry.kind === 'mailbox' ? [`<${entry.local}@${entry.domain}>`] : []))
    .filter((address) => !texts.some((text) => text.includes(address)));
  return [...texts, ...addresses].join('\n').toLowerCase().slice(0, FIELD_MAX);
}
