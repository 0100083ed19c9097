/**
 * Fetches what is shown of a message: its text, its pictures, its header fields; and saves attachments, which are not
 * loaded before the user wants them.
 */
import { decodeText, fileNameOf, sortParts } from './message-parts.js';

/** @typedef {import('./message-parts.js').Body} Body */
/** @typedef {import('./session.js').Session} Session */
/** @typedef {import('./sync-client.js').BodyStructure} BodyStructure */

/** Characters. A longer text is cut; the rest can be downloaded. */
const TEXT_MAX = 500_000;
const PICTURES_MAX = 12;
const PICTURE_MAX = 1_000_000;
const HEADERS_MAX = 64_000;

/** @param {string} mailbox @param {number} uid @param {string} part */
function partPath(mailbox, uid, part) {
  return `/mail/attachment?${new URLSearchParams({ uid: String(uid), part, mailbox })}`;
}

// #region read-body
/**
 * @param {Session} session
 * @param {string} mailbox
 * @param {number} uid
 * @param {BodyStructure} structure
 * @param {AbortSignal} signal
 * @returns {Promise<Body>}
 */
export async function readBody(session, mailbox, uid, structure, signal) {
  const query = new URLSearchParams({ mailbox, uid: String(uid) });
  const content = await session.json(`/mail/content?${query}`, { signal });
  const { html, text, htmlTruncated, textTruncated, auth } = content;
  const { images } = sortParts(structure);
  const isLong = [html, text].some((one = '') => one.length > TEXT_MAX);
  return {
    html: html?.slice(0, TEXT_MAX),
    text: text?.slice(0, TEXT_MAX),
    images: html === undefined ? {} : await readPictures(session, mailbox, uid, images, signal),
    isCut: isLong || htmlTruncated === true || textTruncated === true,
    auth,
  };
}
// #endregion read-body

/**
 * @param {Session} session
 * @param {string} mailbox
 * @param {number} uid
 * @param {BodyStructure[]} pictures
 * @param {AbortSignal} signal
 */
async function readPictures(session, mailbox, uid, pictures, signal) {
  /** @type {Record<string, string>} */
  const urls = {};
  for (const { part, id = '', type } of pictures.slice(0, PICTURES_MAX)) {
    if (part === undefined) continue;
    const response = await session.request(partPath(mailbox, uid, part), { signal });
    const { bytes, isCut } = await readUpTo(response, PICTURE_MAX);
    // A frame without an origin cannot read blob: URLs of this page; only data: works.
    if (!isCut) urls[id.replace(/^<|>$/g, '')] = await toDataUrl(bytes, type);
  }
  return urls;
}

/**
 * Reads the beginning of an answer and cancels the rest.
 *
 * @param {Response} response
 * @param {number} most bytes
 * @returns {Promise<{ bytes: ArrayBuffer, isCut: boolean }>}
 */
async function readUpTo(response, most) {
  const reader = response.body?.getReader();
  /** @type {BlobPart[]} */
  const chunks = [];
  let size = 0;
  while (reader && size <= most) {
    const { value, done } = await reader.read();
    if (done) break;
    chunks.push(value);
    size += value.length;
  }
  await reader?.cancel();
  const bytes = await new Blob(chunks).slice(0, most).arrayBuffer();
  return { bytes, isCut: size > most };
}

/**
 * @param {ArrayBuffer} bytes
 * @param {string} type
 * @returns {Promise<string>}
 */
function toDataUrl(bytes, type) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result));
    reader.onerror = () => reject(reader.error);
    reader.readAsDataURL(new Blob([bytes], { type }));
  });
}

/**
 * The header fields, as they stand in the source.
 *
 * @param {Session} session
 * @param {string} mailbox
 * @param {number} uid
 * @param {AbortSignal} signal
 */
export async function readHeaders(session, mailbox, uid, signal) {
  const path = `/mail/message?${new URLSearchParams({ uid: String(uid), mailbox })}`;
  const response = await session.request(path, { accept: 'message/rfc822', signal });
  const { bytes } = await readUpTo(response, HEADERS_MAX);
  // One character for each byte: what follows the header may be of any charset, and cut anywhere.
  const end = new TextDecoder('windows-1252').decode(bytes).search(/\r?\n\r?\n/);
  const header = end < 0 ? bytes : bytes.slice(0, end);
  return decodeText(header, 'utf-8', end < 0).replaceAll('\r\n', '\n');
}

// #region save
/**
 * Saves a part as a file. A plain link would not work: the request needs the Authorization header, and a token does
 * not belong in a URL.
 *
 * @param {Session} session
 * @param {string} mailbox
 * @param {number} uid
 * @param {BodyStructure} part
 */
export async function saveAttachment(session, mailbox, uid, part) {
  const response = await session.request(partPath(mailbox, uid, part.part ?? '1'));
  // The type is application/octet-stream: a browser that opens it directly shows no page of this origin.
  const url = URL.createObjectURL(await response.blob());
  const link = document.createElement('a');
  link.href = url;
  link.download = fileNameOf(part);
  link.click();
  // The browser reads it after this; a minute is enough.
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}
// #endregion save
