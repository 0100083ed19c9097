/**
 * The envelope of a message as its header gives it (the ENVELOPE of RFC 3501 section 7.4.2), which
 * is not the SMTP envelope.
 */
import { MAX_MAILBOXES, type Mailbox, readAddressList } from './address-list.ts';
import { decodeWords } from './encoded-words.ts';
import { firstValue, type HeaderField, rawValue } from './header.ts';
import { parseDate } from './parse-date.ts';
import { cleanText, decodeRawHeader } from './text.ts';

/** Storable as JSON. A field that the header does not have is absent, but for the subject. */
export interface Envelope {
  /** Instant of the Date field, ISO 8601 in UTC; absent where the field cannot be read. */
  readonly date?: string;
  /** `''` where there is none. */
  readonly subject: string;
  readonly from?: readonly Mailbox[];
  readonly sender?: readonly Mailbox[];
  readonly replyTo?: readonly Mailbox[];
  readonly to?: readonly Mailbox[];
  readonly cc?: readonly Mailbox[];
  readonly bcc?: readonly Mailbox[];
  /** As it stands in the field, angle brackets included. */
  readonly inReplyTo?: string;
  /** As it stands in the field, angle brackets included. */
  readonly messageId?: string;
}

const addressFields = [
  ['from', 'from'],
  ['sender', 'sender'],
  ['replyTo', 'reply-to'],
  ['to', 'to'],
  ['cc', 'cc'],
  ['bcc', 'bcc'],
] as const;

const idFields = [
  ['inReplyTo', 'in-reply-to'],
  ['messageId', 'message-id'],
] as const;

/**
 * Reads the fields of a header. Of a field given twice the first counts; the mailboxes of address fields
 * are told together (RFC 5322 section 3.6.3 allows each field once).
 */
export function readEnvelope(fields: readonly HeaderField[]): Envelope {
  const fieldOf = (name: string) => firstValue(fields, name) ?? '';
  const envelope: { -readonly [Field in keyof Envelope]: Envelope[Field] } = {
    subject: cleanText(decodeWords(decodeRawHeader(fieldOf('subject')))),
  };
  const date = parseDate(fieldOf('date'));
  if (date !== undefined) envelope.date = date;
  for (const [key, name] of addressFields) {
    const mailboxes = mailboxesOf(fields, name);
    if (mailboxes.length > 0) envelope[key] = mailboxes;
  }
  for (const [key, name] of idFields) {
    const id = cleanText(decodeRawHeader(fieldOf(name)));
    if (id !== '') envelope[key] = id;
  }
  return envelope;
}

function mailboxesOf(fields: readonly HeaderField[], name: string): Mailbox[] {
  const lists = fields.filter((field) => field.name === name);
  return lists
    .flatMap((field) => readAddressList(rawValue(field)).mailboxes)
    .slice(0, MAX_MAILBOXES);
}
