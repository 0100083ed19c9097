/** What buttons and keys do with the rows that are chosen, with the active one, or with what is open. */
import { computed } from 'vue';
import { isStarred, isUnread, keyOf, type Row } from '../list/rows.ts';
import { selection } from '../list/selection.ts';
import { list } from '../list/source.ts';
import { isOpen, openRow, reading } from '../thread/opened.ts';
import { count } from '../ui/format.ts';
import { ask } from '../ui/questions.tsx';
import { announce } from '../ui/toasts.tsx';
import { current, here, isTrash } from './accounts.ts';
import type { Target } from './actions.ts';
import * as actions from './actions.ts';
import { write } from './parts.ts';
import { closeOpen, isNarrow, route } from './route.ts';

/** What an action is for. */
export const target = computed<Target>(() => {
  const { chosen, isAll, targets } = selection;
  if (isAll.value && !route.value.query) {
    return { allOf: route.value.mailbox, total: list.source.value.total };
  }
  if (chosen.size === 0 && reading.here.value.length > 0) return { messages: reading.here.value };
  // A conversation, and those of its messages that have rows of their own, may both be chosen.
  return { messages: [...new Set(targets.value.flatMap(({ messages }) => messages))] };
});

/** Messages of the target that are known by name. */
const known = computed(() =>
  'messages' in target.value ? target.value.messages : list.source.value.messages,
);

export const hasUnread = computed(() => known.value.some(isUnread));

type Act = (target: Target) => Promise<void>;

/** Does something that takes the messages away, and goes on with what comes next. */
function leave(act: Act, what = target.value): void {
  if (selection.chosen.size === 0 && route.value.open) {
    const rows = list.rows.value;
    const opened = rows.findIndex(isOpen);
    const next = rows[opened + 1] ?? rows[opened - 1];
    if (next && !isNarrow.matches && opened >= 0) openRow(next, 'replace');
    else closeOpen();
  }
  selection.clear();
  void act(what);
}

/** Into Trash; from there for good, once the user was asked: a search finds what is in Trash, too. */
function remove(what: Target, carryOut: (act: Act) => void, title = 'Delete for good?'): void {
  const places = 'allOf' in what ? [what.allOf] : what.messages.map(({ mailbox }) => mailbox);
  if (places.length === 0 || !places.every(isTrash)) carryOut(actions.remove);
  else
    ask({
      title,
      text: `${count(actions.sizeOf(what), 'message')} of Trash will be gone. Nobody can bring them back.`,
      action: title.replace('?', ''),
      isDangerous: true,
      run: async () => carryOut(actions.removeForEver),
    });
}

export const commands = {
  archive: () => leave(actions.archive),
  spam: () => leave(here.value?.specialUse === '\\Junk' ? actions.notSpam : actions.markSpam),
  /** @param what as it was when the user was asked for the mailbox: what is active then may have gone since */
  moveTo: (mailbox: string, what: Target) => leave((some) => actions.moveTo(some, mailbox), what),
  remove(): void {
    const what = target.value;
    remove(what, (act) => leave(act, what));
  },
  /** All of the mailbox that is shown: Trash. */
  empty(): void {
    const all = { allOf: route.value.mailbox, total: list.source.value.total };
    remove(all, (act) => void act(all), 'Empty the trash?');
  },
  toggleRead(): void {
    const toRead = hasUnread.value;
    // What is marked unread is closed: it is read when it is opened again.
    const what = target.value;
    const opened = reading.here.value.map(keyOf);
    const isOpened =
      selection.chosen.size === 0 || known.value.some((one) => opened.includes(keyOf(one)));
    if (!toRead && route.value.open && isOpened) closeOpen();
    void actions.markRead(what, toRead);
  },
  toggleStar(): void {
    const isOn = !known.value.every(isStarred);
    void actions.star(target.value, isOn);
    announce(isOn ? 'Starred' : 'Star removed');
  },
  archiveRow: (row: Row) => void actions.archive({ messages: row.messages }),
  removeRow(row: Row): void {
    const what = { messages: row.messages };
    remove(what, (act) => void act(what));
  },
  starRow: (row: Row) => void actions.star({ messages: row.messages }, !row.isStarred),
  choose(): void {
    const row = selection.active.value;
    if (row) selection.toggle(row.key);
  },
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
    const { active, index } = selection;
    // The rows of an unfolded conversation are all open with it.
    const isAtOpen = !route.value.open || (active.value && isOpen(active.value));
    const from = isAtOpen ? index.value : list.rows.value.findIndex(isOpen);
    selection.activate(from < 0 ? 0 : from + by);
    if (route.value.open) commands.open();
  },
  open(): void {
    const row = selection.active.value;
    if (row) openRow(row, route.value.open ? 'replace' : 'push');
  },
};
