/** Which messages a message says that it belongs to (RFC 5322 section 3.6.4). */
import { fieldValue, type HeaderField } from './header.ts';
import { decodeRawHeader } from './text.ts';

/** Ids that are read of a message: the first, which began the conversation, and the last ones. */
const IDS_MAX = 50;

/** `msg-id`, leniently: whatever stands between angle brackets, without white space. */
const MESSAGE_ID = /<([^<>\s]{1,998})>/g;

/** The ids in a field, without their angle brackets, each once, in their order. */
export function readMessageIds(field: string): string[] {
  const ids = [...new Set(Array.from(field.matchAll(MESSAGE_ID), ([, id = '']) => id))];
  return ids.length <= IDS_MAX ? ids : [...ids.slice(0, 1), ...ids.slice(1 - IDS_MAX)];
}

/**
 * The ids that References names, the first message of the conversation first and the one that is answered
 * last. Where there is no such field, those of In-Reply-To.
 */
export function readReferences(fields: readonly HeaderField[]): string[] {
  for (const name of ['references', 'in-reply-to']) {
    const field = fields.find((one) => one.name === name);
    const ids = field ? readMessageIds(decodeRawHeader(fieldValue(field))) : [];
    if (ids.length > 0) return ids;
  }
  return [];
}
