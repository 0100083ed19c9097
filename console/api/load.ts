/**
 * What a screen reads from the API: loaded when its inputs change, when asked, and again and again while the page is
 * seen. The answer of before stays while the next one is awaited, and when that fails: `at` says how old it is.
 */
import { computed, onScopeDispose, type Ref, ref, shallowRef, watch } from 'vue';
import { live } from '../remembered.ts';
import { ApiError } from './client.ts';
import type { Page } from './types.ts';

/** How often a list is read again that does not say otherwise. */
const LIST_EVERY_MS = 60_000;
/** The console waits so many times as long as the answer took: it never is what keeps the service busy. */
const REST_FACTOR = 10;

export interface Loaded<Data> {
  readonly data: Readonly<Ref<Data | undefined>>;
  readonly error: Readonly<Ref<ApiError | undefined>>;
  /** Whether `data` is of other inputs, or a newer one was asked for; looks by the timer do not count. */
  readonly isLoading: Readonly<Ref<boolean>>;
  /** When `data` was read, in milliseconds since 1970. */
  readonly at: Readonly<Ref<number | undefined>>;
  reload(): Promise<void>;
}

/** Any failure as one that can be shown. */
export function asApiError(error: unknown): ApiError {
  return error instanceof ApiError ? error : new ApiError(0, 'failed', String(error));
}

const onScreen = new Set<() => Promise<void>>();

/** Reads all anew that is on the screen: after something was done from elsewhere. */
export async function reloadScreen(): Promise<void> {
  await Promise.all([...onScreen].map((reload) => reload()));
}

/**
 * Asks when `input` changes, and `everyMs` after each answer while the page is seen. An answer that is overtaken by a
 * later question is dropped.
 *
 * @param take gets each answer, and whether the timer asked for it
 */
function follow<Input, Answer>(
  input: () => Input,
  fetchIt: (input: Input, signal: AbortSignal) => Promise<Answer>,
  take: (answer: Answer, isByTimer: boolean) => void,
  everyMs: number | undefined,
): Omit<Loaded<Answer>, 'data' | 'error'> & { error: Ref<ApiError | undefined> } {
  const error = shallowRef<ApiError>();
  const isLoading = ref(true);
  const at = ref<number>();
  let running = new AbortController();
  let timer: ReturnType<typeof setTimeout> | undefined;
  let isDue = false;
  let isLeft = false;

  async function askNow(isByTimer: boolean): Promise<void> {
    // What was done from a screen may end when nobody sees it any more: it would ask on and on.
    if (isLeft) return;
    clearTimeout(timer);
    running.abort();
    const mine = new AbortController();
    running = mine;
    isLoading.value ||= !isByTimer;
    const start = performance.now();
    try {
      const answer = await fetchIt(input(), mine.signal);
      if (mine.signal.aborted) return;
      take(answer, isByTimer && !isLoading.value);
      at.value = Date.now();
      error.value = undefined;
    } catch (failure) {
      if (mine.signal.aborted) return;
      error.value = asApiError(failure);
    }
    isLoading.value = false;
    if (everyMs === undefined) return;
    const rest = Math.max(everyMs, REST_FACTOR * (performance.now() - start));
    timer = setTimeout(look, rest);
  }
  function look(): void {
    isDue = document.hidden;
    if (!isDue) void askNow(true);
  }
  const lookIfDue = () => void (isDue && look());
  document.addEventListener('visibilitychange', lookIfDue);
  onScopeDispose(() => {
    document.removeEventListener('visibilitychange', lookIfDue);
    clearTimeout(timer);
    running.abort();
    isLeft = true;
  });

  const reload = () => askNow(false);
  onScreen.add(reload);
  onScopeDispose(() => onScreen.delete(reload));
  watch(() => JSON.stringify(input()), reload, { immediate: true });
  return { error, isLoading, at, reload };
}

