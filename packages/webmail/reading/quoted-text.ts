/** Finds the quoted text in plain text, which is folded: in a conversation the reader has it above already. */

export interface TextBlock {
  readonly text: string;
  readonly isQuoted: boolean;
}

/** "On Monday, Bob wrote:", which clients wrap at 76 characters, and its like in other languages. */
const ATTRIBUTION = /^\S[^\n]{4,300}:$/;
/** Lines that begin what an answer without marks repeats. */
const SEPARATOR =
  /^-{2,}\s?(?:Original Message|Forwarded message|Ursprüngliche Nachricht)\s?-{2,}$/i;

/**
 * Splits a text into what was written and what is quoted. A text that is quoted alone is not folded: nothing would be
 * left to read. A single quoted line within an answer is what the answer speaks of: it is not folded either.
 */
export function splitQuoted(text: string): TextBlock[] {
  const lines = text.split('\n');
  const quoted = lines.map((line) => line.startsWith('>'));
  markAttributions(lines, quoted);
  const blocks: { lines: string[]; isQuoted: boolean }[] = [];
  for (const [at, line] of lines.entries()) {
    const isQuoted = quoted[at] === true;
    const last = blocks.at(-1);
    if (last?.isQuoted === isQuoted) last.lines.push(line);
    else blocks.push({ lines: [line], isQuoted });
  }
  const folded = blocks.map((block) => ({
    text: block.lines.join('\n'),
    isQuoted: block.isQuoted && block.lines.length > 3,
  }));
  const isAllQuoted = folded.every((block) => block.isQuoted || block.text.trim() === '');
  const joined = joinBlocks(folded);
  return isAllQuoted ? [{ text, isQuoted: false }] : joined;
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

function joinBlocks(blocks: readonly TextBlock[]): TextBlock[] {
  const joined: { text: string; isQuoted: boolean }[] = [];
  for (const { text, isQuoted } of blocks) {
    const last = joined.at(-1);
    if (last?.isQuoted === isQuoted) last.text += `\n${text}`;
    else joined.push({ text, isQuoted });
  }
  return joined;
}
