/** Names, subjects and addresses from strangers, as one line of a page. */
import type { Address, Envelope } from '../../sdk/src/api-types.ts';

/**
 * Without the characters that reverse the order of others (a name must not make its address read backwards) and
 * without invisible ones.
 */
export function straighten(text: string): string {
  const plain = text.replace(/[\u00ad\u200b-\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]/g, '');
  return plain.replace(/\s+/g, ' ').trim();
}

/** Without percent-encoding; as it is where that is wrong. */
export function decodePercents(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** `Bob <bob@sender.test>`; the address alone where there is no name. */
export function formatAddress({ name, address }: Address): string {
  return straighten(name && address ? `${name} <${address}>` : name || address || '');
}

/** The name that somebody goes by: their own, or the address. */
export function nameOf({ name = '', address = '' }: Address): string {
  return straighten(name) || straighten(address) || 'somebody';
}

export function namesOf(people: readonly Address[] | undefined): string {
  return (people ?? []).map(nameOf).join(', ') || 'nobody';
}

export function subjectOf({ subject }: Envelope): string {
  return straighten(subject) || '(no subject)';
}

/** Names of what comes without one, by type: the parts of a report on mail that was not delivered (RFC 6522), and others. */
const NAMES = new Map([
  ['message/delivery-status', 'delivery-status.txt'],
  ['message/rfc822', 'message.eml'],
  ['text/calendar', 'invitation.ics'],
  ['text/rfc822-headers', 'header.txt'],
]);

/** A name to save a file by: a name from a stranger must not lead into folders or hide its ending. */
export function safeFileName(file: {
  filename?: string | undefined;
  contentType: string;
  part: string;
}): string {
  const given = straighten((file.filename ?? '').replace(/[/\\:\p{Cc}]/gu, ''));
  if (given !== '' && !/^\.+$/.test(given)) return given.slice(-200);
  return NAMES.get(file.contentType) ?? `part-${file.part}`;
}

/** A Content-ID without the brackets of its header field. */
export function bareId(contentId: string): string {
  return contentId.replace(/^<|>$/g, '');
}

/** Whether a browser shows it as a picture; never SVG, which is a document. */
export function isPicture(contentType: string): boolean {
  return /^image\/(png|jpeg|gif|webp|avif|bmp)$/.test(contentType);
}
