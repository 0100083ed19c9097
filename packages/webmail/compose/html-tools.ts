/**
 * HTML that enters the page itself: what is pasted into the editor, and quotes. It is not cleaned but built anew, of
 * elements and attributes that are known, from a document without a window: what the parser may have misread is never
 * written down and parsed again.
 */
import type { ReadMessage } from '../../sdk/src/mail/client.ts';
import { setOf } from '../reading/clean-mail.ts';
import { parseHtml } from '../reading/parse-html.ts';
import type { Readable } from './content.ts';

const KEPT = setOf(
  'a abbr b blockquote br code dd del div dl dt em h1 h2 h3 h4 h5 h6 hr i img ins li ol p pre s small span strong sub sup table tbody td tfoot th thead tr u ul',
);
/** Their text is no text of the mail. */
const DROPPED = setOf(
  'script style title head template noscript noembed noframes iframe object embed svg math audio video select textarea button canvas',
);
/** Numbers and words that lay out a table or a list. */
const ATTRIBUTES = setOf(
  'align alt bgcolor border cellpadding cellspacing colspan dir height lang rowspan start title type valign width',
);
/** Looks of text; nothing that places it or loads. */
const STYLES = setOf(
  'background-color border color font-family font-size font-style font-weight margin padding text-align text-decoration',
);
const BLOCKS = setOf('blockquote dd div dl dt h1 h2 h3 h4 h5 h6 hr li ol p pre table tr ul');

/**
 * @param withPictures keeps pictures by `cid:` and `https:`, for what is sent; a page that shows it would load them
 */
export function rebuild(html: string, withPictures: boolean): DocumentFragment {
  const parsed = parseHtml(html);
  // Of this document, too, nothing loads until it is adopted by the page.
  const inert = document.implementation.createHTMLDocument();
  const fragment = inert.createDocumentFragment();
  copyChildren(parsed.body, fragment, inert, withPictures);
  return fragment;
}

function copyChildren(from: Node, to: Node, inert: Document, withPictures: boolean): void {
  for (const node of from.childNodes) {
    if (node.nodeType === Node.TEXT_NODE)
      to.appendChild(inert.createTextNode(node.nodeValue ?? ''));
    if (!(node instanceof Element) || DROPPED.has(node.localName)) continue;
    const isKept = KEPT.has(node.localName) && node instanceof HTMLElement;
    const copy = isKept ? copyElement(node, inert, withPictures) : to;
    if (copy === undefined) continue;
    copyChildren(node, copy, inert, withPictures);
    if (copy !== to) to.appendChild(copy);
  }
}

/** @returns undefined for a picture that is left out */
function copyElement(
  element: HTMLElement,
  inert: Document,
  withPictures: boolean,
): HTMLElement | undefined {
  const copy = inert.createElement(element.localName);
  for (const { name, value } of element.attributes) {
    if (ATTRIBUTES.has(name) && value.length <= 300) copy.setAttribute(name, value);
  }
  for (const name of STYLES) {
    const value = element.style.getPropertyValue(name);
    if (value !== '' && !/[(\\]/.test(value.replace(/\brgba?\(/g, '')))
      copy.style.setProperty(name, value);
  }
  if (element.localName === 'a') {
    const href = (element.getAttribute('href') ?? '').trim();
    if (/^(?:https?:\/\/|mailto:)/i.test(href)) copy.setAttribute('href', href);
  }
  if (element.localName !== 'img') return copy;
  const source = (element.getAttribute('src') ?? '').trim();
  if (!withPictures || !/^(?:cid:|https:\/\/)/i.test(source)) return undefined;
  copy.setAttribute('src', source);
  return copy;
}

/** HTML that is sent. */
function clean(html: string): string {
  const holder = document.implementation.createHTMLDocument().createElement('div');
  holder.append(rebuild(html, true));
  return holder.innerHTML;
}

/** The words of an HTML text, with its lines and quotes. */
export function textOf(html: string): string {
  const write = (node: Node, isPre: boolean): string => {
    if (node.nodeType === Node.TEXT_NODE) {
      const text = node.nodeValue ?? '';
      return isPre ? text : text.replace(/[^\S\u00a0]+/g, ' ');
    }
    const name = node instanceof Element ? node.localName : '';
    if (name === 'br') return '\n';
    if (name === 'hr') return '\n---\n';
    const inside = [...node.childNodes]
      .map((child) => write(child, isPre || name === 'pre'))
      .join('');
    if (name === 'li') return `\n- ${inside.trim()}\n`;
    if (name === 'td' || name === 'th') return `${inside} `;
    if (name === 'blockquote')
      return `\n${tidy(inside)
        .replace(/^/gm, '> ')
        .replace(/^> (?=>)/gm, '>')}\n`;
    const gap = /^(?:p|h\d|pre|ul|ol|table)$/.test(name) ? '\n\n' : '\n';
    return BLOCKS.has(name) ? `\n${inside.replace(/\n$/, '')}${gap}` : inside;
  };
  const inert = rebuild(html, false);
  return tidy(write(inert, false));
}

function tidy(text: string): string {
  return text
    .replaceAll('\u00a0', ' ')
    .replace(/[ \t]+\n/g, '\n')
    .replace(/\n[ \t]+(?=\S)/g, '\n')
    .replace(/\n{3,}/g, '\n\n')
    .trim();
}

/** A message for what is written about it. */
export function makeReadable(read: ReadMessage): Readable {
  const { html } = read;
  const text = (read.text ?? textOf(html ?? '')).replace(/\r\n?/g, '\n');
  return { ...read, text, html: html && clean(html) };
}
