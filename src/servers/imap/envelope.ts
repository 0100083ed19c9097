/** ENVELOPE (RFC 9051 section 7.5.2) of a header: dates, words and addresses as they were written. */
import {
  type AddressEntry,
  type Allowance,
  fieldValue,
  type HeaderField,
  MAX_MAILBOXES,
  rawValue,
  readAddressEntries,
} from '../../protocols/message/message.ts';
import { string, utf8String } from './write.ts';

export type ReadEntries = (field: HeaderField) => readonly AddressEntry[];

/** The addresses of fields, each read once, and of all fields of a name as many as of one. */
export function readingEntries(): ReadEntries {
  const known = new Map<HeaderField, readonly AddressEntry[]>();
  const allowances = new Map<string, Allowance>();
  return (field) => {
    const allowance = allowances.get(field.name) ?? { mailboxes: MAX_MAILBOXES };
    allowances.set(field.name, allowance);
    const entries = known.get(field) ?? readAddressEntries(rawValue(field), allowance);
    known.set(field, entries);
    return entries;
  };
}

/** @param fields of the header, in its order */
export function writeEnvelope(
  fields: readonly HeaderField[],
  entriesOf: ReadEntries = readingEntries(),
): string {
  const text = (name: string) => {
    const field = fields.find((one) => one.name === name);
    // One that is empty is not missing.
    return field ? string(fieldValue(field)) : 'NIL';
  };
  const addresses = (name: string) => {
    const entries = fields
      .filter((field) => field.name === name)
      .flatMap((field) => entriesOf(field));
    return entries.length === 0 ? undefined : `(${entries.map(writeEntry).join('')})`;
  };
  const from = addresses('from') ?? 'NIL';
  // Where these are missing or empty, the author is meant.
  const sender = addresses('sender') ?? from;
  const replyTo = addresses('reply-to') ?? from;
  const [to, cc, bcc] = ['to', 'cc', 'bcc'].map((name) => addresses(name) ?? 'NIL');
  const people = [from, sender, replyTo, to, cc, bcc].join(' ');
  return `(${text('date')} ${text('subject')} ${people} ${text('in-reply-to')} ${text('message-id')})`;
}

function writeEntry(entry: AddressEntry): string {
  if (entry.kind === 'group end') return '(NIL NIL NIL NIL)';
  const text = (part: string) => (part === '' ? 'NIL' : utf8String(part));
  // With NIL in place of an empty name it would be the end of a group.
  if (entry.kind === 'group') return `(NIL NIL ${utf8String(entry.name)} NIL)`;
  const { name, route, local, domain } = entry;
  // A mailbox without a host would look like the begin of a group.
  const host = domain === '' ? '"MISSING_DOMAIN"' : text(domain);
  const mailbox = local === '' ? '"MISSING_MAILBOX"' : text(local);
  return `(${text(name)} ${text(route)} ${mailbox} ${host})`;
}
