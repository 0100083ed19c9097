/**
 * The keyboard. Keys work while the focus is in the list or the message, never while a text is written or a dialog is
 * open.
 */

/**
 * @typedef {object} Deeds what keys do, by name
 * @property {(step: number | 'first' | 'last') => void} moveFocus
 * @property {() => void} leave
 * @property {(name: string) => void} onMessage does it to the message that is open or has the focus
 * @property {() => void} thread opens or closes a conversation
 * @property {() => void} undo
 * @property {() => void} write
 * @property {() => void} search
 * @property {() => void} help
 */

export const KEYS = {
  '↓ ↑': 'next, previous message (also j, k)',
  Enter: 'open the message',
  Esc: 'back to the list',
  c: 'write a message',
  'r a f': 'reply, reply to all, forward',
  t: 'open or close the conversation',
  s: 'star',
  u: 'read or unread',
  e: 'archive',
  m: 'move to a mailbox',
  '#': 'delete (also Delete)',
  z: 'undo',
  '/': 'search',
  '?': 'this list',
};

/** @type {Record<string, string>} */
const ON_MESSAGE = {
  r: 'reply',
  a: 'reply-all',
  f: 'forward',
  s: 'star',
  u: 'unread',
  e: 'archive',
  m: 'move',
  '#': 'delete',
  Delete: 'delete',
};

/** @type {Record<string, number | 'first' | 'last'>} */
const STEPS = { ArrowDown: 1, j: 1, ArrowUp: -1, k: -1, Home: 'first', End: 'last' };

/**
 * @param {HTMLElement} list where arrows go from row to row
 * @param {Deeds} deeds
 */
export function listenToKeys(list, deeds) {
  addEventListener('keydown', (event) => {
    const { key, target } = event;
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
    if (!(target instanceof HTMLElement) || document.querySelector('dialog[open]')) return;
    const step = STEPS[key];
    if (target.matches('input, textarea, select')) {
      if (key === 'ArrowDown' && target.id === 'search') deeds.moveFocus('first');
      return;
    }
    const name = ON_MESSAGE[key];
    if (key === 'Escape') deeds.leave();
    else if (target.closest('#compose-pane')) return;
    else if (!target.closest('#inbox') && target !== document.body) return;
    // In a text the arrows scroll.
    else if (step !== undefined && (list.contains(target) || /^[jk]$/.test(key))) {
      deeds.moveFocus(step);
    } else if (name !== undefined) deeds.onMessage(name);
    else if (key === 't') deeds.thread();
    else if (key === 'z') deeds.undo();
    else if (key === 'c') deeds.write();
    else if (key === '/') deeds.search();
    else if (key === '?') deeds.help();
    else return;
    event.preventDefault();
  });
}
