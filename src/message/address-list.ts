/**
 * Address lists of header fields (RFC 5322 section 3.4).
 *
 * nodemailer's parser does the reading: it takes no address out of quoted text or comments, keeps
 * ambiguous local parts quoted, and works in one pass.
 */
import addressparser from 'nodemailer/lib/addressparser';
import { decodeWords } from './encoded-words.ts';
import { capValue } from './header-fields.ts';
import { cleanText, decodeRawHeader } from './text.ts';

/** A mailbox of a header field. Either is `''` where the field does not give it. */
export interface Mailbox {
  readonly name: string;
  readonly address: string;
}

/** Mailboxes that are kept of one field. */
const MAX_MAILBOXES = 1_000;

/** Separators after which a field is cut: names in quotes have commas of their own. */
const MAX_SEPARATORS = 4 * MAX_MAILBOXES;

/** Cuts a list that is far too long before any time is spent on its entries. */
function cut(list: string): string {
  let separators = 0;
  const text = capValue(list);
  for (let at = 0; at < text.length; at++) {
    const character = text.charCodeAt(at);
    const separates = character === 0x2c || character === 0x3a || character === 0x3b;
    if (separates && ++separators === MAX_SEPARATORS) return text.slice(0, at);
  }
  return text;
}

/**
 * Reads an address list; groups are flattened, so `undisclosed-recipients:;` is empty.
 *
 * Encoded words are decoded in names only, and after the list is split: what they hold is never
 * syntax (RFC 2047 section 5).
 *
 * @param raw unfolded field value, one character per byte
 */
export function parseAddressList(raw: string): Mailbox[] {
  const mailboxes: Mailbox[] = [];
  for (const entry of addressparser(decodeRawHeader(cut(raw)), { flatten: true })) {
    const name = cleanText(decodeWords(entry.name));
    const address = cleanText(entry.address);
    if (name === '' && address === '') continue;
    mailboxes.push({ name, address });
    if (mailboxes.length === MAX_MAILBOXES) break;
  }
  return mailboxes;
}
