/** Messages that mail names: its draft, what it answers, whose files it has. */

import type { MessageId } from './client.ts';
import type { Copy } from './copy.ts';
import {
  localId,
  type MessageRow,
  madeBy,
  type NamedMessage,
  type NamedPart,
  type OperationRow,
  placedIn,
  readLocalPart,
  type StoredAttachment,
  uidOf,
} from './rows.ts';

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

/** The change of the user that moved a message from where it is named, or moves it just now; with its place in that. */
export function moverOf(
  { mailbox, id, uidvalidity }: NamedMessage,
  { operations }: Copy,
): (OperationRow & { readonly index: number }) | undefined {
  const nameOf = (one: MessageId, then: string | undefined) =>
    `${uidOf(one, operations) || one} ${placedIn(one, operations) ?? then}`;
  const name = nameOf(id, uidvalidity);
  for (const move of operations) {
    const isMade = move.state === 'inflight' || move.placed;
    if (move.kind !== 'move' || move.mailbox !== mailbox || !isMade) continue;
    const index = move.ids.findIndex((own) => nameOf(own, move.uidvalidity) === name);
    if (index >= 0) return { ...move, index };
  }
  return undefined;
}

/** The message where the user's changes brought it. */
export function follow<Message extends NamedMessage>(message: Message, copy: Copy): Message {
  const { seq = 0, index = 0, to: mailbox, placed } = moverOf(message, copy) ?? {};
  if (!mailbox || !placed?.[index]) return message;
  const moved = { ...message, mailbox, id: localId(seq, index), uidvalidity: undefined };
  return follow(moved, copy);
}

/** A part with the number that the server gave it, where it has the draft by now. */
export function numbered<Part extends NamedPart>(from: Part, copy: Copy): Part {
  const index = readLocalPart(from.part);
  const part = index === undefined ? undefined : madeBy(from.id, copy.operations)?.parts?.[index];
  return part === undefined ? from : { ...from, part };
}

/** Where the bytes of a file are by now: a part of a message that the server has, or a blob. */
export function findFile(file: StoredAttachment, copy: Copy): StoredAttachment {
  const from = file.from && numbered(file.from, copy);
  const index = from && readLocalPart(from.part);
  if (index === undefined) return { ...file, from, before: undefined };
  // The draft did not go: its files are where they were before.
  const own = from && madeBy(from.id, copy.operations)?.mail?.attachments?.[index];
  const { blob, size, before } = file;
  return findFile({ ...file, blob, size, from: before, ...(own && pickPlace(own)) }, copy);
}

const pickPlace = ({ blob, size, from, before }: StoredAttachment) => ({
  blob,
  size,
  from,
  before,
});

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
