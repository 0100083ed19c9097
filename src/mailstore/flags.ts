/** IMAP flags (RFC 3501 section 2.3.2): system flags and keywords, compared without case. */
import { invalidField } from '../errors/errors.ts';

const SYSTEM_FLAGS = ['\\Answered', '\\Deleted', '\\Draft', '\\Flagged', '\\Seen'];

/** An atom (RFC 3501 section 9): no controls, space, or any of `(){%*"\]`. */
const KEYWORD = /^[!#$&'+,\-./0-9:;<=>?@A-Z[^_`a-z|}~]{1,64}$/;

/** More keywords than anybody uses; each costs every sync of the message. */
const FLAGS_MAX = 64;

/**
 * Brings flags into the one form in which they are stored: each once, system flags as RFC 3501
 * spells them, sorted.
 *
 * @param field of the request that has them
 * @throws Refusal `invalid_request` for what is not a flag; `\Recent` cannot be set by clients
 */
export function normalizeFlags(flags: readonly string[], field = 'flags'): string[] {
  const byKey = new Map<string, string>();
  for (const flag of flags) {
    const system = SYSTEM_FLAGS.find((known) => known.toLowerCase() === flag.toLowerCase());
    if (!system && !KEYWORD.test(flag)) {
      throw invalidField(
        field,
        'must be system flags (\\Seen ...) or keywords of 1 to 64 characters',
      );
    }
    const name = system ?? flag;
    if (!byKey.has(name.toLowerCase())) byKey.set(name.toLowerCase(), name);
  }
  if (byKey.size > FLAGS_MAX) throw invalidField(field, `must be at most ${FLAGS_MAX}`);
  return [...byKey.values()].sort();
}

/** Flags after a change, in stored form. What is both added and removed is removed. */
export function changeFlags(
  current: readonly string[],
  add: readonly string[],
  remove: readonly string[],
): string[] {
  const removed = new Set(normalizeFlags(remove).map((flag) => flag.toLowerCase()));
  return normalizeFlags([...current, ...add]).filter((flag) => !removed.has(flag.toLowerCase()));
}

export function flagsToText(flags: readonly string[]): string {
  return flags.join(' ');
}

export function flagsFromText(text: string): string[] {
  return text === '' ? [] : text.split(' ');
}
