/** What lies over the page: one dialog at a time. */
import { shallowRef } from 'vue';
import { sets } from '../ui/sets.ts';

export type Overlay = 'move' | 'pending' | 'outgoing' | 'settings' | 'help' | 'sign-in';

export const overlay = shallowRef<Overlay>();

/** For a button or a key that opens it. */
export const opens = (what: Overlay): (() => void) => sets(overlay, what);
export const closeOverlay = sets(overlay, undefined);
