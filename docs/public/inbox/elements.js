/** Building blocks of the page. Text is inserted as text: nothing of a mail is ever read as HTML here. */

/**
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Record<string, string | boolean | ((event: Event) => void)>} attributes functions listen to
 *   the event of that name; false leaves one out
 * @param {(Node | string)[]} children
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === 'function') made.addEventListener(name, value);
    else if (value !== false) made.setAttribute(name, value === true ? '' : value);
  }
  made.append(...children);
  return made;
}

/**
 * Makes these the children. Those that stay are moved only where their order is another: an element that is taken out
 * and put back loses the focus, any selection, and the click that has begun on it.
 *
 * @param {HTMLElement} parent
 * @param {Element[]} children
 */
export function putChildren(parent, children) {
  const wanted = new Set(children);
  for (const child of [...parent.children]) if (!wanted.has(child)) child.remove();
  let next = parent.firstElementChild;
  for (const child of children) {
    if (child === next) next = next.nextElementSibling;
    else parent.insertBefore(child, next);
  }
}

/**
 * An element of index.html.
 *
 * @template {HTMLElement} [T=HTMLElement]
 * @param {string} id
 * @param {new () => T} [kind]
 * @returns {T}
 */
export function byId(id, kind) {
  const found = document.getElementById(id);
  if (!found || (kind && !(found instanceof kind))) throw new Error(`the page has no #${id}`);
  return /** @type {T} */ (found);
}

const time = new Intl.DateTimeFormat(undefined, { timeStyle: 'short' });
const day = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short' });
const date = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium' });
const whole = new Intl.DateTimeFormat(undefined, { dateStyle: 'full', timeStyle: 'short' });

/**
 * A moment, as short as it can be said today.
 *
 * @param {string} rfc3339
 */
export function shortDate(rfc3339) {
  const at = new Date(rfc3339);
  const now = new Date();
  if (at.toDateString() === now.toDateString()) return time.format(at);
  return at.getFullYear() === now.getFullYear() ? day.format(at) : date.format(at);
}

/** @param {string} rfc3339 */
export function longDate(rfc3339) {
  return whole.format(new Date(rfc3339));
}
