/** What is open for reading: a conversation with its messages in all mailboxes, or one message. */
import { computed, shallowRef, watch } from 'vue';
import type { MailMessage, MessageId } from '../../sdk/src/mail/client.ts';
import type { Row } from '../list/rows.ts';
import { list } from '../list/source.ts';
import { current, type OpenAccount, specialUseOf, waitsAs } from '../state/accounts.ts';
import { write } from '../state/parts.ts';
import { byThread } from '../state/remembered.ts';
import { go, type Route, route } from '../state/route.ts';
import { reasonOf } from '../ui/format.ts';

interface Opened {
  /** Oldest first; empty while it is read. */
  readonly messages: readonly MailMessage[];
  readonly error: string | undefined;
}

const found = shallowRef<Opened>();

const opened = computed(
  () => found.value && { ...found.value, messages: withoutDrafts(found.value.messages) },
);

export const reading = {
  opened,
  /** The messages that an action is for: those of the mailbox that is shown. */
  here: computed(() =>
    (opened.value?.messages ?? []).filter(({ mailbox }) => mailbox === route.value.mailbox),
  ),
};

/** Whether a row is the one that is open. */
export function isOpen({ latest }: Row): boolean {
  const { open, mailbox } = route.value;
  if (open?.kind === 't') return latest.threadId === open.id;
  return open?.id === String(latest.id) && mailbox === latest.mailbox;
}

/** Opens a row for reading; a draft, for writing. */
export function openRow({ latest, isChild }: Row, how: 'push' | 'replace'): void {
  const account = current.value;
  if (!account) return;
  const { mailbox, threadId, id, flags } = latest;
  const isDraft = flags.includes('\\Draft') || specialUseOf(mailbox) === '\\Drafts';
  if (isDraft && !waitsAs(latest)) {
    write({ kind: 'draft', account, about: latest });
    return;
  }
  const asThread = byThread.value && !isChild && threadId !== undefined;
  const open: Route['open'] = asThread
    ? { kind: 't', id: threadId }
    : { kind: 'm', id: String(id) };
  go({ ...route.value, address: account.address, mailbox, open }, how);
}

/** Mailboxes whose messages belong to no conversation elsewhere. */
const APART = ['\\Trash', '\\Junk'];

async function read(
  account: OpenAccount,
  { mailbox, open }: Route,
): Promise<readonly MailMessage[]> {
  if (!open) return [];
  if (open.kind === 'm') {
    const id = (open.id.startsWith('~') ? open.id : Number(open.id)) as MessageId;
    const known = list.source.value.messages.find(
      (message) => message.id === id && message.mailbox === mailbox,
    );
    return [known ?? (await account.client.mailbox(mailbox).read(id)).message];
  }
  const { messages } = await account.client.thread(open.id);
  const own = messages.filter(
    (message) => message.mailbox === mailbox || !APART.includes(specialUseOf(message.mailbox)),
  );
  if (own.length > 0) return own;
  // A match of a search may be of a mailbox that the copy does not have yet.
  const matches = list.source.value.messages.filter(({ threadId }) => threadId === open.id);
  const mayCome = ['cached', 'syncing'].includes(account.live.state) || list.source.value.isLoading;
  if (matches.length === 0 && !mayCome) throw new Error('it was moved or deleted');
  return matches.toReversed();
}

/** Of mail that waits the copy in Sent is shown, and not the draft beside it: from the moment on at which it says so. */
function withoutDrafts(messages: readonly MailMessage[]): readonly MailMessage[] {
  const names = new Set(messages.map(({ envelope }) => envelope.messageId));
  return messages.filter((message) => {
    const { messageId } = waitsAs(message) ?? message.envelope;
    return messageId === message.envelope.messageId || !names.has(messageId);
  });
}

/** Follows what the page has open. */
export function followOpened(): void {
  watch(
    () =>
      [current.value, route.value.open?.kind, route.value.open?.id, route.value.mailbox].join('\n'),
    () => {
      found.value = route.value.open && { messages: [], error: undefined };
    },
    { immediate: true, flush: 'sync' },
  );
  watch(
    () => [current.value, route.value, list.source.value, current.value?.live.state] as const,
    async ([account, asked], _before, onCleanup) => {
      if (!account || !asked.open) return;
      // What was asked for last is shown, whichever answer comes first.
      let isOver = false;
      onCleanup(() => {
        isOver = true;
      });
      const now = await read(account, asked).then(
        (messages) => ({ messages, error: undefined }),
        (error: unknown) => ({ messages: [], error: reasonOf(error) }),
      );
      if (!isOver) found.value = now;
    },
    { immediate: true },
  );
}
