/** What the list shows: a mailbox as it changes, or what a search found. */
import { computed, shallowReactive, shallowRef, watch } from 'vue';
import type { MailboxView, MailMessage } from '../../sdk/src/mail/client.ts';
import { readQuery } from '../search/read-query.ts';
import { current, type OpenAccount } from '../state/accounts.ts';
import { titleOf } from '../state/describe.ts';
import { byThread } from '../state/remembered.ts';
import { route } from '../state/route.ts';
import { keyOf, messageOf, type Row, RowMaker, unfold } from './rows.ts';

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
}

const nothing: Source = {
  messages: [],
  total: 0,
  isLoading: true,
  error: undefined,
  isOffline: false,
  isIndexing: false,
};

const source = shallowRef<Source>(nothing);
const unfolded = shallowReactive(new Set<string>());
/** Matches that an action took away, until the search is made again. */
const gone = shallowReactive(new Set<string>());
const maker = new RowMaker();

let limit = FIRST_LIMIT;
let stop: () => void = () => undefined;
let more: () => void = () => undefined;

const threads = computed(() => {
  const messages = source.value.messages.filter((message) => !gone.has(keyOf(message)));
  return maker.make(messages, { byThread: byThread.value && !route.value.query });
});

export const list = {
  source,
  rows: computed<readonly Row[]>(() => unfold(threads.value, unfolded)),
  /** Rows that are not read yet: the list is as high as if they were there. */
  missing: computed(() =>
    route.value.query ? 0 : Math.max(0, source.value.total - source.value.messages.length),
  ),
  unfolded,
  toggle(key: string): void {
    if (!unfolded.delete(key)) unfolded.add(key);
  },
  /** Reads more of the copy, or the next page of a search. */
  more: () => more(),
  hide: (messages: readonly MailMessage[]) => {
    if (route.value.query) for (const message of messages) gone.add(keyOf(message));
  },
  unhide: () => gone.clear(),
};

/** Follows the mailbox that the page shows. */
export function followList(): void {
  watch(
    // A match that is open changes the mailbox of the route, and not what was found.
    [
      current,
      () => (route.value.query ? '' : route.value.mailbox),
      () => route.value.query,
    ] as const,
    ([account, mailbox, query]) => {
      stop();
      stop = () => undefined;
      more = () => undefined;
      source.value = nothing;
      limit = FIRST_LIMIT;
      unfolded.clear();
      gone.clear();
      if (!account) return;
      if (query) searchFor(account, query);
      else follow(account, mailbox);
    },
    { immediate: true },
  );
}

function follow(account: OpenAccount, mailbox: string): void {
  const handle = account.client.mailbox(mailbox);
  const tell = ({ messages, total, state }: MailboxView) => {
    const isLoading = messages.length === 0 && total === 0 && state === 'syncing';
    source.value = { ...nothing, messages, total, isLoading };
  };
  const begin = () => {
    stop();
    stop = handle.watch({ limit }, tell);
  };
  more = () => {
    const { messages, total } = source.value;
    // Not again before what was asked for is there.
    if (messages.length < limit || messages.length >= total) return;
    limit *= 3;
    begin();
  };
  begin();
}

/** A mailbox as somebody types it: by its name or title, in any case. */
function mailboxOf({ live }: OpenAccount, typed: string): string {
  const wanted = typed.toLowerCase();
  const found = live.mailboxes.find(
    (one) => one.name.toLowerCase() === wanted || titleOf(one).toLowerCase() === wanted,
  );
  return found?.name ?? typed;
}

function searchFor(account: OpenAccount, query: string): void {
  const { client } = account;
  const controller = new AbortController();
  stop = () => controller.abort();
  let cursor: string | undefined;
  const load = async (before: readonly MailMessage[]) => {
    source.value = { ...source.value, isLoading: true };
    more = () => undefined;
    try {
      const asked = readQuery(query);
      const { mailbox } = asked;
      const body = {
        ...asked,
        ...(mailbox !== undefined && { mailbox: mailboxOf(account, mailbox) }),
        ...(cursor !== undefined && { cursor }),
      };
      const found = await client.search(body, { signal: controller.signal });
      if (controller.signal.aborted) return;
      const messages = [...before, ...found.matches.map(messageOf)];
      source.value = {
        ...nothing,
        messages,
        total: messages.length,
        isLoading: false,
        isOffline: found.offline,
        isIndexing: found.indexing,
      };
      cursor = found.cursor;
      if (cursor !== undefined) more = () => void load(messages);
    } catch (error) {
      if (controller.signal.aborted) return;
      const reason = error instanceof Error ? error.message : String(error);
      source.value = { ...nothing, isLoading: false, error: reason };
    }
  };
  void load([]);
}
