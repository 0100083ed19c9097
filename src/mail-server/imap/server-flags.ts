/** Flags of an IMAP server in the form in which every store of ours shows them. */
import { type ImapAttribute, textOf } from './wire.ts';

const SYSTEM_FLAGS = new Map(
  ['\\Answered', '\\Deleted', '\\Draft', '\\Flagged', '\\Seen'].map((flag) => [
    flag.toLowerCase(),
    flag,
  ]),
);

/**
 * Each once, system flags as RFC 3501 spells them, sorted. `\Recent` is left out: it belongs to a
 * session (RFC 3501 section 2.3.2), not to the message.
 */
export function readFlags(items: readonly ImapAttribute[]): string[] {
  const byKey = new Map<string, string>();
  for (const item of items) {
    const flag = textOf(item);
    if (!flag || /[\s\x00-\x1f]/.test(flag)) continue;
    const key = flag.toLowerCase();
    if (key !== '\\recent' && !byKey.has(key)) byKey.set(key, SYSTEM_FLAGS.get(key) ?? flag);
  }
  return [...byKey.values()].sort();
}
