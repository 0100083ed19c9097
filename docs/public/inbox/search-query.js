/**
 * The text of the search field as the body of POST /mail/search: words anywhere, and
 * `from:bob`, `to:`, `subject:"spring release"`, `body:`, `in:Archive`, `is:unread`, `is:starred`,
 * `has:attachment`, `since:2026-01-31`, `before:`, `larger:100000`, `smaller:`.
 */

const TERM = /(?:([a-z]+):)?(?:"([^"]*)"|(\S+))/gi;
const TEXTS = ['from', 'to', 'subject', 'body'];
const TIMES = ['since', 'before'];
const SIZES = ['larger', 'smaller'];

/**
 * @param {string} query
 * @returns {Record<string, unknown>}
 */
export function readQuery(query) {
  /** @type {Record<string, unknown>} */
  const body = {};
  /** @type {(field: string, word: string) => void} */
  const add = (field, word) => {
    body[field] = body[field] === undefined ? word : `${body[field]} ${word}`;
  };
  for (const [whole, given = '', quoted, plain = ''] of query.matchAll(TERM)) {
    const field = given.toLowerCase();
    const value = quoted ?? plain;
    if (TEXTS.includes(field)) add(field, value);
    else if (TIMES.includes(field)) body[field] = value;
    else if (SIZES.includes(field) && /^\d{1,10}$/.test(value)) body[field] = Number(value);
    else if (field === 'in') body.mailbox = value.toLowerCase() === 'inbox' ? 'INBOX' : value;
    else if (field === 'is' && value === 'unread') body.notFlags = ['\\Seen'];
    else if (field === 'is' && value === 'starred') body.flags = ['\\Flagged'];
    else if (field === 'has' && value === 'attachment') body.hasAttachment = true;
    else add('text', field === '' ? value : whole);
  }
  return body;
}
