/** What a screen reads from the API: loaded when its inputs change, and again when asked. */
import { onScopeDispose, type Ref, ref, shallowRef, watch } from 'vue';
import { ApiError } from './client.ts';
import type { Page } from './types.ts';

export interface Loaded<Data> {
  /** The newest answer; that of before is kept while the next one is awaited. */
  readonly data: Readonly<Ref<Data | undefined>>;
  readonly error: Readonly<Ref<ApiError | undefined>>;
  readonly isLoading: Readonly<Ref<boolean>>;
  reload(): Promise<void>;
}

/** Any failure as one that can be shown. */
export function asApiError(error: unknown): ApiError {
  return error instanceof ApiError ? error : new ApiError(0, 'failed', String(error));
}

/**
 * Loads when `input` changes; an answer that is overtaken by a later question is dropped.
 *
 * @param everyMs how often it is loaded again while the page is visible; left out, never
 */
export function load<Input, Data>(
  input: () => Input,
  fetchIt: (input: Input, signal: AbortSignal) => Promise<Data>,
  everyMs?: number,
): Loaded<Data> {
  const data = shallowRef<Data>();
  const error = shallowRef<ApiError>();
  const isLoading = ref(true);
  let running = new AbortController();

  async function reload(): Promise<void> {
    running.abort();
    const mine = new AbortController();
    running = mine;
    isLoading.value = true;
    try {
      const answer = await fetchIt(input(), mine.signal);
      if (mine.signal.aborted) return;
      data.value = answer;
      error.value = undefined;
    } catch (failure) {
      if (mine.signal.aborted) return;
      error.value = asApiError(failure);
    }
    isLoading.value = false;
  }

  watch(
    () => JSON.stringify(input()),
    () => {
      data.value = undefined;
      void reload();
    },
    { immediate: true },
  );
  const timer = everyMs && setInterval(() => document.hidden || void reload(), everyMs);
  onScopeDispose(() => {
    clearInterval(timer);
    running.abort();
  });
  return { data, error, isLoading, reload };
}

export interface LoadedList<Item> extends Loaded<readonly Item[]> {
  readonly hasMore: Readonly<Ref<boolean>>;
  /** Loads the next page and adds it. */
  more(): Promise<void>;
}

/** Loads a list page by page. */
export function loadList<Input, Item>(
  input: () => Input,
  fetchPage: (input: Input, cursor: string | undefined, signal: AbortSignal) => Promise<Page<Item>>,
): LoadedList<Item> {
  const items = shallowRef<readonly Item[]>();
  const cursor = ref<string>();
  const { error, isLoading, reload, data } = load(input, (value, signal) =>
    fetchPage(value, undefined, signal),
  );
  const failed = shallowRef<ApiError>();
  const hasMore = ref(false);
  watch(
    data,
    (page) => {
      items.value = page?.items;
      cursor.value = page?.cursor;
      hasMore.value = page?.cursor !== undefined;
      failed.value = undefined;
    },
    { immediate: true },
  );
  watch(error, (value) => {
    failed.value = value;
  });

  async function more(): Promise<void> {
    const before = data.value;
    const from = cursor.value;
    try {
      const page = await fetchPage(input(), from, new AbortController().signal);
      // Overtaken by other filters, or by a second press that asked for the same page.
      if (data.value !== before || cursor.value !== from) return;
      items.value = [...(items.value ?? []), ...page.items];
      cursor.value = page.cursor;
      hasMore.value = page.cursor !== undefined;
    } catch (failure) {
      failed.value = asApiError(failure);
    }
  }
  return { data: items, error: failed, isLoading, hasMore, reload, more };
}
