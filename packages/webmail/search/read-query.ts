/**
 * The text of the search box as the body of a search: words anywhere, and `from:bob`, `to:`, `subject:"spring
 * release"`, `body:`, `in:Archive`, `is:unread`, `is:read`, `is:starred`, `has:attachment`, `after:2026-01-31`,
 * `before:`, `larger:100000`, `smaller:`. A minus before `is:` and `has:` says the opposite.
 */
import type { SearchMessagesBody } from '../../sdk/src/api-types.ts';

const TERM = /(-?)(?:([a-z]+):)?(?:"([^"]*)"|(\S+))/gi;
/** A day, or a time as RFC 3339 has it. */
const TIME = /^\d{4}-\d\d-\d\d(?:T[\d:.]+(?:Z|[+-]\d\d:\d\d))?$/;

type Reader = (value: string, isNot: boolean) => SearchMessagesBody | undefined;

const text =
  (name: 'from' | 'to' | 'subject' | 'body'): Reader =>
  (value, isNot) =>
    isNot || value === '' ? undefined : { [name]: value };
const time =
  (name: 'since' | 'before'): Reader =>
  (value) =>
    TIME.test(value) && !Number.isNaN(Date.parse(value)) ? { [name]: value } : undefined;
const size =
  (name: 'larger' | 'smaller'): Reader =>
  (value) =>
    /^\d{1,10}$/.test(value) ? { [name]: Number(value) } : undefined;

const flagOf = new Map<string, readonly [flag: string, isSet: boolean]>([
  ['unread', ['\\Seen', false]],
  ['read', ['\\Seen', true]],
  ['starred', ['\\Flagged', true]],
  ['answered', ['\\Answered', true]],
]);

const readers = new Map<string, Reader>(
  Object.entries<Reader>({
    from: text('from'),
    to: text('to'),
    subject: text('subject'),
    body: text('body'),
    after: time('since'),
    since: time('since'),
    before: time('before'),
    larger: size('larger'),
    smaller: size('smaller'),
    in: (value) => ({ mailbox: value.toLowerCase() === 'inbox' ? 'INBOX' : value }),
    is: (value, isNot) => {
      const found = flagOf.get(value.toLowerCase());
      if (!found) return undefined;
      const [flag, isSet] = found;
      return isSet === isNot ? { notFlags: [flag] } : { flags: [flag] };
    },
    has: (value, isNot) => (/^attachments?$/i.test(value) ? { hasAttachment: !isNot } : undefined),
  }),
);

/** A term that no operator understands is looked for as it stands. */
export function readQuery(query: string): SearchMessagesBody {
  const body: SearchMessagesBody = {};
  for (const [whole, minus = '', name = '', quoted, plain = ''] of query.matchAll(TERM)) {
    const read = readers.get(name.toLowerCase())?.(quoted ?? plain, minus === '-');
    merge(body, read ?? { text: name === '' && quoted !== undefined ? quoted : whole });
  }
  return body;
}

function merge(body: SearchMessagesBody, more: SearchMessagesBody): void {
  for (const [name, value] of Object.entries(more)) {
    const before: unknown = body[name as keyof SearchMessagesBody];
    const joined =
      before === undefined
        ? value
        : Array.isArray(value)
          ? [...(before as string[]), ...value]
          : typeof value === 'string' && /^(?:text|from|to|subject|body)$/.test(name)
            ? `${before} ${value}`
            : value;
    Object.assign(body, { [name]: joined });
  }
}
