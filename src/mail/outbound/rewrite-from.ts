/**
 * From rewriting: after forwarding, neither SPF nor DKIM may be aligned with the author's domain. A message that DMARC
 * would then refuse at the far end is sent from the forwarding address instead (RFC 7960 section 4.1.3.1 describes it
 * for mailing lists).
 */
import {
  type Authors,
  type HeaderField,
  type Mailbox,
  organizationalDomain,
  rawValue,
} from '../../protocols/message/message.ts';

/** What the sender checks found when the message came in. */
export interface SenderVerdict {
  /**
   * The policy of the DMARC record of the From domain, the strictest where there are several; `none` also where there
   * is no record.
   */
  readonly policy: 'none' | 'quarantine' | 'reject';
  /** Whether SPF or DKIM passed for From's domain; absent where it was not checked or DNS failed. */
  readonly aligned?: boolean;
  /** Whether a DKIM signature aligned with From passed: it stays valid when the message is forwarded. */
  readonly dkimAligned: boolean;
  /** The result of its ARC chain (RFC 8617 section 4.4); absent where it was not checked. */
  readonly arc?: 'none' | 'pass' | 'fail';
}

/** Characters of the author's name that are kept. */
const NAME_MAX = 100;
/** Octets in an encoded word: a line of `From: ` and one has 76 characters (RFC 2047 section 2). */
const WORD_OCTETS = 42;

/**
 * Whether From has to be rewritten.
 *
 * This is also needed where From names the forwarding domain without proof: SPF and DKIM of that domain, which the
 * message gets here, would make any forgery pass.
 */
export function needsRewriting(
  { domains, isWhole }: Authors,
  domain: string,
  { policy, aligned, dkimAligned }: SenderVerdict,
): boolean {
  // Domains are aligned, in the relaxed way, where their organization is the same (RFC 7489 section 3.1.1).
  const ours = organizationalDomain(domain);
  const mayNameUs = !isWhole || domains.some((name) => organizationalDomain(name) === ours);
  if (aligned === false && mayNameUs) return true;
  if (isWhole && domains.length > 0 && domains.every((name) => name === domain)) return false;
  return policy !== 'none' && !dkimAligned;
}

/**
 * Puts the forwarding address in From, with the author's name. Replies go where they would have gone: an existing
 * Reply-To stays, otherwise it becomes the old From. `X-Original-From` always keeps the old From.
 *
 * @param address the address at the forwarding domain
 */
export function rewriteFrom(
  fields: readonly HeaderField[],
  authors: readonly Mailbox[],
  address: string,
  domain: string,
): HeaderField[] {
  const before = fields
    .filter(({ name }) => name === 'from')
    .map(authorsText)
    .filter((text) => text !== '');
  const [first] = authors;
  const author = [...(first?.name || first?.address || 'Unknown sender')];
  const shown = `${author.slice(0, NAME_MAX).join('')} via ${domain}`;
  const bytes = Buffer.from(address).toString('latin1');
  const rewritten = [{ name: 'from', text: `From: ${formatPhrase(shown)}\r\n <${bytes}>` }];
  if (before.length > 0) {
    const original = before.join(',\r\n ');
    rewritten.push({ name: 'x-original-from', text: `X-Original-From: ${original}` });
    if (!fields.some(({ name }) => name === 'reply-to')) {
      rewritten.push({ name: 'reply-to', text: `Reply-To: ${original}` });
    }
  }
  return [...rewritten, ...fields.filter(({ name }) => name !== 'from')];
}

/** The value as it is written, folds included. */
function authorsText(field: HeaderField): string {
  // Lines of only white space are obsolete (RFC 5322 section 4.2), and a fold may leave one here.
  return rawValue(field)
    .trim()
    .replace(/\r\n[ \t]*(?=\r\n|$)/g, '');
}

/** A phrase (RFC 5322 section 3.2.5): a quoted string, or encoded words where it is not ASCII. */
function formatPhrase(text: string): string {
  if (/^[ -~]*$/.test(text)) return `"${text.replace(/["\\]/g, '\\$&')}"`;
  return encodeWords(text);
}

function encodeWords(text: string): string {
  const words: string[] = [''];
  for (const character of text) {
    const last = words.at(-1) ?? '';
    // A character is never split between words (RFC 2047 section 5).
    if (Buffer.byteLength(last + character) > WORD_OCTETS) words.push(character);
    else words[words.length - 1] = last + character;
  }
  return words.map((word) => `=?utf-8?B?${Buffer.from(word).toString('base64')}?=`).join('\r\n ');
}
