/** What a button or a key does that only sets a value. */
import type { Ref } from 'vue';

export const sets =
  <Value>(ref: Ref<Value>, value: Value) =>
  (): void => {
    ref.value = value;
  };

/** For a field that is written in: what is in it now. */
export const onText = (take: (text: string) => void) => (event: Event) =>
  take((event.target as HTMLInputElement | HTMLTextAreaElement).value);

/** On, or off again. */
export const turns = (ref: Ref<boolean>) => (): void => {
  ref.value = !ref.value;
};
