/** What a user does with messages: seen at once, with a way back. */
import type {
  MailboxHandle,
  MailMessage,
  MessageId,
  Operation,
} from '../../sdk/src/mail/client.ts';
import { FLAGGED, isUnread, SEEN } from '../list/rows.ts';
import { list } from '../list/source.ts';
import { count } from '../ui/format.ts';
import { say, sayFailure } from '../ui/toasts.tsx';
import { current, type OpenAccount } from './accounts.ts';
import { titleOf } from './describe.ts';

/** Messages that one operation changes at most: so many UIDs does a request take. */
const BATCH = 1000;

/** Messages by name, or all of a mailbox. */
export type Target =
  | { readonly messages: readonly MailMessage[] }
  | { readonly allOf: string; readonly total: number };

type Change = (handle: MailboxHandle, ids: readonly MessageId[]) => Promise<Operation>;

/** By mailbox, in batches. */
async function idsOf({ client }: OpenAccount, target: Target) {
  const byMailbox = new Map<string, MessageId[]>();
  if ('allOf' in target) byMailbox.set(target.allOf, await client.mailbox(target.allOf).ids());
  else {
    for (const { mailbox, id } of target.messages) {
      byMailbox.set(mailbox, [...(byMailbox.get(mailbox) ?? []), id]);
    }
  }
  return byMailbox;
}

function sizeOf(target: Target): number {
  return 'allOf' in target ? target.total : target.messages.length;
}

interface Deed {
  readonly target: Target;
  readonly change: Change;
  /** "Archived", for the message that it was done; nothing is said where it is left out. */
  readonly done?: string;
  /** "Archiving", for the message that it failed. */
  readonly doing: string;
  /** The messages leave the mailbox. */
  readonly leaves?: boolean;
}

async function carryOut({ target, change, done, doing, leaves }: Deed): Promise<void> {
  const account = current.value;
  if (!account || sizeOf(target) === 0) return;
  const operations: Operation[] = [];
  const undo = async () => {
    list.unhide();
    try {
      for (const operation of operations.toReversed()) await operation.undo();
    } catch (error) {
      sayFailure('It could not be undone', error);
    }
  };
  try {
    if (leaves && 'messages' in target) list.hide(target.messages);
    for (const [mailbox, ids] of await idsOf(account, target)) {
      for (let from = 0; from < ids.length; from += BATCH) {
        const operation = await change(
          account.client.mailbox(mailbox),
          ids.slice(from, from + BATCH),
        );
        // A refusal is told by the client's event.
        operation.applied.catch(() => undefined);
        operations.push(operation);
      }
    }
    void account.look();
    if (done === undefined) return;
    const amount = sizeOf(target);
    const text = amount === 1 ? done : `${done}: ${count(amount, 'message')}`;
    say(text, { action: { label: 'Undo', run: () => void undo() } });
  } catch (error) {
    list.unhide();
    sayFailure(`${doing} failed`, error);
  }
}

/** The mailbox of a special use (RFC 6154), made where the account has none. */
async function special(account: OpenAccount, use: string, name: string): Promise<string> {
  const found = (await account.client.mailboxes()).find(
    (mailbox) => mailbox.specialUse === use || mailbox.name === name,
  );
  if (!found) await account.client.createMailbox(name);
  return found?.name ?? name;
}

async function moveToSpecial(target: Target, use: string, name: string, words: [string, string]) {
  const account = current.value;
  if (!account) return;
  const [done, doing] = words;
  try {
    const to = await special(account, use, name);
    await moveTo(target, to, done, doing);
  } catch (error) {
    sayFailure(`${doing} failed`, error);
  }
}

export async function moveTo(
  target: Target,
  to: string,
  done = `Moved to ${titleOfName(to)}`,
  doing = 'Moving',
): Promise<void> {
  // What is there already stays.
  const moved: Target =
    'messages' in target
      ? { messages: target.messages.filter(({ mailbox }) => mailbox !== to) }
      : target;
  await carryOut({
    target: moved,
    change: (handle, ids) => handle.move(ids, to),
    done,
    doing,
    leaves: true,
  });
}

function titleOfName(name: string): string {
  const mailbox = current.value?.live.mailboxes.find((one) => one.name === name);
  return mailbox ? titleOf(mailbox) : name;
}

export const archive = (target: Target) =>
  moveToSpecial(target, '\\Archive', 'Archive', ['Archived', 'Archiving']);
export const markSpam = (target: Target) =>
  moveToSpecial(target, '\\Junk', 'Junk', ['Moved to Spam', 'Moving to Spam']);
export const notSpam = (target: Target) => moveTo(target, 'INBOX');

export function remove(target: Target): Promise<void> {
  return carryOut({
    target,
    change: (handle, ids) => handle.delete(ids),
    done: 'Deleted',
    doing: 'Deleting',
    leaves: true,
  });
}

/** For good: there is no way back, so the caller has asked. */
export function removeForEver(target: Target): Promise<void> {
  return carryOut({
    target,
    change: (handle, ids) => handle.delete(ids, { forever: true }),
    doing: 'Deleting',
    leaves: true,
  });
}

/** @param isQuiet the page does it by itself: nothing is said */
export function markRead(target: Target, read: boolean, isQuiet = false): Promise<void> {
  const wanted: Target =
    'messages' in target
      ? { messages: target.messages.filter((message) => isUnread(message) === read) }
      : target;
  return carryOut({
    target: wanted,
    change: (handle, ids) => handle.flag(ids, { [read ? 'add' : 'remove']: [SEEN] }),
    ...(!isQuiet && { done: read ? 'Marked as read' : 'Marked as unread' }),
    doing: 'Marking',
  });
}

export function star(target: Target, isOn: boolean): Promise<void> {
  return carryOut({
    target,
    change: (handle, ids) => handle.flag(ids, { [isOn ? 'add' : 'remove']: [FLAGGED] }),
    doing: 'Marking',
  });
}
