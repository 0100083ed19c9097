/** What the list shows: a mailbox as it changes, or what a search found. */
import { computed, shallowReactive, shallowRef, watch } from 'vue';
import type { MailboxView, MailMessage } from '../../sdk/src/mail/client.ts';
import { readQuery } from '../search/read-query.ts';
import { current, type OpenAccount } from '../state/accounts.ts';
import { titleOf } from '../state/describe.ts';
import { byThread } from '../state/remembered.ts';
import { route } from '../state/route.ts';
import { reasonOf } from '../ui/format.ts';
import { sayFailure } from '../ui/toasts.tsx';
import { keyOf, makeRows, messageOf } from './rows.ts';

/** Until a search is made again whose newest mail is not indexed yet; each time twice as long. */
const FIRST_WAIT_MS = 1000;
/** Messages that are read from the copy at first; scrolling down reads more. */
const FIRST_LIMIT = 200;

interface Source {
  readonly messages: readonly MailMessage[];
  /** Of all that match. */
  readonly total: number;
  readonly isLoading: boolean;
  readonly error: string | undefined;
  /** Only what the copy knows was looked through. */
  readonly isOffline: boolean;
  /** Some of the newest mail is not in the index yet. */
  readonly isIndexing: boolean;
  /** A search found more than was read. */
  readonly hasMore: boolean;
}

const nothing: Source = {
  messages: [],
  total: 0,
  isLoading: true,
  error: undefined,
  isOffline: false,
  isIndexing: false,
  hasMore: false,
};

const source = shallowRef<Source>(nothing);
const unfolded = shallowReactive(new Set<string>());
/** Matches that an action took away, until the search is made again. */
const gone = shallowReactive(new Set<string>());
const messages = computed(() =>
  source.value.messages.filter((message) => !gone.has(keyOf(message))),
);

/** Ends what fills the list, and reads more of it. */
interface Filling {
  stop(): void;
  more(): void;
}
let filling: Filling | undefined;

export const list = {
  source,
  /** Those that are shown. */
  messages,
  rows: computed(() => makeRows(messages.value, { byThread: byThread.value, unfolded })),
  /** Rows that are not read yet: the list is as high as if they were there. */
  missing: computed(() =>
    route.value.query ? 0 : Math.max(0, source.value.total - source.value.messages.length),
  ),
  unfolded,
  toggle(key: string): void {
    if (!unfolded.delete(key)) unfolded.add(key);
  },
  /** Reads more of the copy, or the next page of a search. */
  more: () => filling?.more(),
  hide: (messages: readonly MailMessage[]) => {
    if (route.value.query) for (const message of messages) gone.add(keyOf(message));
  },
  unhide: () => gone.clear(),
};

/** What the list is of; a match that is open changes the mailbox of the route, and not what was found. */
export const listName = computed(() => {
  const { address, mailbox, query } = route.value;
  return JSON.stringify([current.value?.address ?? address, query ? '' : mailbox, query]);
});

/** Follows the mailbox that the page shows. */
export function followList(): void {
  watch(
    [current, listName, () => current.value?.client] as const,
    ([account]) => {
      const { mailbox, query } = route.value;
      filling?.stop();
      source.value = nothing;
      unfolded.clear();
      gone.clear();
      filling = account && (query ? searchFor(account, query) : follow(account, mailbox));
    },
    { immediate: true },
  );
}

function follow(account: OpenAccount, mailbox: string): Filling {
  const handle = account.client.mailbox(mailbox);
  const tell = ({ messages, total, state }: MailboxView) => {
    const isLoading = messages.length === 0 && total === 0 && state === 'syncing';
    source.value = { ...nothing, messages, total, isLoading };
  };
  let limit = FIRST_LIMIT;
  let stop = handle.watch({ limit }, tell);
  return {
    stop: () => stop(),
    more() {
      const { messages, total } = source.value;
      // Not again before what was asked for is there.
      if (messages.length < limit || messages.length >= total) return;
      limit *= 3;
      stop();
      stop = handle.watch({ limit }, tell);
    },
  };
}

/** A mailbox as somebody types it: by its name or title, in any case. */
function mailboxOf({ live }: OpenAccount, typed: string): string {
  const wanted = typed.toLowerCase();
  const found = live.mailboxes.find((one) =>
    [one.name.toLowerCase(), titleOf(one).toLowerCase()].includes(wanted),
  );
  return found?.name ?? typed;
}

function searchFor(account: OpenAccount, query: string): Filling {
  const controller = new AbortController();
  const { signal } = controller;
  const { mailbox, ...asked } = readQuery(query);
  const body = { ...asked, ...(mailbox && { mailbox: mailboxOf(account, mailbox) }) };
  let cursor: string | undefined;
  let wait = FIRST_WAIT_MS;
  /** @param before what is shown already */
  const load = async (before: readonly MailMessage[] = []) => {
    const next = cursor;
    cursor = undefined;
    source.value = { ...source.value, isLoading: true };
    try {
      const found = await account.client.search(
        { ...body, ...(next !== undefined && { cursor: next }) },
        { signal },
      );
      if (signal.aborted) return;
      const messages = [...before, ...found.matches.map(messageOf)];
      source.value = {
        ...nothing,
        messages,
        total: messages.length,
        isLoading: false,
        isOffline: found.offline,
        isIndexing: found.indexing,
        hasMore: found.cursor !== undefined,
      };
      cursor = found.cursor;
      // New mail may match once it is indexed. Who has read on keeps what he sees.
      const again = () => {
        const { messages: seen, isLoading } = source.value;
        if (!signal.aborted && seen === messages && !isLoading) void load();
      };
      if (found.indexing && before.length === 0) setTimeout(again, wait);
      wait *= 2;
    } catch (error) {
      if (signal.aborted) return;
      // What was found before stays.
      source.value = { ...source.value, isLoading: false, error: reasonOf(error) };
      if (before.length > 0) sayFailure('The search could not go on', error);
    }
  };
  void load();
  // What was found without a network, or not at all, is looked for anew.
  const stopWatching = watch(
    () => account.live.state === 'live',
    (isLive) => {
      const { isOffline, error } = source.value;
      if (isLive && (isOffline || error)) void load();
    },
  );
  return {
    stop() {
      stopWatching();
      controller.abort();
    },
    more() {
      if (cursor !== undefined) void load(source.value.messages);
    },
  };
}
