/**
 * Keys of the whole page: `useKeys({ j: next, 'g i': toInbox })` while a component is there. They do nothing where text is
 * typed, under a dialog, a menu or another popover, and where they are switched off.
 */
import { onBeforeUnmount, onMounted } from 'vue';
import { singleKeys } from '../state/remembered.ts';
import { isNarrow } from '../state/route.ts';

type Keys = Readonly<Record<string, () => void>>;

let keys: Keys = {};
/** After the first key of two, this long is waited for the second, in milliseconds. */
const SECOND_KEY_MS = 1500;
let first = { key: '', at: 0 };

const TYPED = 'input:not([type="checkbox"]), textarea, select, [contenteditable]';
/** Enter presses them. */
const PRESSED = 'a, button, summary';
/** They go on while they are held; held, others would do to one message after the other what was meant for one. */
const HELD = /^[jk]$/;
const ABOVE = 'dialog[open], :popover-open';
/** On a phone, what covers the whole page. */
const COVERS = '.composer, .protocol';

/** Does what a key does; for keys that were pressed within a frame as well. */
export function pressKey(event: KeyboardEvent): void {
  const { key, timeStamp } = event;
  if (event.defaultPrevented || event.isComposing) return;
  if (event.altKey || event.ctrlKey || event.metaKey) return;
  if (document.querySelector(isNarrow.matches ? `${ABOVE}, ${COVERS}` : ABOVE)) return;
  if (event.repeat && !HELD.test(key)) return;
  const target = event.target instanceof Element ? event.target : document.body;
  if (key !== 'Escape' && (!singleKeys.value || target.closest(TYPED))) return;
  if (key === 'Enter' && target.closest(PRESSED)) return;
  const second = timeStamp - first.at < SECOND_KEY_MS ? keys[`${first.key} ${key}`] : undefined;
  first = { key, at: timeStamp };
  const act = second ?? keys[key];
  if (!act) return;
  event.preventDefault();
  act();
}

addEventListener('keydown', pressKey);

export function useKeys(ofPage: Keys): void {
  onMounted(() => {
    keys = ofPage;
  });
  onBeforeUnmount(() => {
    if (keys === ofPage) keys = {};
  });
}
