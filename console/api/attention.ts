/** What needs somebody now: asked once for the menu and the overview, every 15 seconds. */
import { shallowRef } from 'vue';
import { read } from './client.ts';
import { type Loaded, load } from './load.ts';
import type { Attention } from './types.ts';

const EVERY_MS = 15_000;

/** There while somebody is signed in. */
export const attention = shallowRef<Loaded<Attention>>();

/** Asks as long as the component is there that calls it: the menu. */
export function followAttention(): void {
  attention.value = load(
    () => '',
    (_none, signal) => read<Attention>('/attention', {}, signal),
    EVERY_MS,
  );
}
