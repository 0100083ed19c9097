/** What a component waits for, and why it did not come. */
import { type FunctionalComponent, onScopeDispose, ref, shallowReactive } from 'vue';
import { Button } from './button.tsx';
import { reasonOf } from './format.ts';

interface Loaded<Value> {
  /** Not deep: what Vue puts around an object of the SDK has none of its private members. */
  value: Value | undefined;
  failure: string | undefined;
  /** Loads it anew. */
  again(): void;
}

/** Loads something for a component; a component that has to load another thing is another one (`key`). */
export function useLoaded<Value>(load: () => Promise<Value>): Loaded<Value> {
  const loaded = shallowReactive<Loaded<Value>>({
    value: undefined,
    failure: undefined,
    again() {
      loaded.failure = undefined;
      load()
        .then((value) => {
          loaded.value = value;
        })
        .catch((error: unknown) => {
          loaded.failure = reasonOf(error);
        });
    },
  });
  loaded.again();
  // What failed without a network is loaded once there is one.
  const gone = new AbortController();
  addEventListener('online', () => loaded.failure !== undefined && loaded.again(), gone);
  onScopeDispose(() => gone.abort());
  return loaded;
}

/** What a form does that is sent: one time after the other. */
export function useSubmit(act: (form: FormData) => Promise<unknown>, explain = reasonOf) {
  const error = ref<string>();
  const isBusy = ref(false);
  const submit = async (event: Event) => {
    event.preventDefault();
    if (isBusy.value) return;
    isBusy.value = true;
    error.value = undefined;
    try {
      await act(new FormData(event.target as HTMLFormElement));
    } catch (failure) {
      error.value = explain(failure);
    } finally {
      isBusy.value = false;
    }
  };
  return { error, isBusy, submit: (event: Event) => void submit(event) };
}

/** Why something is not as the user wants it. */
export const Failure: FunctionalComponent<{ text: string | undefined }> = ({ text }, { slots }) =>
  text !== undefined && (
    <p class="notice bad" role="alert">
      {text} {slots.default?.()}
    </p>
  );

/** Stands in the place of what is loaded until it is there. */
export const Waiting: FunctionalComponent<{ of: Loaded<unknown> }> = ({ of }, { slots }) =>
  of.failure === undefined ? (
    <p class="soft">Loading… {slots.default?.()}</p>
  ) : (
    <Failure text={of.failure}>
      <Button class="link" label="Try again" press={of.again} />
      {slots.default?.()}
    </Failure>
  );
