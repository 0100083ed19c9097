/**
 * The document in which an HTML mail is shown. It is safe because of the frame's sandbox (no scripts, no origin, no
 * forms) and the policy in its head (nothing is loaded from anywhere; only pictures, after the reader asks for
 * them). The mail is cleaned before that so that nothing is even attempted, and that pictures inside the mail are
 * shown.
 */

/** The frame has these rights and no others: a link that the reader clicks opens a new tab. */
export const FRAME_RIGHTS = 'allow-popups allow-popups-to-escape-sandbox';

/** @param {boolean} withRemote */
function policyOf(withRemote) {
  return [
    "default-src 'none'",
    `img-src data:${withRemote ? ' https: http:' : ''}`,
    "style-src 'unsafe-inline'",
    "base-uri 'none'",
    "form-action 'none'",
  ].join('; ');
}

/** Elements within elements. A long exchange has some hundred levels; 30,000 take seconds to parse. */
const LEVELS_MAX = 200;
const TAG = /<(\/?)([a-z][a-z0-9]*)\b[^<>]*>?/gi;
/** They have no end tag, or may do without. */
const NEVER_NESTED =
  'area base br col embed hr img input link meta source track wbr html head body p li dt dd td th tr tbody thead tfoot option colgroup'.split(
    ' ',
  );

/** Elements that a mail does not need, or that the policy would refuse. */
const UNWANTED =
  'script, noscript, style[src], link, meta, base, title, iframe, frame, frameset, object, embed, applet, portal, audio, video, source, track, svg, math, template, dialog';

/** Attributes that name something to load or to send to, apart from `src` of pictures. */
const LOADING = [
  'srcset',
  'background',
  'poster',
  'data',
  'ping',
  'action',
  'formaction',
  'lowsrc',
];

const STYLES = `
  :root { color-scheme: light; color: #1f2328; }
  :root.bare { color-scheme: light dark; color: CanvasText; }
  body { margin: 0; padding: 1rem; font: 15px / 1.6 Inter, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Helvetica Neue", Arial, sans-serif; overflow-wrap: anywhere; }
  @media (min-width: 30rem) { body { padding: 1.25rem 1.5rem; } }
  img { max-width: 100%; height: auto; }
  img[data-blocked] { display: inline-block; min-width: 1.5rem; min-height: 1.5rem; outline: 1px dashed #8888; }
  table { max-width: 100%; }
  pre { white-space: pre-wrap; }
  /* Mails are often made for 600 px. On a phone their widths are limits, so that nothing is cut off. */
  @media (max-width: 40rem) {
    table, tbody, tr, td, th, div, center, section { max-width: 100% !important; min-width: 0 !important; box-sizing: border-box; }
    table[width], td[width], th[width], table[style*="width"], td[style*="width"], div[style*="width"] { width: auto !important; }
    table[width="100%"] { width: 100% !important; }
    td, th, p, a, span { white-space: normal !important; }
    img[data-blocked] { width: auto !important; }
  }`;

/**
 * @param {string} html as it came
 * @param {Record<string, string>} images `data:` URLs by Content-ID
 * @param {boolean} withRemote whether pictures are loaded from elsewhere, as the reader wants it
 * @returns {{ source: string, blocked: number, isBare: boolean }} `source` for the frame's srcdoc;
 *   how many pictures and styles from elsewhere were left out; whether the mail has no colours of its
 *   own, so that it may be shown in those of the page
 */
export function writeMailDocument(html, images, withRemote) {
  const { parsed, frames } = parseMail(flatten(html));
  for (const element of parsed.querySelectorAll(UNWANTED)) element.remove();
  const blocked =
    frames + cleanElements(parsed, images, withRemote) + cleanStyles(parsed, withRemote);
  const isBare = !parsed.querySelector(
    'style, [style*="color"], [style*="background"], [bgcolor], [color], [text]',
  );
  const head = [
    '<meta charset="utf-8">',
    `<meta http-equiv="Content-Security-Policy" content="${policyOf(withRemote)}">`,
    '<meta name="referrer" content="no-referrer">',
    // No policy covers what a browser looks up in advance.
    '<meta http-equiv="x-dns-prefetch-control" content="off">',
    `<style>${STYLES}</style>`,
    ...[...parsed.querySelectorAll('head style')].map((style) => style.outerHTML),
  ].join('');
  const { body } = parsed;
  return {
    source: `<!doctype html><html lang="${languageOf(parsed)}"${isBare ? ' class="bare"' : ''}><head>${head}</head>${body.outerHTML}</html>`,
    blocked,
    isBare,
  };
}

