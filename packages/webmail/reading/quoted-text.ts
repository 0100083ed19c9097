/** Finds the quoted text in plain text, which is folded: in a conversation the reader has it above already. */

interface TextBlock {
  text: string;
  readonly isQuoted: boolean;
}

/** "On Monday, Bob wrote:", which clients wrap at 76 characters, and its like in other languages. */
const ATTRIBUTION = /^\S[^\n]{4,300}:$/;
/** Lines that begin what an answer without marks repeats. */
const SEPARATOR =
  /^-{2,}\s?(?:Original Message|Forwarded message|Ursprüngliche Nachricht)\s?-{2,}$/i;
/** So few quoted lines within an answer are what the answer speaks of: they are not folded. */
const SHORT = 3;

/**
 * Splits a text into what was written and what is quoted. A text that is quoted alone is not folded: nothing would be
 * left to read.
 */
export function splitQuoted(text: string): TextBlock[] {
  const lines = text.split('\n');
  const quoted = lines.map((line) => line.startsWith('>'));
  markAttributions(lines, quoted);
  for (let from = 0, to = 0; from < lines.length; from = to) {
    while (to < lines.length && quoted[to] === quoted[from]) to++;
    if (to - from <= SHORT) quoted.fill(false, from, to);
  }
  if (lines.every((line, at) => quoted[at] || line.trim() === '')) {
    return [{ text, isQuoted: false }];
  }
  const blocks: TextBlock[] = [];
  for (const [at, line] of lines.entries()) {
    const isQuoted = quoted[at] === true;
    const last = blocks.at(-1);
    if (last?.isQuoted === isQuoted) last.text += `\n${line}`;
    else blocks.push({ text: line, isQuoted });
  }
  return blocks;
}

/** The line that says who wrote the quoted text is folded with it, and so is all after a separator. */
function markAttributions(lines: readonly string[], quoted: boolean[]): void {
  const separator = lines.findIndex((line) => SEPARATOR.test(line.trim()));
  if (separator >= 0) quoted.fill(true, separator);
  for (let at = 1; at < lines.length; at++) {
    if (!quoted[at] || quoted[at - 1]) continue;
    let from = at - 1;
    while (from > 0 && lines[from]?.trim() === '') from--;
    if (ATTRIBUTION.test(lines[from]?.trim() ?? '')) quoted.fill(true, from, at);
  }
}
