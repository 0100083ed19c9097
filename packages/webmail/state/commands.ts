/** What buttons and keys do with the rows that are chosen, with the active one, or with what is open. */
import { computed, shallowRef } from 'vue';
import { isUnread, type Row } from '../list/rows.ts';
import { selection } from '../list/selection.ts';
import { list } from '../list/source.ts';
import { isOpen, openRow, reading } from '../thread/opened.ts';
import { count } from '../ui/format.ts';
import { ask } from '../ui/questions.tsx';
import { announce } from '../ui/toasts.tsx';
import { current } from './accounts.ts';
import type { Target } from './actions.ts';
import * as actions from './actions.ts';
import { write } from './parts.ts';
import { closeOpen, route } from './route.ts';

/** Whether the dialog that asks where to move is open. */
export const isMoveOpen = shallowRef(false);

/** One pane at a time. */
export const isNarrow = matchMedia('(max-width: 720px)');

export const target = computed<Target>(() => {
  const { chosen, isAll, targets } = selection;
  if (isAll.value && !route.value.query) {
    return { allOf: route.value.mailbox, total: list.source.value.total };
  }
  if (chosen.size === 0 && reading.here.value.length > 0) return { messages: reading.here.value };
  return { messages: targets.value.flatMap(({ messages }) => messages) };
});

/** Messages of the target that are known by name. */
const known = computed(() =>
  'messages' in target.value ? target.value.messages : list.source.value.messages,
);

export const state = {
  /** The special use of the mailbox that is shown. */
  use: computed(() => {
    const { mailbox } = route.value;
    const found = current.value?.live.mailboxes.find(({ name }) => name === mailbox);
    return found?.specialUse ?? (mailbox === 'INBOX' ? 'INBOX' : undefined);
  }),
  isUnread: computed(() => known.value.some(isUnread)),
  isStarred: computed(
    () => known.value.length > 0 && known.value.every(({ flags }) => flags.includes('\\Flagged')),
  ),
};

/** Does something that takes the messages away, and goes on with what comes next. */
function leave(act: (target: Target) => Promise<void>): void {
  const what = target.value;
  const rows = list.rows.value;
  const opened = rows.findIndex(isOpen);
  const acts = selection.chosen.size === 0 && route.value.open !== undefined;
  if (acts) {
    const next = rows[opened + 1] ?? rows[opened - 1];
    if (next && !isNarrow.matches && opened >= 0) openRow(next, 'replace');
    else closeOpen();
  }
  selection.clear();
  void act(what);
}

export const commands = {
  archive: () => leave(actions.archive),
  spam: () => leave(state.use.value === '\\Junk' ? actions.notSpam : actions.markSpam),
  moveTo: (mailbox: string) => leave((what) => actions.moveTo(what, mailbox)),
  askWhere: () => {
    isMoveOpen.value = true;
  },
  remove(): void {
    if (state.use.value !== '\\Trash') {
      leave(actions.remove);
      return;
    }
    const amount = 'messages' in target.value ? target.value.messages.length : target.value.total;
    ask({
      title: 'Delete for good?',
      text: `${count(amount, 'message')} of Trash will be gone. Nobody can bring them back.`,
      action: 'Delete for good',
      isDangerous: true,
      run: async () => leave(actions.removeForEver),
    });
  },
  toggleRead(): void {
    const toRead = state.isUnread.value;
    // What is marked unread is closed: open, it would be read again.
    const what = target.value;
    if (!toRead && route.value.open && selection.chosen.size === 0) closeOpen();
    void actions.markRead(what, toRead);
  },
  toggleStar(): void {
    const isOn = !state.isStarred.value;
    void actions.star(target.value, isOn);
    announce(isOn ? 'Starred' : 'Star removed');
  },
  starRow: (row: Row) => void actions.star({ messages: row.messages }, !row.isStarred),
  answer(kind: 'reply' | 'reply-all' | 'forward'): void {
    const account = current.value;
    const about =
      reading.opened.value?.messages.findLast(({ flags }) => !flags.includes('\\Draft')) ??
      selection.active.value?.latest;
    if (account && about) write({ kind, account, about });
  },
  compose(): void {
    if (current.value) write({ kind: 'new', account: current.value });
  },
  /** Moves the active row, and what is open with it. */
  step(by: number): void {
    const from = route.value.open ? list.rows.value.findIndex(isOpen) : selection.index.value;
    selection.activate(from < 0 ? 0 : from + by);
    const row = selection.active.value;
    if (row && route.value.open) openRow(row, 'replace');
  },
  open(): void {
    const row = selection.active.value;
    if (row) openRow(row, route.value.open ? 'replace' : 'push');
  },
};
