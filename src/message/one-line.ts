const SHOWN_MAX = 500;

/** Makes hostile text one line for people: no control characters, at most 500 characters. */
export function oneLine(text: string): string {
  return text
    .slice(0, 4 * SHOWN_MAX)
    .replace(/[\p{Cc}\p{Zl}\p{Zp}\s]+/gu, ' ')
    .trim()
    .slice(0, SHOWN_MAX)
    .toWellFormed();
}
