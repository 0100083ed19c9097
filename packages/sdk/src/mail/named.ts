/** Messages that mail names: its draft, what it answers, whose files it has. */
import type { Copy } from './copy.ts';
import { type MessageRow, type NamedMessage, placedIn, uidOf } from './rows.ts';

export interface Located {
  readonly mailbox: string;
  /** 0 where the message never came to be. */
  readonly uid: number;
  /** That the UID belongs to: a mailbox that was made anew gives it to another message. */
  readonly uidvalidity: string | undefined;
}

/** Where the server has a message. */
export function locate({ mailbox, id, uidvalidity }: NamedMessage, copy: Copy): Located {
  const then = uidvalidity ?? placedIn(id, copy.operations);
  return {
    mailbox,
    uid: uidOf(id, copy.operations),
    uidvalidity: then ?? copy.mailbox(mailbox)?.uidvalidity,
  };
}

/** The same; undefined where the message is gone with its mailbox, or never came to be. */
export function locateLeft(message: NamedMessage, copy: Copy): Located | undefined {
  const located = locate(message, copy);
  const now = copy.mailbox(message.mailbox)?.uidvalidity;
  const isGone = now !== undefined && now !== located.uidvalidity;
  return located.uid === 0 || isGone ? undefined : located;
}

/** The row of a message, where the copy has it. */
export async function findNamed(
  message: NamedMessage | undefined,
  copy: Copy,
): Promise<MessageRow | undefined> {
  const located = message && locateLeft(message, copy);
  const box = located && copy.mailbox(located.mailbox)?.box;
  if (!located || box === undefined) return undefined;
  return (await copy.rows(box, [located.uid])).get(located.uid);
}
