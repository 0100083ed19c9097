/** What a check of one DNS record comes to, and how what was seen is shown. */
import { isUtf8 } from 'node:buffer';

/**
 * - `match`: DNS says what it has to, by meaning
 * - `mismatch`: DNS has something else
 * - `absent`: DNS has nothing of the kind
 * - `unknown`: DNS could not be asked, so nothing is known and nothing changes
 */
export type Verdict =
  | {
      readonly outcome: 'match' | 'mismatch' | 'absent';
      /** What was seen; `no record` where there was nothing. */
      readonly observed: string;
      /** One sentence for the owner of the zone: what is so, and what to do about it. */
      readonly detail: string;
    }
  | { readonly outcome: 'unknown'; readonly detail: string };

export const NO_RECORD = 'no record';

/** The verdict of a question that nobody answered. */
export function unanswered(name: string, reason: string): Verdict {
  return {
    outcome: 'unknown',
    detail: `DNS could not be asked about ${name} (${reason}): nothing was changed, it is tried again.`,
  };
}

/** Characters of `observed_value`: room for a record of 4 KB, not for what 64 KB of answer can hold. */
const SHOWN_MAX = 4_000;
/** Records that are shown where there are many. */
const RECORDS_MAX = 5;

/** @param text one character for each byte */
export function showText(text: string): string {
  const bytes = Buffer.from(text, 'latin1');
  const read = isUtf8(bytes) ? bytes.toString('utf8') : text;
  // Bytes that nobody can read, as zone files write them (RFC 1035 section 5.1).
  const printable = read.replace(
    /[\0-\x1f\x7f-\x9f]/g,
    (char) => `\\${String(char.charCodeAt(0)).padStart(3, '0')}`,
  );
  return cut(printable, SHOWN_MAX);
}

/** Several things in one line, none of them left unsaid without a word of it. */
export function listed(texts: readonly string[]): string {
  const shown = texts.slice(0, RECORDS_MAX);
  const more = texts.length - shown.length;
  if (more > 0) shown.push(`${more} more`);
  const last = shown.pop() ?? '';
  return cut(shown.length === 0 ? last : `${shown.join(', ')} and ${last}`, SHOWN_MAX);
}

/** Several TXT records: each in quotation marks, so that it is seen where one ends. */
export function listTexts(texts: readonly string[]): string {
  return listed(texts.map((text) => `"${showText(text)}"`));
}

function cut(text: string, max: number): string {
  if (text.length <= max) return text;
  // A surrogate that lost its other half would not be text any more.
  const head = text.slice(0, max).replace(/[\ud800-\udbff]$/, '');
  return `${head}… (${text.length - head.length} more characters)`;
}
