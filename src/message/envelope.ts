/**
 * The envelope of a message as its header gives it (the ENVELOPE of RFC 3501 section 7.4.2), which
 * is not the SMTP envelope.
 */
import { type Mailbox, readAddressList } from './address-list.ts';
import { decodeWords } from './encoded-words.ts';
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

/** @param fields raw values by lower-case name */
export function readEnvelope(fields: ReadonlyMap<string, string>): Envelope {
  const envelope: { -readonly [Field in keyof Envelope]: Envelope[Field] } = {
    subject: cleanText(decodeWords(decodeRawHeader(fields.get('subject') ?? ''))),
  };
  const date = parseDate(fields.get('date') ?? '');
  if (date !== undefined) envelope.date = date;
  for (const [name, field] of addressFields) {
    const list = fields.get(field);
    if (list === undefined) continue;
    const { mailboxes } = readAddressList(list);
    if (mailboxes.length > 0) envelope[name] = mailboxes;
  }
  for (const [name, field] of idFields) {
    const id = cleanText(decodeRawHeader(fields.get(field) ?? ''));
    if (id !== '') envelope[name] = id;
  }
  return envelope;
}
