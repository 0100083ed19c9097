/** Whether anybody is told that a message could not be delivered. */
import { fieldValue, type Header, type HeaderField, parseAddress } from '../message/message.ts';

export interface BounceQuestion {
  /** Envelope sender without angle brackets, `''` for the null sender. */
  readonly sender: string;
  /** SPF's result for the envelope sender when the message came in (RFC 7208 section 2.6). */
  readonly spf: string;
  readonly header: Header;
}

/**
 * Whether a DSN may answer a message. Never to the null sender (RFC 5321 section 6.1, RFC 3464 section
 * 2), which is what keeps two servers from bouncing at each other; nor to who stands in for it
 * against the rules: MAILER-DAEMON, a DSN with a sender, an automatic reply (RFC 3834 section 2).
 * Nor to a sender that SPF says is forged, who would be told of mail that he never wrote.
 *
 * Lists and generated mail (`auto-generated`) are told: their VERP addresses wait for it.
 */
export function mayBounce({ sender, spf, header }: BounceQuestion): boolean {
  const address = parseAddress(sender);
  if (!address || address.local.toLowerCase() === 'mailer-daemon') return false;
  return spf.toLowerCase() !== 'fail' && !header.fields.some(isAutomaticAnswer);
}

function isAutomaticAnswer(field: HeaderField): boolean {
  if (field.name === 'auto-submitted')
    return /^auto-(?:replied|notified)\b/i.test(fieldValue(field));
  // RFC 6522 section 3; a message about a message, whatever kind of report it is.
  return field.name === 'content-type' && /^multipart\/report\b/i.test(fieldValue(field));
}
