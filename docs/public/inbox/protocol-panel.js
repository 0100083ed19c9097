/** The panel that shows the protocol log: one line for each entry, with its text unfolded on request. */
import { byId, element } from './elements.js';

/** @typedef {import('./protocol-log.js').ProtocolEntry} ProtocolEntry */

const clock = new Intl.DateTimeFormat(undefined, {
  hour: '2-digit',
  minute: '2-digit',
  second: '2-digit',
  hour12: false,
});

const ARROWS = { up: '↑', down: '↓', note: '•' };
const SPOKEN = { up: 'sent', down: 'received', note: 'note' };

/** @param {import('./protocol-log.js').ProtocolLog} log */
export function showProtocol(log) {
  const list = byId('entries', HTMLOListElement);
  /** @type {Map<number, HTMLLIElement>} */
  const items = new Map();
  log.onEntry = (entry) => {
    const item = writeEntry(entry);
    const before = items.get(entry.id);
    if (before) {
      const isOpen = before.querySelector('details')?.open === true;
      const details = item.querySelector('details');
      if (details) details.open = isOpen;
      before.replaceWith(item);
    } else {
      list.prepend(item);
    }
    items.set(entry.id, item);
    const oldest = log.entries[0]?.id ?? 0;
    for (const [id, old] of items) {
      if (id >= oldest) break;
      old.remove();
      items.delete(id);
    }
  };
  byId('toggle-protocol').addEventListener('click', () => toggleProtocol());
  byId('close-protocol').addEventListener('click', () => {
    toggleProtocol(false);
    byId('toggle-protocol').focus();
  });
  byId('clear-protocol').addEventListener('click', () => {
    log.clear();
    items.clear();
    list.replaceChildren();
  });
}

/** @param {boolean} [isOpen] */
export function toggleProtocol(isOpen = byId('protocol').hidden === true) {
  byId('protocol').hidden = !isOpen;
  byId('toggle-protocol').setAttribute('aria-expanded', String(isOpen));
  document.body.classList.toggle('with-protocol', isOpen);
}

/** @param {ProtocolEntry} entry */
function writeEntry({ at, protocol, direction, title, outcome, failed, ms, sent, received }) {
  const line = element(
    'summary',
    {},
    element(
      'span',
      { class: `arrow to-${direction}`, role: 'img', 'aria-label': SPOKEN[direction] },
      ARROWS[direction],
    ),
    element('span', { class: 'title' }, protocol === 'ws' ? `WS ${title}` : title),
    element('span', { class: failed ? 'outcome failed' : 'outcome' }, outcome),
    element('span', { class: 'at' }, ms === undefined ? clock.format(at) : `${ms} ms`),
  );
  // Written when it is unfolded: two hundred answers that nobody reads would make the page slow.
  const unfold = () => {
    if (details.childElementCount > 1) return;
    const texts = [sent, received].filter((text) => text !== '');
    details.append(...texts.map((text) => element('pre', { tabindex: '0' }, text)));
  };
  const details = element('details', { toggle: unfold }, line);
  return element('li', { class: 'entry' }, details);
}
