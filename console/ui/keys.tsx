/**
 * Single keys, and the dialog that names them.
 *
 * `useKeys({ j: next, 'Control+k': open })` while a component is there; of several that know a key the one that came
 * last gets it. Keys do nothing in inputs, under a dialog or menu, and where they are switched off (WCAG 2.1.4); those with
 * Control always work.
 */
import { defineComponent, onBeforeUnmount, onMounted, type Ref, ref, shallowRef } from 'vue';
import { keys } from '../remembered.ts';
import { Dialog } from './dialogs.tsx';
import type { Qualifier } from './search.ts';

type Keys = Readonly<Record<string, (event: KeyboardEvent) => void>>;

const layers = new Set<Keys>();

/** Where letters are typed. */
const TYPED = 'input:not([type="checkbox"]), textarea, select, [contenteditable]';
/** What lies over the page and has its own keys. */
const ABOVE = '.overlay, [role="menu"]';

addEventListener('keydown', (event) => {
  const isControl = event.ctrlKey || event.metaKey;
  if (event.defaultPrevented || event.altKey) return;
  if (document.querySelector(ABOVE)) return;
  if (!isControl && (keys.value === 'off' || (event.target as Element).closest(TYPED))) return;
  const name = isControl ? `Control+${event.key}` : event.key;
  [...layers].findLast((layer) => layer[name])?.[name]?.(event);
});

export function useKeys(layer: Keys): void {
  onMounted(() => layers.add(layer));
  onBeforeUnmount(() => layers.delete(layer));
}

/** Those of the box that is on the screen. */
export const qualifiers: Ref<readonly Qualifier[]> = shallowRef([]);
export const isHelpOpen = ref(false);

const named = [
  ['/', 'To the search box'],
  ['j k', 'Next row, row before'],
  ['Enter', 'Open the row'],
  ['x Shift+x', 'Choose the row; all rows up to it'],
  ['r', 'Load anew'],
  ['Esc', 'Choose none, close'],
  ['?', 'This help'],
] as const;

/** The dialog of keys and qualifiers; stands once in the page. */
export const Help = defineComponent(() => {
  useKeys({
    '?': () => {
      isHelpOpen.value = true;
    },
  });
  const close = () => {
    isHelpOpen.value = false;
  };
  const toggle = (event: Event) => {
    keys.value = (event.target as HTMLInputElement).checked ? 'on' : 'off';
  };
  return () =>
    isHelpOpen.value && (
      <Dialog title={qualifiers.value.length > 0 ? 'Search and keys' : 'Keys'} close={close}>
        {() => (
          <div class="help">
            {qualifiers.value.length > 0 && (
              <>
                <table>
                  <caption class="unseen">What the search box knows</caption>
                  <tbody>
                    {qualifiers.value.map(({ name, hint, example, values }) => (
                      <tr key={name}>
                        <th scope="row">
                          <code>
                            {name}:{example}
                          </code>
                        </th>
                        <td>
                          {hint}
                          {values && <span class="below">{values.join(', ')}</span>}
                        </td>
                      </tr>
                    ))}
                  </tbody>
                </table>
                <p class="soft">
                  A minus before a word excludes it: <code>-is:delivered</code>. Quotes keep spaces
                  together.
                </p>
              </>
            )}
            <table>
              <caption class="unseen">Keys</caption>
              <tbody>
                {named.map(([key, what]) => (
                  <tr key={key}>
                    <th scope="row">
                      {key.split(' ').map((one) => (
                        <kbd key={one}>{one}</kbd>
                      ))}
                    </th>
                    <td>{what}</td>
                  </tr>
                ))}
              </tbody>
            </table>
            <label class="choice">
              <input type="checkbox" checked={keys.value === 'on'} onChange={toggle} />
              Single keys do this
            </label>
            <div class="buttons">
              <button type="button" class="main" onClick={close}>
                Close
              </button>
            </div>
          </div>
        )}
      </Dialog>
    );
});
