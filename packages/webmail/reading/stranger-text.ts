/** Names, sizes and addresses from strangers, as one line of a page. */
import type { Address } from '../../sdk/src/api-types.ts';

/**
 * Without the characters that reverse the order of others (a name must not make its address read backwards) and
 * without invisible ones.
 */
export function straighten(text: string): string {
  return text.replace(/[\u00ad\u200b-\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]/g, '');
}

/** `Bob <bob@sender.test>`; the address alone where there is no name. */
export function formatAddress({ name, address }: Address): string {
  const shown = straighten(name && address ? `${name} <${address}>` : name || address || '');
  return shown.replace(/\s+/g, ' ').trim();
}

/** The name, or the address of somebody who has none. */
export function formatName({ name, address }: Address): string {
  return straighten(name || address || '').trim() || 'somebody';
}

/** A name to save a file by: a name from a stranger must not lead into folders or hide its ending. */
export function safeFileName(file: {
  filename?: string | undefined;
  contentType: string;
  part: string;
}): string {
  const given = (file.filename ?? '').replace(/[/\\:\p{Cc}\p{Bidi_Control}]/gu, '').trim();
  if (given !== '' && !/^\.+$/.test(given)) return given.slice(-200);
  return file.contentType === 'message/rfc822' ? 'message.eml' : `part-${file.part}`;
}

export function formatSize(bytes: number): string {
  if (bytes < 1000) return `${bytes} bytes`;
  if (bytes < 999_500) return `${Math.round(bytes / 1000)} kB`;
  return `${(bytes / 1_000_000).toFixed(1)} MB`;
}

/** Whether a browser shows it as a picture; never SVG, which is a document. */
export function isPicture(contentType: string): boolean {
  return /^image\/(png|jpeg|gif|webp|avif|bmp)$/.test(contentType);
}