/**
 * Parses a mail into a document without a window: nothing in it loads or runs. A mail whose body is a frameset shows
 * other pages, which are never loaded: its text for browsers without frames is shown.
 *
 * @param {string} html
 * @returns {{ parsed: Document, frames: number }} a document with a body; how many frames it is without
 */
function parseMail(html) {
  const parse = (/** @type {string} */ text) => new DOMParser().parseFromString(text, 'text/html');
  const parsed = parse(html);
  if (parsed.body.localName === 'body') return { parsed, frames: 0 };
  const told = [...parsed.querySelectorAll('noframes')].map(({ textContent }) => textContent ?? '');
  // After this tag no frameset counts any more (HTML, "in body" insertion mode).
  return {
    parsed: parse(`<body>${told.join('') || 'This mail is made of frames alone.'}`),
    frames: parsed.querySelectorAll('frame').length,
  };
}

/**
 * Removes tags that would nest too deep; their text stays. This counts tags without parsing: the result is parsed and
 * cleaned like everything else.
 *
 * @param {string} html
 */
export function flatten(html) {
  let depth = 0;
  let left = 0;
  return html.replace(TAG, (tag, /** @type {string} */ end, /** @type {string} */ name) => {
    if (NEVER_NESTED.includes(name.toLowerCase())) return tag;
    if (end === '/') {
      if (left > 0) {
        left--;
        return '';
      }
      depth = Math.max(0, depth - 1);
      return tag;
    }
    if (depth >= LEVELS_MAX) {
      left++;
      return '';
    }
    depth++;
    return tag;
  });
}

/** @param {Document} parsed */
function languageOf(parsed) {
  const { lang } = parsed.documentElement;
  return /^[A-Za-z0-9-]{1,35}$/.test(lang) ? lang : 'und';
}

/**
 * @param {Document} parsed
 * @param {Record<string, string>} images
 * @param {boolean} withRemote
 */
function cleanElements(parsed, images, withRemote) {
  let blocked = 0;
  for (const element of parsed.querySelectorAll('*')) {
    for (const { name } of [...element.attributes]) {
      if (name.startsWith('on')) element.removeAttribute(name);
      if (LOADING.includes(name) && !(withRemote && name === 'background')) {
        element.removeAttribute(name);
      }
    }
    const source = element.getAttribute('src');
    if (source !== null) {
      element.removeAttribute('src');
      const isPicture = element.localName === 'img';
      // A remote picture of one pixel only tracks the reader.
      const isWanted = withRemote && isPicture && !isTiny(element);
      const shown = isPicture ? pictureOf(source, images, isWanted) : undefined;
      if (shown !== undefined) element.setAttribute('src', shown);
      else if (isPicture) {
        element.setAttribute('data-blocked', '');
        blocked++;
        if (isTiny(element)) element.remove();
      }
    }
    if (element.hasAttribute('href')) cleanLink(element);
  }
  return blocked;
}

/** @param {Element} element */
function isTiny(element) {
  return ['width', 'height'].some((name) => /^[0-3](px)?$/.test(element.getAttribute(name) ?? ''));
}

/**
 * @param {string} source
 * @param {Record<string, string>} images
 * @param {boolean} withRemote
 */
function pictureOf(source, images, withRemote) {
  if (withRemote && /^(https?:)?\/\//i.test(source)) return source;
  if (/^data:image\/(png|jpeg|gif|webp);/i.test(source)) return source;
  if (!/^cid:/i.test(source)) return undefined;
  const id = source.slice(4);
  return Object.hasOwn(images, id) ? images[id] : undefined;
}

/** @param {Element} element */
function cleanLink(element) {
  const href = (element.getAttribute('href') ?? '').trim();
  if (href.startsWith('#')) {
    element.removeAttribute('target');
    return;
  }
  if (/^(https?|mailto):/i.test(href) && ['a', 'area'].includes(element.localName)) {
    element.setAttribute('target', '_blank');
    element.setAttribute('rel', 'noopener noreferrer nofollow');
    element.setAttribute('title', href.slice(0, 300));
  } else {
    element.removeAttribute('href');
  }
}

/**
 * Removes from style sheets what would be loaded. The policy stops a spelling that gets past this.
 *
 * @param {Document} parsed
 * @param {boolean} withRemote
 */
function cleanStyles(parsed, withRemote) {
  let blocked = 0;
  /** @param {string} css */
  const clean = (css) =>
    css
      .replace(/@import[^;]*;?/gi, '')
      .replace(/(url|image-set|src)\s*\(\s*(?!["']?data:image\/)[^)]*\)?/gi, (loaded) => {
        if (withRemote && /^url\(\s*["']?https?:/i.test(loaded)) return loaded;
        blocked++;
        return 'none';
      })
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
