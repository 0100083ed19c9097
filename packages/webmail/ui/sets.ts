/** What a button or a key does that only gives a place its value. */
import type { Ref } from 'vue';

export const sets =
  <Value>(place: Ref<Value>, value: Value) =>
  (): void => {
    place.value = value;
  };

/** On, or off again. */
export const turns = (place: Ref<boolean>) => (): void => {
  place.value = !place.value;
};