/** Loads one answer; `everyMs` left out, it is not looked at again. */
export function load<Input, Data>(
  input: () => Input,
  fetchIt: (input: Input, signal: AbortSignal) => Promise<Data>,
  everyMs?: number,
): Loaded<Data> {
  const data = shallowRef<Data>();
  const take = (answer: Data) => {
    data.value = answer;
  };
  return { data, ...follow(input, fetchIt, take, everyMs) };
}

export interface LoadedList<Item> extends Loaded<readonly Item[]> {
  readonly keyOf: (item: Item) => string | number;
  readonly hasMore: Readonly<Ref<boolean>>;
  /** How many there are on all pages, where the API says so. */
  readonly total: Readonly<Ref<number | undefined>>;
  /** How many new rows wait to be shown; 0: only the order or the end changed; undefined: nothing waits. */
  readonly waiting: Readonly<Ref<number | undefined>>;
  /** Shows what waits. */
  showWaiting(): void;
  /** Loads the next page and adds it. */
  more(): Promise<void>;
  /** Says when rows may not move: `ListTable` sets it. */
  isHeld: () => boolean;
}

/**
 * Loads a list page by page. A look by the timer changes known rows in place; rows come, go and move only where Live
 * is on and nobody works in the list (`isHeld`), else the new page waits behind a button.
 *
 * @param keyOf what tells one item from another
 */
export function loadList<Input, Item>(
  input: () => Input,
  fetchPage: (input: Input, cursor: string | undefined, signal: AbortSignal) => Promise<Page<Item>>,
  keyOf: (item: Item) => string | number,
  everyMs = LIST_EVERY_MS,
): LoadedList<Item> {
  const items = shallowRef<readonly Item[]>();
  const cursor = ref<string>();
  const total = ref<number>();
  const hasMore = computed(() => cursor.value !== undefined);
  const waiting = ref<number>();
  let next: Page<Item> | undefined;
  let pages = 0;
  /** How often a first page was shown, and behind which of them a further one is awaited. */
  let begun = 0;
  let addingTo: number | undefined;

  const show = (page: Page<Item>) => {
    begun++;
    pages = 0;
    next = undefined;
    waiting.value = undefined;
    add(page, []);
  };
  const add = (page: Page<Item>, before: readonly Item[]) => {
    items.value = [...before, ...page.items];
    cursor.value = page.cursor;
    total.value = page.total ?? total.value;
    pages++;
  };
  const take = (page: Page<Item>, isByTimer: boolean) => {
    const shown = items.value;
    if (!isByTimer || !shown) return show(page);
    const isHeld = addingTo === begun || list.isHeld();
    if (pages === 1 && live.value === 'on' && !isHeld) return show(page);
    const fresh = new Map(page.items.map((item) => [keyOf(item), item]));
    items.value = shown.map((item) => fresh.get(keyOf(item)) ?? item);
    total.value = page.total ?? total.value;
    const known = new Set(shown.map(keyOf));
    const isSame =
      page.items.every((item, index) => shown[index] && keyOf(item) === keyOf(shown[index])) &&
      (page.cursor !== undefined || page.items.length === shown.length);
    next = isSame ? undefined : page;
    waiting.value = next?.items.filter((item) => !known.has(keyOf(item))).length;
  };
  const followed = follow(
    input,
    (value, signal) => fetchPage(value, undefined, signal),
    take,
    everyMs,
  );
  async function more(): Promise<void> {
    // A second press would ask for the same page.
    if (addingTo === begun) return;
    const began = begun;
    addingTo = began;
    try {
      const page = await fetchPage(input(), cursor.value, new AbortController().signal);
      // Overtaken by other filters, or by what waited.
      if (began === begun) add(page, items.value ?? []);
    } catch (failure) {
      if (began === begun) followed.error.value = asApiError(failure);
    } finally {
      if (addingTo === began) addingTo = undefined;
    }
  }
  const list: LoadedList<Item> = {
    ...followed,
    data: items,
    hasMore,
    total,
    waiting,
    keyOf,
    isHeld: () => false,
    showWaiting: () => next && show(next),
    more,
  };
  return list;
}
