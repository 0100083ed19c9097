/** Parses HTML of strangers into a document without a window: nothing in it loads or runs. */
import { setOf } from './clean-mail.ts';

/** Elements within elements. A long exchange has some hundred levels; 30,000 take seconds to parse. */
const LEVELS_MAX = 200;
const TAG = /<(\/?)([a-z][a-z0-9]*)\b[^<>]*>?/gi;
/** They have no end tag, or may do without. */
const NEVER_NESTED = setOf(
  'area base br col embed hr img input link meta source track wbr html head body p li dt dd td th tr tbody thead tfoot option colgroup',
);

/** A document in which every member of it and of its elements is what it says. */
export function parseHtml(html: string): Document {
  const parsed = new DOMParser().parseFromString(flatten(html), 'text/html');
  showMembers(parsed);
  return parsed;
}

/**
 * The name of an element hides a member of its document, such as `querySelector` (HTML, "DOM tree accessors"; Chromium does so
 * only where there is a window), and one of its form, such as `attributes` (HTML, "the form element"). Whatever reads the
 * mail after that would trip over it, or be led to clean something else. So nothing but anchors keeps a name, and of a
 * form, which nobody could send from here, its content stays.
 */
function showMembers(parsed: Document): void {
  const find = (selector: string) => Document.prototype.querySelectorAll.call(parsed, selector);
  for (const one of find('[name]:not(a)')) Element.prototype.removeAttribute.call(one, 'name');
  // It hides by its id, too.
  for (const one of find('object')) Element.prototype.remove.call(one);
  for (const form of find('form')) {
    const content = new Range();
    content.selectNodeContents(form);
    Element.prototype.replaceWith.call(form, content.extractContents());
  }
}

/**
 * Removes tags that would nest too deep; their text stays. This counts tags without parsing: the result is parsed and
 * cleaned like everything else.
 */
function flatten(html: string): string {
  let depth = 0;
  let left = 0;
  return html.replace(TAG, (tag, end: string, name: string) => {
    if (NEVER_NESTED.has(name.toLowerCase())) return tag;
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
