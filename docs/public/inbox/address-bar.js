/**
 * The address bar says what is on the screen: `#/INBOX` is a mailbox, `#/INBOX/12` a message, `#/INBOX/12?q=invoice`
 * a search result; `/write` at its end means that a message is being written. So the browser's back button works.
 */

/**
 * @typedef {object} Place
 * @property {string} mailbox
 * @property {number | undefined} [uid] of the message that is open
 * @property {string} [query] what is searched for
 * @property {boolean} [isWriting]
 */

/** @returns {Place} */
export function readPlace() {
  const [path = '', query = ''] = location.hash.split('?q=');
  const [, mailbox = '', uid = '', last = uid] = path.split('/');
  return {
    mailbox: decode(mailbox) || 'INBOX',
    ...(/^[1-9]\d{0,9}$/.test(uid) && { uid: Number(uid) }),
    ...(query !== '' && { query: decode(query) }),
    isWriting: last === 'write',
  };
}

/** @param {Place} place */
export function placeUrl({ mailbox, uid, query, isWriting }) {
  const message = uid === undefined ? '' : `/${uid}`;
  const search = query ? `?q=${encodeURIComponent(query)}` : '';
  return `#/${encodeURIComponent(mailbox)}${message}${isWriting ? '/write' : ''}${search}`;
}

/** @param {string} text as an address bar has it, where anybody may write anything */
function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return '';
  }
}
