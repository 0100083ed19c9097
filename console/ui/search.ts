/** The text of a search box: words, and terms such as `is:bounced`, `-to:ada@acme.test`, `reason:"451 Greylisted"`. */

/** What a search box knows. */
export interface Qualifier {
  /** Without the colon. */
  readonly name: string;
  readonly hint: string;
  /** A value as it may be written. */
  readonly example: string;
  /** All values there are, where others are a mistake. */
  readonly values?: readonly string[];
}

export interface Term {
  readonly name: string;
  readonly value: string;
  /** Whether a minus stands before it. */
  readonly isNot: boolean;
}

export interface Search {
  readonly terms: readonly Term[];
  /** What is no term, as it was written. */
  readonly words: readonly string[];
  /** Why it cannot be searched for, as a sentence. */
  readonly problem?: string;
}

const TOKEN = /(-?)(?:([a-z_]+):(?!\/\/))?("[^"]*"?|\S+)?(?:\s+|$)/gi;

/** Reads the text; a word such as `http://host` or `<id@host>` is no term. */
export function parseSearch(text: string, known: readonly Qualifier[]): Search {
  const terms: Term[] = [];
  const words: string[] = [];
  let problem: string | undefined;
  for (const [all, minus, written, quoted = ''] of text.trim().matchAll(TOKEN)) {
    if (all.trim() === '') continue;
    const name = written?.toLowerCase();
    const value = quoted.replaceAll('"', '');
    const qualifier = known.find((one) => one.name === name);
    if (name === undefined) words.push(all.trim().replaceAll('"', ''));
    else if (!qualifier) problem ??= `There is no ${name}: here.`;
    // While it is being typed.
    else if (value === '') continue;
    else if (qualifier.values?.includes(value.toLowerCase()) === false)
      problem ??= `${name}: is one of ${qualifier.values.join(', ')}.`;
    else
      terms.push({
        name,
        value: qualifier.values ? value.toLowerCase() : value,
        isNot: minus === '-',
      });
  }
  return { terms, words, ...(problem !== undefined && { problem }) };
}
