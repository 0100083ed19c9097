/** The rows of a list: conversations, or messages one by one. */
import type { MailMessage, MessageId, SearchMatch } from '../../sdk/src/mail/client.ts';

export interface Row {
  /** Stays the same while messages come to the conversation. */
  readonly key: string;
  /** Newest first. */
  readonly messages: readonly MailMessage[];
  readonly latest: MailMessage;
  readonly isUnread: boolean;
  readonly isStarred: boolean;
  readonly hasAttachment: boolean;
  readonly isPending: boolean;
  /** A message of the conversation above it. */
  readonly isChild: boolean;
}

export const SEEN = '\\Seen';
export const FLAGGED = '\\Flagged';

export function isUnread({ flags }: MailMessage): boolean {
  return !flags.includes(SEEN);
}

/** Names a message among those of all mailboxes. */
export function keyOf({ mailbox, id }: Pick<MailMessage, 'mailbox' | 'id'>): string {
  return `${mailbox}\n${id}`;
}

function makeRow(key: string, messages: readonly MailMessage[], isChild = false): Row {
  const [latest] = messages;
  if (!latest) throw new Error('a row has messages');
  return {
    key,
    messages,
    latest,
    isUnread: messages.some(isUnread),
    isStarred: messages.some(({ flags }) => flags.includes(FLAGGED)),
    hasAttachment: messages.some((message) => message.hasAttachment),
    isPending: messages.some(({ pending }) => pending),
    isChild,
  };
}

/**
 * Makes rows of the messages of a list, newest first. A row whose messages are the same as before is the same object,
 * so that it is not drawn again.
 */
export class RowMaker {
  #before = new Map<string, Row>();

  make(messages: readonly MailMessage[], options: { byThread: boolean }): Row[] {
    const groups = new Map<string, MailMessage[]>();
    for (const message of messages) {
      const key =
        options.byThread && message.threadId !== undefined
          ? `t/${message.threadId}`
          : `m/${keyOf(message)}`;
      const group = groups.get(key);
      if (group) group.push(message);
      else groups.set(key, [message]);
    }
    const rows = new Map<string, Row>();
    for (const [key, group] of groups) rows.set(key, this.#reuse(key, group));
    this.#before = rows;
    return [...rows.values()];
  }

  #reuse(key: string, messages: readonly MailMessage[]): Row {
    const before = this.#before.get(key);
    const isSame =
      before?.messages.length === messages.length &&
      messages.every((message, index) => message === before.messages[index]);
    return before && isSame ? before : makeRow(key, messages);
  }
}

/** The rows, with those of the messages of each conversation that is unfolded below it. */
export function unfold(rows: readonly Row[], unfolded: ReadonlySet<string>): Row[] {
  if (unfolded.size === 0) return [...rows];
  return rows.flatMap((row) =>
    unfolded.has(row.key) && row.messages.length > 1
      ? [row, ...row.messages.map((message) => makeRow(`m/${keyOf(message)}`, [message], true))]
      : [row],
  );
}

/** A match of a search as a message of a list. What only the copy knows is left at nothing. */
export function messageOf(match: SearchMatch & { readonly id: MessageId }): MailMessage {
  const { mailbox, id, envelope, flags, internalDate, preview, threadId } = match;
  const unknown = { size: 0, hasAttachment: false, pending: false };
  return { mailbox, id, envelope, flags, internalDate, preview, threadId, ...unknown };
}
