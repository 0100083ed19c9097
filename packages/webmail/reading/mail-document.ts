/**
 * The document in which an HTML mail is shown. Three walls, each of which holds alone: the sandbox of its frame (no
 * origin, no forms), the policies of frame and page (no script but ours, nothing loaded from anywhere; pictures alone,
 * after the reader asks for them), and this cleaner, so that nothing is even attempted. Firefox has a hole in the second
 * one, as of version 153: it may load pictures of `srcset` and `imagesrcset` that the policy of the frame refuses.
 */
import { cleanElements, cleanStyles } from './clean-mail.ts';
import { FRAME_SCRIPT, FRAME_SCRIPT_HASH } from './frame-script.ts';
import { parseHtml } from './parse-html.ts';

export interface MailDocumentOptions {
  /** `data:` URLs by Content-ID. */
  readonly images?: Readonly<Record<string, string>>;
  /** Whether pictures are loaded from elsewhere, as the reader wants it. */
  readonly withRemote?: boolean;
  readonly isDark?: boolean;
}

export interface MailDocument {
  /** For the frame's srcdoc. */
  readonly source: string;
  /** How many pictures and styles from elsewhere were left out. */
  readonly blocked: number;
  /** The mail has no colours of its own: it is shown in those of the page. */
  readonly isBare: boolean;
}

function policyOf(withRemote: boolean): string {
  return [
    "default-src 'none'",
    `script-src '${FRAME_SCRIPT_HASH}'`,
    `img-src data:${withRemote ? ' https: http:' : ''}`,
    "style-src 'unsafe-inline'",
    "base-uri 'none'",
    "form-action 'none'",
  ].join('; ');
}

/** Elements that a mail does not need, or that the policy would refuse; and those whose text is parsed in other ways. */
const UNWANTED =
  'script, noscript, style[src], link, meta, base, title, iframe, frame, frameset, noframes, noembed, object, embed, applet, portal, fencedframe, audio, video, source, track, svg, math, template, dialog, [popover]';
/** Their text stands unescaped in a document: they become `pre`. */
const RAW_TEXT = 'xmp, plaintext, listing';

/** What clients put around the message that they answer. */
const QUOTES =
  'blockquote[type="cite" i], .gmail_quote, .gmail_quote_container, .yahoo_quoted, .protonmail_quote, .moz-cite-prefix, #divRplyFwdMsg, #appendonsend, #mail-editor-reference-message-container';

const STYLES = `
  :root { color-scheme: light; color: #1f2328; }
  @media screen { :root.bare.dark { color-scheme: dark; color: #e7e8ec; } }
  :root.bare body { padding-inline: 0; }
  body { margin: 0; padding: 0.75rem 1rem; font: 15px / 1.55 Inter, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Helvetica Neue", Arial, sans-serif; overflow-wrap: anywhere; }
  img { max-width: 100%; height: auto; }
  img[data-blocked] { display: inline-block; min-width: 1.5rem; min-height: 1.5rem; outline: 1px dashed #8888; }
  table { max-width: 100%; }
  /* A row of so many cells is one of a table, not of a layout: it scrolls rather than to break every word. */
  tr:has(> :nth-child(5)) > * { overflow-wrap: break-word; }
  pre { white-space: pre-wrap; }
  /* Mails are often made for 600 px. On a phone their widths are limits, so that nothing is cut off. */
  @media (max-width: 40rem) {
    table, tbody, tr, td, th, div, center, section { max-width: 100% !important; min-width: 0 !important; box-sizing: border-box; }
    table[width], td[width], th[width], table[style*="width"], td[style*="width"], div[style*="width"] { width: auto !important; }
    table[width="100%"] { width: 100% !important; }
    td, th, p, a, span { white-space: normal !important; }
    img[data-blocked] { width: auto !important; }
  }`;
/** After the mail's own styles: a height that depends on that of the frame would grow without end. */
const LAST_STYLES = `
  html:not(#x#y#z), html > body:not(#x#y#z) { height: auto !important; min-height: 0 !important; max-height: none !important; position: static !important; overflow: auto hidden !important; }
  html > body:not(#x#y#z) { overflow: visible !important; }
  details[data-quoted] > summary { display: inline-block; margin: 0.5rem 0; padding: 0 0.6rem; border-radius: 99px; background: #8883; cursor: pointer; font: 13px / 1.6 sans-serif; list-style: none; }`;

