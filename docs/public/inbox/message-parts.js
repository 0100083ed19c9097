/**
 * Which parts of a message to show, and which to offer as downloads; and how to write text from strangers. Nothing
 * here touches the page.
 */

/** @typedef {import('./sync-client.js').BodyStructure} BodyStructure */

/**
 * @typedef {object} Body what is kept of a message that was opened
 * @property {string | undefined} html
 * @property {string | undefined} text
 * @property {Record<string, string>} images `data:` URLs of pictures inside the HTML, by Content-ID
 * @property {boolean} isCut whether only the beginning is there
 * @property {import('./sender-badge.js').Auth | undefined} auth what the checks of its sender found
 */

/**
 * @typedef {object} ReadableParts
 * @property {BodyStructure | undefined} html
 * @property {BodyStructure | undefined} text
 * @property {BodyStructure[]} images that the HTML shows by their Content-ID
 * @property {BodyStructure[]} attachments
 */

// #region read-parts
/**
 * Sorts the parts of a message by what a reader does with them.
 *
 * @param {BodyStructure} structure
 * @returns {ReadableParts}
 */
export function sortParts(structure) {
  /** @type {ReadableParts} */
  const parts = { html: undefined, text: undefined, images: [], attachments: [] };
  /** @type {(part: BodyStructure, isRelated: boolean) => void} */
  const visit = (part, isRelated) => {
    const { type, disposition, childNodes } = part;
    if (type.startsWith('multipart/')) {
      for (const child of childNodes ?? []) visit(child, type === 'multipart/related');
      return;
    }
    // A message inside the message is downloaded as a whole: its parts are not this message's.
    const isShown = disposition !== 'attachment' && nameOf(part) === '';
    if (isShown && type === 'text/html' && !parts.html) parts.html = part;
    else if (isShown && type === 'text/plain' && !parts.text) parts.text = part;
    else if (isRelated && part.id && isPicture(type)) parts.images.push(part);
    else parts.attachments.push(part);
  };
  visit(structure, false);
  return parts;
}
// #endregion read-parts

/** @param {string} type */
function isPicture(type) {
  // Never SVG, which is a document.
  return /^image\/(png|jpeg|gif|webp|avif|bmp)$/.test(type);
}

/**
 * The file name that the sender gave, or an empty text.
 *
 * @param {BodyStructure} part
 */
export function nameOf(part) {
  return part.dispositionParameters?.filename ?? part.parameters?.name ?? '';
}

/**
 * A name to save a part by; a name from a stranger must not lead into folders or hide its ending.
 *
 * @param {BodyStructure} part
 */
export function fileNameOf(part) {
  const given = nameOf(part)
    .replace(/[/\\\p{Cc}\p{Bidi_Control}]/gu, '')
    .trim();
  if (given !== '' && !/^\.+$/.test(given)) return given.slice(0, 200);
  return part.type === 'message/rfc822' ? 'message.eml' : `part-${part.part ?? '1'}`;
}

/**
 * About how many bytes a part has once its transfer encoding is removed.
 *
 * @param {BodyStructure} part
 */
export function decodedSizeOf({ size = 0, encoding }) {
  // Base64 with its line ends: 57 bytes become 78.
  return encoding === 'base64' ? Math.round((size * 57) / 78) : size;
}

/** @param {number} bytes */
export function formatSize(bytes) {
  if (bytes < 1000) return `${bytes} bytes`;
  if (bytes < 999_500) return `${Math.round(bytes / 1000)} kB`;
  return `${(bytes / 1_000_000).toFixed(1)} MB`;
}

/**
 * Bytes of a header as text. A charset that is missing, unknown or wrong must not hide the mail.
 *
 * @param {ArrayBuffer} bytes
 * @param {string | undefined} charset
 * @param {boolean} [isCut] whether it ends anywhere, maybe within a character
 */
export function decodeText(bytes, charset, isCut = false) {
  const options = { stream: isCut };
  try {
    return new TextDecoder(charset ?? 'utf-8', { fatal: true }).decode(bytes, options);
  } catch {
    // Every byte is a character in windows-1252, which senders without a charset often use.
    const text = new TextDecoder('utf-8').decode(bytes, options);
    return text.includes('\ufffd') ? new TextDecoder('windows-1252').decode(bytes) : text;
  }
}

/**
 * Text from a stranger for one line, without the characters that reverse the order of others (a name must not make its
 * address read backwards) and without invisible ones.
 *
 * @param {string} text
 */
export function straighten(text) {
  return text.replace(/[\u00ad\u200b\u202a-\u202e\u2060\u2066-\u2069\ufeff]/g, '');
}

/**
 * The names of people, or the addresses of those who have none.
 *
 * @param {import('./sync-client.js').Address[] | undefined} addresses
 */
export function formatAddresses(addresses = []) {
  return addresses
    .map(({ name, address }) => straighten(name || address || ''))
    .filter((text) => text !== '');
}
