/** The rows of a list: conversations, or messages one by one. */
import type {
  MailMessage,
  MessageId,
  MessageLocation,
  SearchMatch,
} from '../../sdk/src/mail/client.ts';

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

export function isUnread({ flags }: MailMessage): boolean {
  return !flags.includes('\\Seen');
}

export function isStarred({ flags }: MailMessage): boolean {
  return flags.includes('\\Flagged');
}

/** Names a message among those of all mailboxes. */
export function keyOf({ mailbox, id }: MessageLocation): string {
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
    isStarred: messages.some(isStarred),
    hasAttachment: messages.some((message) => message.hasAttachment),
    isPending: messages.some(({ pending }) => pending),
    isChild,
  };
}

interface RowOptions {
  readonly byThread: boolean;
  /** Keys of conversations whose messages have rows below theirs. */
  readonly unfolded: ReadonlySet<string>;
}

/** Makes rows of the messages of a list, newest first. */
export function makeRows(messages: readonly MailMessage[], options: RowOptions): Row[] {
  const alone = (message: MailMessage) => `m/${keyOf(message)}`;
  const groups = Map.groupBy(messages, (message) =>
    options.byThread && message.threadId ? `t/${message.threadId}` : alone(message),
  );
  return [...groups].flatMap(([key, group]) => {
    const row = makeRow(key, group);
    if (group.length === 1 || !options.unfolded.has(key)) return [row];
    return [row, ...group.map((message) => makeRow(alone(message), [message], true))];
  });
}

/** A match of a search as a message of a list. What only the copy knows is left at nothing. */
export function messageOf(match: SearchMatch & { readonly id: MessageId }): MailMessage {
  const { mailbox, id, envelope, flags, internalDate, preview, threadId } = match;
  const unknown = { size: 0, hasAttachment: false, pending: false };
  return { mailbox, id, envelope, flags, internalDate, preview, threadId, ...unknown };
}
