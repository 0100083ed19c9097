/** What an app sees of the copy: rows of the store with the user's changes over them. */
import type {
  MailboxInfo,
  MailboxView,
  MailMessage,
  MailState,
  MessageId,
  ThreadView,
  WatchOptions,
} from './client.ts';
import type { Copy } from './copy.ts';
import { hasFlags, type Overlay, type Place, type Shown, toShown } from './fold.ts';
import {
  factsOf,
  isLive,
  isSeen,
  type MailboxRow,
  type MessageRow,
  renamed,
  uidOf,
} from './rows.ts';

const LIMIT = 50;
/** Rows that are read at a time. */
const CHUNK = 200;

/** The newest messages of a mailbox that match, and how many there are. */
export function listView(
  copy: Copy,
  name: string,
  options: WatchOptions,
  state: MailState,
  before?: MailboxView,
): Promise<MailboxView> {
  return copy.consistent(async (overlay) => {
    const { limit = LIMIT } = options;
    const all = await newest(copy, name, overlay, options, limit);
    const mailbox = copy.mailbox(name);
    // As another process wrote it with the messages.
    const counting = mailbox && (await copy.store.get('mailboxes', [mailbox.account, mailbox.box]));
    const place = mailbox?.box ?? name;
    const counted = count((counting as MailboxRow | undefined) ?? mailbox, place, overlay);
    const known = new Map(before?.messages.map((message) => [message.id, message]));
    const messages = all.shown
      .slice(0, limit)
      .map((shown) => keepSame(known.get(shown.id), toMessage(shown, name)));
    const total = isFiltered(options) ? all.matching : counted.total;
    return { messages, total, unseen: counted.unseen, state };
  });
}

/** Ids of all that match. */
export function listIds(copy: Copy, name: string, options: WatchOptions): Promise<MessageId[]> {
  return copy.consistent(async (overlay) => {
    const { shown } = await newest(copy, name, overlay, options, Infinity);
    return shown.map(({ id }) => id);
  });
}

/** Merges stored rows with those that changes brought; reads on until there are enough, or all where some are counted. */
async function newest(
  copy: Copy,
  name: string,
  overlay: Overlay,
  options: WatchOptions,
  limit: number,
): Promise<{ shown: Shown[]; matching: number }> {
  const mailbox = copy.mailbox(name);
  const shown: Shown[] = [];
  let matching = 0;
  for await (const row of mailbox ? copy.newest(mailbox, CHUNK) : []) {
    const now = overlay.over(row);
    if (!now || !hasFlags(now.facts.flags, options)) continue;
    matching++;
    if (shown.length < limit) shown.push(now);
    else if (!isFiltered(options)) break;
  }
  const added = overlay.added.filter(
    ({ place, facts }) => place === (mailbox?.box ?? name) && hasFlags(facts.flags, options),
  );
  return { shown: [...shown, ...added].sort(byDate), matching: matching + added.length };
}

export function listMailboxes(copy: Copy): Promise<MailboxInfo[]> {
  return copy.consistent((overlay) => {
    const rows = copy.mailboxes.filter(({ gone }) => !gone);
    const infos = rows.map((mailbox) => ({
      name: mailbox.name,
      mailboxId: mailbox.mailboxId,
      uidvalidity: mailbox.uidvalidity,
      specialUse: mailbox.specialUse,
      ...count(mailbox, mailbox.box, overlay),
      complete: mailbox.complete,
    }));
    return withChanges(copy, infos).sort((a, b) => rank(a) - rank(b) || (a.name < b.name ? -1 : 1));
  });
}

/** With those that are to be made, renamed or deleted, until the list of them is as that made it. */
function withChanges({ operations }: Copy, infos: MailboxInfo[]): MailboxInfo[] {
  let now = infos;
  for (const operation of operations) {
    const { kind, action, mailbox, to = '' } = operation;
    if (kind !== 'mailbox' || !isLive(operation)) continue;
    if (action === 'delete') now = now.filter(({ name }) => name !== mailbox);
    else if (action === 'rename') {
      now = now.map((one) => ({ ...one, name: renamed(one.name, mailbox, to) }));
    } else if (!now.some(({ name }) => name === mailbox)) {
      const unknown = { mailboxId: undefined, uidvalidity: undefined, specialUse: undefined };
      now = [...now, { name: mailbox, ...unknown, total: 0, unseen: 0, complete: true }];
    }
  }
  return now;
}

