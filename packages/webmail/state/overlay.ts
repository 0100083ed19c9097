/** What lies over the page: one dialog at a time. */
import { shallowRef } from 'vue';

export type Overlay = 'move' | 'pending' | 'outgoing' | 'settings' | 'help';

export const overlay = shallowRef<Overlay>();

/** For a button or a key that opens it. */
export const opens = (what: Overlay) => () => {
  overlay.value = what;
};

export const closeOverlay = (): void => {
  overlay.value = undefined;
};