/** @param html as it came */
export function writeMailDocument(
  html: string,
  { images = {}, withRemote = false, isDark = false }: MailDocumentOptions,
): MailDocument {
  const { parsed, frames } = parseMail(html);
  removeUnwanted(parsed);
  const blocked =
    frames + cleanElements(parsed, { images, withRemote }) + cleanStyles(parsed, withRemote);
  const isBare = !parsed.querySelector(
    'style, [style*="color"], [style*="background"], [bgcolor], [color], [text]',
  );
  foldQuotes(parsed);
  const head = [
    '<meta charset="utf-8">',
    `<meta http-equiv="Content-Security-Policy" content="${policyOf(withRemote)}">`,
    '<meta name="referrer" content="no-referrer">',
    // No policy covers what a browser looks up in advance.
    '<meta http-equiv="x-dns-prefetch-control" content="off">',
    `<script>${FRAME_SCRIPT}</script>`,
    `<style>${STYLES}</style>`,
    ...[...parsed.querySelectorAll('head style')].map((style) => style.outerHTML),
    `<style>${LAST_STYLES}</style>`,
  ].join('');
  const looks = [isBare && 'bare', isDark && 'dark'].filter(Boolean).join(' ');
  return {
    source: `<!doctype html><html lang="${languageOf(parsed)}" class="${looks}"><head>${head}</head>${parsed.body.outerHTML}</html>`,
    blocked,
    isBare,
  };
}

/**
 * A mail whose body is a frameset shows other pages, which are never loaded: its text for browsers without frames is shown.
 *
 * @returns a document with a body; how many frames it is without
 */
function parseMail(html: string): { parsed: Document; frames: number } {
  const parsed = parseHtml(html);
  if (parsed.body.localName === 'body') return { parsed, frames: 0 };
  const told = [...parsed.querySelectorAll('noframes')].map(({ textContent }) => textContent ?? '');
  // After this tag no frameset counts any more (HTML, "in body" insertion mode).
  return {
    parsed: parseHtml(`<body>${told.join('') || 'This mail is made of frames alone.'}`),
    frames: parsed.querySelectorAll('frame').length,
  };
}

function removeUnwanted(parsed: Document): void {
  for (const element of parsed.querySelectorAll(UNWANTED)) element.remove();
  for (const element of parsed.querySelectorAll(RAW_TEXT)) {
    const shown = parsed.createElement('pre');
    shown.textContent = element.textContent;
    element.replaceWith(shown);
  }
  // Comments show nothing, and some browsers read conditions in them.
  const comments = parsed.createNodeIterator(parsed, NodeFilter.SHOW_COMMENT);
  for (let node = comments.nextNode(); node; node = comments.nextNode()) {
    node.parentNode?.removeChild(node);
  }
}

/** Folds what is quoted, with all after it. A mail that is a quote alone, such as a forwarded one, stays open. */
function foldQuotes(parsed: Document): void {
  const quote = parsed.body.querySelector(QUOTES);
  if (!quote) return;
  const before = parsed.createRange();
  before.setStart(parsed.body, 0);
  before.setEndBefore(quote);
  if (before.toString().trim() === '') return;
  const folded = parsed.createElement('details');
  folded.setAttribute('data-quoted', '');
  const summary = parsed.createElement('summary');
  summary.textContent = 'Quoted text';
  quote.before(folded);
  // What somebody wrote below a quote is not folded; of a header of Outlook, the quote is all that follows.
  const takesRest = quote.matches('.moz-cite-prefix, #divRplyFwdMsg, #appendonsend');
  folded.append(summary, quote);
  while (takesRest && folded.nextSibling) folded.append(folded.nextSibling);
}

function languageOf(parsed: Document): string {
  const { lang } = parsed.documentElement;
  return /^[A-Za-z0-9-]{1,35}$/.test(lang) ? lang : 'und';
}
