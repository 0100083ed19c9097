/**
 * Keys of the whole page.
 *
 * `useKeys({ j: next, 'g i': toInbox, 'Control+Enter': send })` while a component is there; of several that know a
 * key the one that came last gets it. Single keys do nothing where text is typed, under a dialog or a menu, and where
 * they are switched off; those with Control always work.
 */
import { onBeforeUnmount, onMounted } from 'vue';
import { singleKeys } from '../state/remembered.ts';

export type Keys = Readonly<Record<string, (event: KeyboardEvent) => void>>;

const layers: Keys[] = [];
/** After the first key of two, this long is waited for the second, in milliseconds. */
const SECOND_KEY_MS = 1500;
let first = { key: '', at: 0 };

const TYPED = 'input:not([type="checkbox"]), textarea, select, [contenteditable]';
const ABOVE = 'dialog[open], [role="menu"]:popover-open';

function find(name: string) {
  return layers.findLast((layer) => layer[name])?.[name];
}

/** Does what a key does; for keys that were pressed within a frame as well. */
export function pressKey(event: KeyboardEvent): void {
  if (event.defaultPrevented || event.altKey || event.isComposing) return;
  if (event.ctrlKey || event.metaKey) {
    find(`Control+${event.key}`)?.(event);
    return;
  }
  const target = event.target instanceof Element ? event.target : document.body;
  if (document.querySelector(ABOVE)) return;
  const isTyped = target.closest(TYPED) !== null;
  if (event.key !== 'Escape' && (isTyped || !singleKeys.value)) return;
  const second =
    event.timeStamp - first.at < SECOND_KEY_MS ? find(`${first.key} ${event.key}`) : undefined;
  first = { key: event.key, at: event.timeStamp };
  const act = second ?? find(event.key);
  if (!act) return;
  event.preventDefault();
  act(event);
}

addEventListener('keydown', pressKey);

export function useKeys(layer: Keys): void {
  onMounted(() => layers.push(layer));
  onBeforeUnmount(() => {
    layers.splice(layers.indexOf(layer), 1);
  });
}