/** A conversation, oldest first. */
export function viewThread(copy: Copy, threadId: string): Promise<ThreadView> {
  return copy.consistent(async (overlay) => {
    const { store, account } = copy;
    const query = { table: 'messages', index: 'byThread', prefix: [account, threadId] } as const;
    const found: { shown: Shown; name: string }[] = [];
    for (const row of (await store.range(query)) as MessageRow[]) {
      const mailbox = copy.box(row.box);
      if (!mailbox || mailbox.gone || mailbox.generation !== row.generation) continue;
      const shown = overlay.over(row);
      if (shown) found.push({ shown, name: mailbox.name });
    }
    for (const shown of overlay.added) {
      const { place, facts } = shown;
      const name = typeof place === 'number' ? (copy.box(place)?.name ?? '') : place;
      if (facts.threadId === threadId) found.push({ shown, name });
    }
    found.sort((a, b) => byDate(b.shown, a.shown));
    return { threadId, messages: found.map(({ shown, name }) => toMessage(shown, name)) };
  });
}

/** What is shown of messages by their ids; those that are not there are left out. */
export function findShown(
  copy: Copy,
  name: string,
  ids: readonly MessageId[],
): Promise<Map<MessageId, Shown>> {
  return copy.consistent(async (overlay) => {
    const box = copy.mailbox(name)?.box ?? 0;
    const uids = new Map(ids.map((id) => [id, uidOf(id, copy.operations)]));
    const rows = await copy.rows(box, [...uids.values()].filter(Boolean));
    const found = new Map<MessageId, Shown>();
    for (const [id, uid] of uids) {
      const row = rows.get(uid);
      const shown = (row && overlay.over(row)) ?? overlay.find(id);
      if (shown) found.set(id, shown);
    }
    return found;
  });
}

function isFiltered({ flags, notFlags }: WatchOptions): boolean {
  return (flags?.length ?? 0) + (notFlags?.length ?? 0) > 0;
}

/** All messages of a mailbox: what the copy, or the server, counted, and what the user's changes make of it. */
function count(mailbox: MailboxRow | undefined, place: Place, overlay: Overlay) {
  const isWhole = mailbox?.complete === true;
  let total = (isWhole ? mailbox.total : mailbox?.serverTotal) ?? 0;
  let unseen = (isWhole ? mailbox.unseen : mailbox?.serverUnseen) ?? 0;
  for (const row of overlay.touched) {
    if (row.box !== place) continue;
    const shown = overlay.over(row);
    if (!shown) total--;
    else if (!isSeen(shown.facts.flags)) unseen++;
    if (!isSeen(row.flags)) unseen--;
  }
  for (const { facts, place: there } of overlay.added) {
    if (there !== place) continue;
    total++;
    if (!isSeen(facts.flags)) unseen++;
  }
  return { total: Math.max(0, total), unseen: Math.max(0, unseen) };
}

const dateOf = ({ base, facts }: Shown) => base?.date ?? (Date.parse(facts.internalDate) || 0);

/** Newest first. */
function byDate(a: Shown, b: Shown): number {
  return dateOf(b) - dateOf(a) || (b.base?.uid ?? Infinity) - (a.base?.uid ?? Infinity) || 0;
}

export function toMessage(
  { id, facts, pending }: Pick<Shown, 'id' | 'facts' | 'pending'>,
  mailbox: string,
): MailMessage {
  return { id, mailbox, ...factsOf(facts), pending };
}

export function rowToMessage(row: MessageRow, mailbox: string): MailMessage {
  return toMessage(toShown(row), mailbox);
}

/** The object of before, where nothing of it changed: who draws a list then leaves the row alone. */
function keepSame(before: MailMessage | undefined, now: MailMessage): MailMessage {
  // What can change of a message; or shows that another one has its id, in a mailbox that was made anew.
  const state = (one: MailMessage) =>
    [one.pending, one.flags, one.size, one.internalDate, one.envelope.messageId].join();
  return before && state(before) === state(now) ? before : now;
}

const rank = ({ name, specialUse }: MailboxInfo) => (name === 'INBOX' ? 0 : specialUse ? 1 : 2);
