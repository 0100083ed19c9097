/**
 * The message that is being written: new, an answer, forwarded, or a saved draft. Nothing here touches the page or the
 * network.
 */
import { writeAddresses } from './address-list.js';
import { longDate } from './elements.js';
import { flatten } from './mail-document.js';
import { decodedSizeOf, fileNameOf, sortParts, straighten } from './message-parts.js';

/** @typedef {import('./message-parts.js').Body} Body */
/** @typedef {import('./sync-client.js').Address} Address */
/** @typedef {import('./mailbox-view.js').Entry} Entry */
/** @typedef {{ mailbox: string, uid: number }} MessagePlace */

/**
 * @typedef {object} DraftFile
 * @property {string} filename
 * @property {number} size
 * @property {string} type
 * @property {Blob} [file] chosen here
 * @property {MessagePlace & { part: string }} [from] or a part of a message that the server has
 */

/**
 * @typedef {object} Draft
 * @property {string} to addresses as they stand in the field
 * @property {string} cc
 * @property {string} bcc
 * @property {string} subject
 * @property {string} text
 * @property {DraftFile[]} files
 * @property {MessagePlace} [inReplyTo] the message that is answered
 * @property {string} [answeredId] its Message-ID
 * @property {MessagePlace} [kept] where it was saved
 */

/** @returns {Draft} */
export function newDraft() {
  return { to: '', cc: '', bcc: '', subject: '', text: '', files: [] };
}

/**
 * @param {Entry} entry
 * @param {Body} body
 * @param {string} own address of the account
 * @param {boolean} toAll
 * @returns {Draft}
 */
export function answer({ mailbox, message }, body, own, toAll) {
  const { envelope, uid } = message;
  const isOwn = (/** @type {Address} */ { address = '' }) => address.toLowerCase() === own;
  const senders = envelope.replyTo?.length ? envelope.replyTo : (envelope.from ?? []);
  // An answer to mail of one's own goes to its recipients.
  const to = senders.every(isOwn) ? (envelope.to ?? []) : senders;
  const taken = new Set(to.map(({ address = '' }) => address.toLowerCase()));
  const others = [...(envelope.to ?? []), ...(envelope.cc ?? [])].filter(
    (one) => !isOwn(one) && !taken.has(one.address?.toLowerCase() ?? ''),
  );
  const [from] = envelope.from ?? [];
  const told = `On ${longDate(message.internalDate)}, ${straighten(from?.name || from?.address || 'somebody')} wrote:`;
  const quoted = readText(body)
    .trimEnd()
    .replace(/^/gm, '> ')
    .replace(/^> (?=>)/gm, '>');
  return {
    ...newDraft(),
    to: writeAddresses(to),
    cc: toAll ? writeAddresses(others) : '',
    subject: prefixed('Re:', envelope.subject),
    text: `\n\n${told}\n${quoted}\n`,
    inReplyTo: { mailbox, uid },
    ...(envelope.messageId && { answeredId: envelope.messageId }),
  };
}

/**
 * @param {Entry} entry
 * @param {Body} body
 * @returns {Draft}
 */
export function forward({ mailbox, message }, body) {
  const { envelope, uid } = message;
  const head = [
    '---------- Forwarded message ----------',
    `From: ${writeAddresses(envelope.from)}`,
    `Date: ${longDate(message.internalDate)}`,
    `Subject: ${straighten(envelope.subject)}`,
    `To: ${writeAddresses(envelope.to)}`,
  ];
  return {
    ...newDraft(),
    subject: prefixed('Fwd:', envelope.subject),
    text: `\n\n${head.join('\n')}\n\n${readText(body)}`,
    files: filesOf({ mailbox, message }, uid),
  };
}

/**
 * A draft that was kept, to be gone on with.
 *
 * @param {Entry} entry
 * @param {Body} body
 * @returns {Draft}
 */
export function reopen({ mailbox, message }, body) {
  const { envelope, uid } = message;
  return {
    to: writeAddresses(envelope.to),
    cc: writeAddresses(envelope.cc),
    bcc: writeAddresses(envelope.bcc),
    subject: envelope.subject,
    text: readText(body).replace(/\n$/, ''),
    files: filesOf({ mailbox, message }, uid),
    kept: { mailbox, uid },
    ...(envelope.inReplyTo && { answeredId: envelope.inReplyTo }),
  };
}

/**
 * The files of a message, which stay on the server: a part is named, not downloaded and uploaded again.
 *
 * @param {Entry} entry
 * @param {number} uid
 * @returns {DraftFile[]}
 */
function filesOf({ mailbox, message }, uid) {
  return sortParts(message.bodyStructure).attachments.flatMap((part) =>
    part.part === undefined
      ? []
      : [
          {
            filename: fileNameOf(part),
            size: decodedSizeOf(part),
            type: part.type,
            from: { mailbox, uid, part: part.part },
          },
        ],
  );
}

/** @param {string} prefix @param {string} subject */
function prefixed(prefix, subject) {
  const plain = straighten(subject);
  return plain.toLowerCase().startsWith(prefix.toLowerCase()) ? plain : `${prefix} ${plain}`;
}

/** The text of a message; where it has HTML alone, the words of that. @param {Body} body */
function readText({ text, html = '' }) {
  if (text !== undefined) return text.replace(/\r\n?/g, '\n');
  // A document without a window: nothing in it loads or runs.
  const parsed = new DOMParser().parseFromString(flatten(html), 'text/html');
  for (const element of parsed.querySelectorAll('style, script, title, template')) element.remove();
  for (const element of parsed.querySelectorAll('br, p, div, tr, li, h1, h2, h3, blockquote')) {
    element.append('\n');
  }
  return (parsed.body.textContent ?? '').replace(/[^\S\n]+/g, ' ').replace(/ ?\n[\s]*\n/g, '\n\n');
}
