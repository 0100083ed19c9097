/** Messages as they are written (RFC 5322, MIME): in ASCII, each line short. */
import type { Address } from '../api-types.ts';
import { BINARY, toBase64 } from '../mail/compose.ts';

/** A file of a message, with its bytes. */
export interface WrittenFile {
  readonly filename?: string | undefined;
  readonly contentType?: string | undefined;
  readonly contentId?: string | undefined;
  readonly inline?: boolean | undefined;
  readonly bytes: Uint8Array;
}

/** What follows the header. */
export interface MessageBody {
  readonly text?: string | undefined;
  readonly html?: string | undefined;
  readonly files: readonly WrittenFile[];
  /** Stands between its parts: nothing of them may look like it. */
  readonly boundary: string;
}

/** @param fields of the header, each without its line end */
export function writeMessage(
  fields: readonly string[],
  { text, html, files, boundary }: MessageBody,
): string {
  const bodies = [
    ...(html === undefined || text !== undefined ? [textPart('plain', text ?? '')] : []),
    ...(html === undefined ? [] : [textPart('html', html)]),
  ];
  const body =
    bodies.length === 1 ? bodies.flat() : multipart('alternative', `${boundary}a`, bodies);
  const whole =
    files.length === 0 ? body : multipart('mixed', `${boundary}m`, [body, ...files.map(filePart)]);
  return [...fields, 'MIME-Version: 1.0', ...whole, ''].join('\r\n');
}

function multipart(
  kind: string,
  boundary: string,
  parts: readonly (readonly string[])[],
): string[] {
  const inside = parts.flatMap((part) => [`--=_${boundary}`, ...part]);
  return [
    `Content-Type: multipart/${kind}; boundary="=_${boundary}"`,
    '',
    ...inside,
    `--=_${boundary}--`,
  ];
}

function textPart(kind: string, text: string): string[] {
  const bytes = new TextEncoder().encode(text.replace(/\r?\n/g, '\r\n'));
  return [`Content-Type: text/${kind}; charset=utf-8`, ...inBase64(bytes)];
}

function filePart(file: WrittenFile): string[] {
  const { contentType = '', filename = 'file', contentId, inline, bytes } = file;
  // RFC 2231: a name of any characters.
  const name = encodeURIComponent(filename).replace(/['()*!]/g, escapeByte);
  return [
    `Content-Type: ${/^[\w.+-]+\/[\w.+-]+$/.test(contentType) ? contentType : BINARY}`,
    `Content-Disposition: ${inline ? 'inline' : 'attachment'}; filename*=utf-8''${name}`,
    ...(contentId ? [`Content-ID: <${oneLine(contentId).replace(/[<>\s]/g, '')}>`] : []),
    ...inBase64(bytes),
  ];
}

function inBase64(bytes: Uint8Array): string[] {
  return [
    'Content-Transfer-Encoding: base64',
    '',
    toBase64(bytes).replace(/.{76}(?=.)/g, '$&\r\n'),
  ];
}

/** A field of addresses; none where there are no addresses. */
export function people(name: string, addresses: readonly Address[] = []): string[] {
  const written = addresses.map(({ name: person, address = '' }) =>
    // A comma in a name without quotes would make two names of it.
    person ? `${words(person, /^[\w ]{1,60}$/)} <${oneLine(address)}>` : oneLine(address),
  );
  return written.length === 0 ? [] : [`${name}: ${written.join(',\r\n ')}`];
}

/** Text of a header field, in encoded words (RFC 2047) where it needs them, each at most 75 characters. */
export function words(text: string, plainText: RegExp = /^[\w .,:!'-]{0,60}$/): string {
  const plain = oneLine(text);
  if (plainText.test(plain)) return plain;
  // Ten characters are at most 40 bytes of UTF-8, so no word splits a character.
  const pieces = plain.match(/.{1,10}/gsu) ?? [];
  return pieces
    .map((piece) => `=?utf-8?B?${toBase64(new TextEncoder().encode(piece))}?=`)
    .join('\r\n ');
}

export const oneLine = (text: string): string => text.replace(/\p{Cc}+/gu, ' ').trim();

const escapeByte = (character: string) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`;
