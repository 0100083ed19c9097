/** Whom an answer goes to, what its subject is, and what it quotes. */
import type { Correspondent, Envelope } from '../../sdk/src/api-types.ts';
import type { MailMessage } from '../../sdk/src/mail/client.ts';
import { formatAddress, nameOf, straighten } from '../reading/stranger-text.ts';
import { formatFull } from '../ui/format.ts';
import { toCorrespondents } from './addresses.ts';

/**
 * Recipients of an answer. Reply-To comes before From (RFC 5322 section 3.6.2); an answer to mail of one's own goes to
 * its recipients.
 *
 * @param own addresses of the reader: an answer to all does not go to them
 */
export function replyRecipients(envelope: Envelope, own: readonly string[], toAll: boolean) {
  const mine = new Set(own.map((address) => address.toLowerCase()));
  const isOwn = ({ address }: Correspondent) => mine.has(withoutTag(address.toLowerCase()));
  const senders = toCorrespondents(envelope.replyTo?.length ? envelope.replyTo : envelope.from);
  const wasSent = senders.length > 0 && senders.every(isOwn);
  const to = wasSent ? toCorrespondents(envelope.to) : senders;
  if (!toAll) return { to, cc: [] };
  const taken = new Set(to.map(({ address }) => address.toLowerCase()));
  const others = toCorrespondents([...(envelope.to ?? []), ...(envelope.cc ?? [])]);
  const cc = others.filter((one) => !isOwn(one) && !taken.has(one.address.toLowerCase()));
  return { to, cc };
}

/** `ada+list@acme.test` is delivered to `ada@acme.test`. */
function withoutTag(address: string): string {
  return address.replace(/\+[^@]*(?=@)/, '');
}

/** `Re: Plans`, however often it was answered, in whatever language. */
export function replySubject(subject: string): string {
  return prefixed('Re:', /^(?:re|aw|antw|sv|vs|r|rif)(?:\[\d+\])?\s*:\s*/i, subject);
}

export function forwardSubject(subject: string): string {
  return prefixed('Fwd:', /^(?:fwd?|wg|tr|vb|enc|rv)\s*:\s*/i, subject);
}

function prefixed(prefix: string, before: RegExp, subject: string): string {
  let plain = straighten(subject);
  while (before.test(plain)) plain = plain.replace(before, '');
  return `${prefix} ${plain}`.trim();
}

/** What stands above the quoted text. */
export function attribution({ envelope, internalDate }: MailMessage): string {
  return `On ${formatFull(internalDate)}, ${nameOf(envelope.from?.[0] ?? {})} wrote:`;
}

/** What stands above a forwarded text. */
export function forwardHead({ envelope, internalDate }: MailMessage): string {
  const list = (name: string, addresses: Envelope['to']) =>
    addresses?.length ? [`${name}: ${addresses.map(formatAddress).join(', ')}`] : [];
  return [
    '---------- Forwarded message ----------',
    ...list('From', envelope.from),
    `Date: ${formatFull(internalDate)}`,
    `Subject: ${straighten(envelope.subject)}`,
    ...list('To', envelope.to),
    ...list('Cc', envelope.cc),
  ].join('\n');
}

/** Text with the mark of a quote before each line (RFC 3676 section 4.5). A signature is not quoted. */
export function quoteText(text: string): string {
  const signature = /^-- $/m.exec(text);
  return (signature ? text.slice(0, signature.index) : text)
    .replace(/\r\n?/g, '\n')
    .trimEnd()
    .replace(/^/gm, '> ')
    .replace(/^> (?=>)/gm, '>')
    .replace(/^> $/gm, '>');
}

export function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

/** Plain text as HTML that looks the same. */
export function textToHtml(text: string): string {
  const lines = escapeHtml(text).replace(/ {2}/g, ' &nbsp;').split('\n');
  return lines.map((line) => `<div>${line || '<br>'}</div>`).join('');
}
