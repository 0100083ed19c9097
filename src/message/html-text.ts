/** The text that a reader of HTML would see, for previews, search, and clients that show no HTML. */
import { Tokenizer } from 'htmlparser2';

/** What is inside is no text of the message. */
const HIDDEN = new Set([
  'script',
  'style',
  'head',
  'title',
  'template',
  'noscript',
  'svg',
  'object',
]);
/** Begin and end a line. */
const BLOCKS = new Set(
  'address article aside blockquote body br center dd div dl dt fieldset figure footer form h1 h2 h3 h4 h5 h6 header hr li main nav ol p pre section table tr ul'.split(
    ' ',
  ),
);

/**
 * Leaves out the tags of HTML: blocks become lines, runs of white space one space. Takes linear time
 * and never throws, whatever the text is: only tags are read, no tree is built.
 *
 * @returns lines joined by LF, without empty lines at the ends and never two of them in a row
 */
export function htmlToText(html: string): string {
  const pieces: string[] = [];
  /** The element whose end is waited for, while nothing is taken. */
  let hidden: string | undefined;
  const nameAt = (start: number, end: number) => html.slice(start, end).toLowerCase();
  const tokenizer = new Tokenizer(
    { decodeEntities: true },
    {
      onopentagname(start, end) {
        const name = nameAt(start, end);
        // A head that is never closed ends where the body begins.
        if (name === 'body' && hidden === 'head') hidden = undefined;
        else if (hidden === undefined && HIDDEN.has(name)) hidden = name;
        if (BLOCKS.has(name)) pieces.push('\n');
        else if (name === 'td' || name === 'th') pieces.push(' ');
      },
      onclosetag(start, end) {
        const name = nameAt(start, end);
        if (name === hidden) hidden = undefined;
        if (BLOCKS.has(name)) pieces.push('\n');
      },
      ontext(start, end) {
        // Line ends of the source are white space like any other.
        if (hidden === undefined) pieces.push(html.slice(start, end).replace(/\s+/g, ' '));
      },
      ontextentity(codePoint) {
        if (hidden === undefined) pieces.push(String.fromCodePoint(codePoint));
      },
      onattribdata() {},
      onattribentity() {},
      onattribend() {},
      onattribname() {},
      oncdata() {},
      oncomment() {},
      ondeclaration() {},
      onend() {},
      onopentagend() {},
      onprocessinginstruction() {},
      onselfclosingtag() {},
    },
  );
  tokenizer.write(html);
  tokenizer.end();
  return pieces
    .join('')
    .replace(/[^\S\n]+/g, ' ')
    .replace(/ ?\n ?/g, '\n')
    .replace(/\n{3,}/g, '\n\n')
    .trim();
}
