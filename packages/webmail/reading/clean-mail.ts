/** Takes out of the elements and styles of a mail what would load, run or lead the reader astray. */

import { decodePercents } from './stranger-text.ts';

/** A set of words, which a text lists. */
export const setOf = (words: string): ReadonlySet<string> => new Set(words.split(' '));

/** Attributes that name something to load or to send to, apart from `src` of pictures. */
const LOADING = setOf(
  'srcset imagesrcset background poster data ping action formaction lowsrc dynsrc manifest codebase classid archive longdesc cite profile usemap is',
);
/** They take the focus, or make parts of the page act. */
const ACTING = setOf(
  'autofocus accesskey tabindex contenteditable popovertarget command commandfor nonce',
);

interface Pictures {
  readonly images: Readonly<Record<string, string>>;
  readonly withRemote: boolean;
}

/** @returns how many pictures are not shown */
export function cleanElements(parsed: Document, pictures: Pictures): number {
  let blocked = 0;
  for (const element of parsed.querySelectorAll('*')) {
    for (const { name } of [...element.attributes]) {
      const isUnwanted = name.startsWith('on') || name.includes(':') || ACTING.has(name);
      const loads = LOADING.has(name) && !(pictures.withRemote && name === 'background');
      if (isUnwanted || loads) element.removeAttribute(name);
    }
    blocked += cleanSource(element, pictures);
    if (element.hasAttribute('href')) cleanLink(element);
  }
  const { body } = parsed;
  for (const name of ['height', 'min-height', 'max-height', 'position', 'overflow']) {
    body.style.removeProperty(name);
  }
  return blocked;
}

/** @returns 1 where a picture is not shown */
function cleanSource(element: Element, pictures: Pictures): number {
  const source = element.getAttribute('src');
  if (source === null) return 0;
  element.removeAttribute('src');
  if (element.localName !== 'img') return 0;
  // A remote picture of one pixel only tracks the reader.
  const isWanted = pictures.withRemote && !isTiny(element);
  const shown = pictureOf(source.trim(), pictures.images, isWanted);
  if (shown !== undefined) {
    element.setAttribute('src', shown);
    return 0;
  }
  element.setAttribute('data-blocked', '');
  if (isTiny(element)) element.remove();
  return 1;
}

function isTiny(element: Element): boolean {
  return ['width', 'height'].some((name) => /^[0-3](px)?$/.test(element.getAttribute(name) ?? ''));
}

function pictureOf(
  source: string,
  images: Readonly<Record<string, string>>,
  withRemote: boolean,
): string | undefined {
  if (withRemote && /^(https?:)?\/\//i.test(source)) return source;
  if (/^data:image\/(png|jpeg|gif|webp)[;,]/i.test(source)) return source;
  if (!/^cid:/i.test(source)) return undefined;
  // A Content-ID is percent-encoded in its URL (RFC 2392).
  const id = decodePercents(source.slice(4));
  return Object.hasOwn(images, id) ? images[id] : undefined;
}

function cleanLink(element: Element): void {
  const href = (element.getAttribute('href') ?? '').trim();
  if (href.startsWith('#')) {
    element.removeAttribute('target');
    return;
  }
  if (/^(https?|mailto):/i.test(href) && ['a', 'area'].includes(element.localName)) {
    element.setAttribute('href', href);
    element.setAttribute('target', '_blank');
    element.setAttribute('rel', 'noopener noreferrer nofollow');
    element.setAttribute('title', href.slice(0, 300));
  } else {
    element.removeAttribute('href');
  }
}

/** Letters and digits that are written as escapes (CSS Syntax section 4.3.7): `u\72l` is `url`. */
function decodeLetters(css: string): string {
  return css.replace(
    /\\(?:([0-9a-f]{1,6})\s?|([g-z]))/gi,
    (whole, hex?: string, letter?: string) => {
      const decoded =
        letter ?? String.fromCodePoint(Math.min(Number.parseInt(hex ?? '', 16), 0x10ffff));
      return /^[\w-]$/.test(decoded) ? decoded : whole;
    },
  );
}

/**
 * Removes from style sheets what would be loaded, and units that depend on the height of the frame. The policy stops a
 * spelling that gets past this.
 *
 * @returns how much was left out
 */
export function cleanStyles(parsed: Document, withRemote: boolean): number {
  let blocked = 0;
  const clean = (css: string) =>
    decodeLetters(css)
      .replace(/@import[^;]*;?/gi, '')
      .replace(/(url|image-set|image|src)\s*\(\s*(?!["']?data:image\/)[^)]*\)?/gi, (loaded) => {
        if (withRemote && /^url\(\s*["']?https?:/i.test(loaded)) return loaded;
        blocked++;
        return 'none';
      })
      .replace(/(\d)[dsl]?v(?:h|b|min|max)\b/gi, '$1px')
      // The removal may leave an end tag behind, and the text is put into the frame unchanged.
      .replaceAll('</', '<\\/');
  for (const style of parsed.querySelectorAll('style')) {
    style.textContent = clean(style.textContent ?? '');
  }
  for (const element of parsed.querySelectorAll('[style]')) {
    element.setAttribute('style', clean(element.getAttribute('style') ?? ''));
  }
  return blocked;
}
