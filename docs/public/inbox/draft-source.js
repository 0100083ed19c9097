/**
 * A draft as a message (RFC 5322, MIME), for POST /mail/append. The server composes what is sent; this is what other
 * mail programs open as a draft.
 */
import { parseAddresses } from './address-list.js';

/** @typedef {import('./draft.js').Draft} Draft */

/**
 * @param {Draft} draft whose files are all here
 * @param {string} from address of the account
 * @returns {Promise<Blob>}
 */
export async function writeDraftSource(draft, from) {
  const { to, cc, bcc, subject, text, files, answeredId } = draft;
  const boundary = `=_${randomKey()}`;
  const fields = [
    `From: <${from}>`,
    ...addressField('To', to),
    ...addressField('Cc', cc),
    ...addressField('Bcc', bcc),
    `Subject: ${encodeWords(subject)}`,
    `Date: ${new Date().toUTCString().replace('GMT', '+0000')}`,
    ...(answeredId ? [`In-Reply-To: ${oneLine(answeredId)}`] : []),
    'MIME-Version: 1.0',
  ];
  const textPart = [
    'Content-Type: text/plain; charset=utf-8',
    'Content-Transfer-Encoding: base64',
    '',
    inLines(await toBase64(new Blob([text.replace(/\r?\n/g, '\r\n')]))),
  ];
  if (files.length === 0) return toBlob([...fields, ...textPart, '']);
  const parts = await Promise.all(
    files.map(async ({ filename, type, file }) => [
      `--${boundary}`,
      `Content-Type: ${/^[\w.+-]+\/[\w.+-]+$/.test(type) ? type : 'application/octet-stream'}`,
      'Content-Transfer-Encoding: base64',
      // RFC 2231: a name of any characters.
      `Content-Disposition: attachment; filename*=utf-8''${encodeURIComponent(filename).replace(/['()*!]/g, escapeByte)}`,
      '',
      inLines(await toBase64(file ?? new Blob([]))),
    ]),
  );
  return toBlob([
    ...fields,
    `Content-Type: multipart/mixed; boundary="${boundary}"`,
    '',
    `--${boundary}`,
    ...textPart,
    ...parts.flat(),
    `--${boundary}--`,
    '',
  ]);
}

/** @param {string[]} lines */
function toBlob(lines) {
  return new Blob([lines.join('\r\n')], { type: 'message/rfc822' });
}

/** @param {string} name @param {string} addresses */
function addressField(name, addresses) {
  const written = parseAddresses(addresses).map(({ name: person, address }) =>
    // A comma in an unquoted name would make two names of it.
    person ? `${encodeWords(person, /^[\w ]{1,60}$/)} <${oneLine(address)}>` : oneLine(address),
  );
  return written.length === 0 ? [] : [`${name}: ${written.join(',\r\n ')}`];
}

/**
 * Text of a header field in encoded words (RFC 2047), each at most 75 characters.
 *
 * @param {string} text
 * @param {RegExp} plainText what stands for itself
 */
function encodeWords(text, plainText = /^[\w .,:!'-]{0,60}$/) {
  const plain = oneLine(text);
  if (plainText.test(plain)) return plain;
  // Ten characters are at most 40 bytes of UTF-8, so no word splits a character.
  const pieces = plain.match(/.{1,10}/gsu) ?? [];
  return pieces.map((piece) => `=?utf-8?B?${bytesToBase64(piece)}?=`).join('\r\n ');
}

/** @param {string} text */
function oneLine(text) {
  return text.replace(/\p{Cc}+/gu, ' ').trim();
}

/** @param {string} piece */
function bytesToBase64(piece) {
  return btoa(String.fromCharCode(...new TextEncoder().encode(piece)));
}

/** @param {string} character */
function escapeByte(character) {
  return `%${character.charCodeAt(0).toString(16).toUpperCase()}`;
}

/** @param {string} base64 */
function inLines(base64) {
  return base64.replace(/.{76}(?=.)/g, '$&\r\n');
}

/**
 * @param {Blob} bytes
 * @returns {Promise<string>}
 */
export function toBase64(bytes) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result).replace(/^[^,]*,?/, ''));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(bytes);
  });
}

/** A key that cannot be guessed; also on a page that came by plain HTTP, which has no randomUUID. */
export function randomKey() {
  return [...crypto.getRandomValues(new Uint8Array(16))]
    .map((byte) => byte.toString(16).padStart(2, '0'))
    .join('');
}
