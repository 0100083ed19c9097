/** What this browser remembers of how the webmail is used. */
import { type Ref, ref, watch } from 'vue';

/**
 * A value that a reload keeps.
 *
 * @param usual what it is until somebody chooses; it is not stored
 */
function remember<Value>(name: string, usual: Value): Ref<Value> {
  const key = `postroom-webmail-${name}`;
  const read = (): Value => {
    try {
      return JSON.parse(localStorage.getItem(key) ?? '');
    } catch {
      return usual;
    }
  };
  const value = ref(read()) as Ref<Value>;
  watch(
    value,
    (chosen) => {
      if (JSON.stringify(chosen) === JSON.stringify(usual)) localStorage.removeItem(key);
      else localStorage.setItem(key, JSON.stringify(chosen));
    },
    // A page that is left next has stored it.
    { deep: true, flush: 'sync' },
  );
  // Another tab chose.
  addEventListener('storage', (event) => {
    if (event.storageArea === localStorage && event.key === key) value.value = read();
  });
  return value;
}

export const theme = remember<'system' | 'light' | 'dark'>('theme', 'system');
/** Whether single keys do something (WCAG 2.1.4). */
export const singleKeys = remember('keys', true);
/** Whether the list shows conversations, or each message. */
export const byThread = remember('threads', true);
/** Seconds in which a sent mail can be taken back. */
export const undoSeconds = remember('undo', 10);
/** Plain text below new mail, by address. */
export const signatures = remember<Record<string, string>>('signatures', {});
/** Addresses in lower case whose remote pictures are shown without asking. */
export const picturesFrom = remember<string[]>('pictures', []);
