/** What this browser remembers of how the console is used; a usual choice is not stored. */
import { type Ref, ref, watchEffect } from 'vue';

/** A browser that keeps nothing of a site throws where it is asked what it has. */
function openStorage(): Storage | undefined {
  try {
    return localStorage;
  } catch {
    return undefined;
  }
}
const storage = openStorage();

function remember<Choice extends string>(name: string, choices: readonly Choice[]): Ref<Choice> {
  const key = `postroom-console-${name}`;
  const [usual] = choices as readonly [Choice, ...Choice[]];
  const stored = storage?.getItem(key);
  const choice = ref(choices.find((one) => one === stored) ?? usual) as Ref<Choice>;
  watchEffect(() => {
    if (choice.value === usual) storage?.removeItem(key);
    else storage?.setItem(key, choice.value);
  });
  return choice;
}

export const theme = remember('theme', ['system', 'light', 'dark']);
/** How high the rows of tables are. */
export const density = remember('density', ['normal', 'compact']);
/** Whether new rows come into a list by themselves while nobody works in it. */
export const live = remember('live', ['on', 'off']);
/** Whether single keys do something. */
export const keys = remember('keys', ['on', 'off']);
/** The zone of all times that are shown. */
export const zone = remember('zone', ['local', 'UTC']);
