/**
 * Address lists of header fields (RFC 5322 section 3.4).
 *
 * nodemailer's parser does the reading: it takes no address out of quoted text or comments, keeps
 * ambiguous local parts quoted, and works in one pass. Lists of nothing but plain mailboxes, which most
 * are, take a tenth of its time without it.
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

/** Longest list that may be plain: trying that costs little beside what the parser does. */
const MAX_PLAIN = 1_000;

const ATOMS = "[\\w!#$%&'*+/=?^{|}~.-]+";
const ADDRESS = `${ATOMS}@[\\w.-]+`;
const QUOTED = '"([ !#-?A-[\\]-~]+)"';

/**
 * A mailbox with nothing in it that could be meant otherwise, up to the next one: `a@b.example`,
 * `<a@b.example>`, `Ann B. Cee <a@b.example>` or `"Cee, Ann" <a@b.example>`. ASCII without escapes, and no
 * `@` but that of the address.
 */
const PLAIN_MAILBOX = new RegExp(
  `(?:(${ADDRESS})|(?:${QUOTED}|(${ATOMS}(?: +${ATOMS})*))?[ \\t]*<(${ADDRESS})>)(?:,[ \\t]*|$)`,
  'y',
);

/** Reads a list of plain mailboxes as nodemailer's parser would; undefined where there are others. */
function readPlainList(list: string): Mailbox[] | undefined {
  if (list.length > MAX_PLAIN) return undefined;
  const mailboxes: Mailbox[] = [];
  PLAIN_MAILBOX.lastIndex = 0;
  while (PLAIN_MAILBOX.lastIndex < list.length) {
    const match = PLAIN_MAILBOX.exec(list);
    if (!match) return undefined;
    const [, bare, quoted = '', name = quoted.trim(), address = bare ?? ''] = match;
    mailboxes.push({ name: cleanText(decodeWords(name)), address });
  }
  return mailboxes;
}

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
  return readPlainList(raw) ?? readList(raw);
}

function readList(raw: string): Mailbox[] {
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
