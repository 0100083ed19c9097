/** What a user does with messages: seen at once, with a way back. */
import type {
  MailboxHandle,
  MailMessage,
  MessageId,
  Operation,
} from '../../sdk/src/mail/client.ts';
import { isUnread } from '../list/rows.ts';
import { list } from '../list/source.ts';
import { count } from '../ui/format.ts';
import { announce, say, sayFailure } from '../ui/toasts.tsx';
import { current, isTrash, type OpenAccount, titleOfName } from './accounts.ts';

/** Messages by name, or all of a mailbox. */
export type Target =
  | { readonly messages: readonly MailMessage[] }
  | { readonly allOf: string; readonly total: number };

export function sizeOf(target: Target): number {
  return 'allOf' in target ? target.total : target.messages.length;
}

/** Those of the messages for which something is to be done; of all of a mailbox, all. */
function only(target: Target, isMeant: (message: MailMessage) => boolean): Target {
  return 'allOf' in target ? target : { messages: target.messages.filter(isMeant) };
}

/** Names of messages, with the mailbox that has them. */
async function namesOf({ client }: OpenAccount, target: Target) {
  if ('allOf' in target) {
    const handle = client.mailbox(target.allOf);
    return [{ handle, ids: await handle.ids() }];
  }
  const byMailbox = Map.groupBy(target.messages, ({ mailbox }) => mailbox);
  return [...byMailbox].map(([mailbox, some]) => {
    return { handle: client.mailbox(mailbox), ids: some.map(({ id }) => id) };
  });
}

type Change = (handle: MailboxHandle, ids: readonly MessageId[]) => Promise<Operation>;

/** What is said of a change, and shown. */
interface Telling {
  /** "Archived", for the message that it was done; nothing is said where it is left out. */
  readonly done?: string | undefined;
  /** "Archiving", for the message that it failed. */
  readonly doing: string;
  /** The messages leave the mailbox. */
  readonly leaves?: boolean;
}

async function carryOut(target: Target, change: Change, telling: Telling): Promise<void> {
  const { done, doing, leaves } = telling;
  const account = current.value;
  if (!account || sizeOf(target) === 0) return;
  const operations: Operation[] = [];
  const undo = async () => {
    list.unhide();
    try {
      for (const operation of operations.toReversed()) await operation.undo();
      announce('Undone');
    } catch (error) {
      sayFailure('It could not be undone', error);
    }
  };
  try {
    if (leaves && 'messages' in target) list.hide(target.messages);
    for (const { handle, ids } of await namesOf(account, target)) {
      const operation = await change(handle, ids);
      // A refusal is told by the client's event; what a search found is in the list again.
      operation.applied.catch(list.unhide);
      operations.push(operation);
    }
    if (done === undefined) return;
    const amount = sizeOf(target);
    const text = amount === 1 ? done : `${done}: ${count(amount, 'message')}`;
    say(text, { action: { label: 'Undo', run: () => void undo() } });
  } catch (error) {
    list.unhide();
    sayFailure(`${doing} failed`, error);
  }
}

export function moveTo(
  target: Target,
  to: string,
  done = `Moved to ${titleOfName(to)}`,
  doing = 'Moving',
): Promise<void> {
  // What is there already stays.
  const some = only(target, ({ mailbox }) => mailbox !== to);
  return carryOut(some, (handle, ids) => handle.move(ids, to), { done, doing, leaves: true });
}

/** Moves into the mailbox of a special use (RFC 6154), which is made where the account has none. */
function moveToSpecial(use: string, name: string, done: string, doing: string) {
  return async (target: Target): Promise<void> => {
    const client = current.value?.client;
    if (!client) return;
    try {
      const mailboxes = await client.mailboxes();
      const found = mailboxes.find((one) => one.specialUse === use || one.name === name);
      if (!found) await client.createMailbox(name);
      await moveTo(target, found?.name ?? name, done, doing);
    } catch (error) {
      sayFailure(`${doing} failed`, error);
    }
  };
}

export const archive = moveToSpecial('\\Archive', 'Archive', 'Archived', 'Archiving');
export const markSpam = moveToSpecial('\\Junk', 'Junk', 'Moved to Spam', 'Moving to Spam');
export const notSpam = (target: Target) => moveTo(target, 'INBOX');

export function remove(target: Target): Promise<void> {
  const telling = { done: 'Deleted', doing: 'Deleting', leaves: true };
  // What is in Trash would be gone for good.
  const some = only(target, ({ mailbox }) => !isTrash(mailbox));
  return carryOut(some, (handle, ids) => handle.delete(ids), telling);
}

/** For good: there is no way back, so the caller has asked. */
export function removeForEver(target: Target): Promise<void> {
  const telling = { doing: 'Deleting', leaves: true };
  return carryOut(target, (handle, ids) => handle.delete(ids, { forever: true }), telling);
}

/** Adds a flag, or takes it away. */
function flag(name: string, isOn: boolean): Change {
  return (handle, ids) => handle.flag(ids, { [isOn ? 'add' : 'remove']: [name] });
}

/** @param isQuiet the page does it by itself: nothing is said */
export function markRead(target: Target, read: boolean, isQuiet = false): Promise<void> {
  const some = only(target, (message) => isUnread(message) === read);
  const done = read ? 'Marked as read' : 'Marked as unread';
  return carryOut(some, flag('\\Seen', read), {
    done: isQuiet ? undefined : done,
    doing: 'Marking',
  });
}

export function star(target: Target, isOn: boolean): Promise<void> {
  return carryOut(target, flag('\\Flagged', isOn), { doing: 'Marking' });
}
