/** STATUS (RFC 9051 section 6.3.11, RFC 9208 section 4.1.4). */
import type { OpenMailbox } from '../../mailboxes/mailstore/mailstore.ts';
import { BadCommand, type Cursor } from './cursor.ts';
import type { Session } from './session.ts';
import { mailbox as writeMailbox } from './write.ts';

const ITEMS = {
  MESSAGES: ({ messages }) => messages,
  UIDNEXT: ({ uidnext }) => uidnext,
  UIDVALIDITY: ({ uidvalidity }) => uidvalidity,
  UNSEEN: ({ unseen }) => unseen,
  SIZE: ({ octets }) => octets,
  HIGHESTMODSEQ: ({ highestmodseq }) => highestmodseq,
} satisfies Record<string, (mailbox: OpenMailbox) => number>;

/** Those that are more than a number of the row. */
const OTHERS = ['RECENT', 'MAILBOXID', 'DELETED', 'DELETED-STORAGE', 'APPENDLIMIT'] as const;

export type StatusItem = keyof typeof ITEMS | (typeof OTHERS)[number];

/** Each once: LIST answers them for every mailbox. */
export function readStatusItems(command: Cursor): StatusItem[] {
  const items = command.list(() => {
    const item = command.atom('an item').toUpperCase();
    const isKnown = OTHERS.some((one) => one === item) || Object.hasOwn(ITEMS, item);
    if (!isKnown) throw new BadCommand('The item of STATUS is not known');
    return item as StatusItem;
  });
  return [...new Set(items)];
}

export async function writeStatus(
  { services, isUtf8 }: Session,
  mailbox: OpenMailbox,
  items: readonly StatusItem[],
): Promise<string> {
  const { recents, mailstore } = services;
  const from = recents.from(mailbox);
  // Programs ask for it of every mailbox, and seldom something is recent.
  const hasRecent = items.includes('RECENT') && from < mailbox.uidnext;
  const recent = hasRecent ? await mailstore.imap.countFrom(mailbox, from) : 0;
  const asksDeleted = items.some((item) => item.startsWith('DELETED')) && mailbox.messages > 0;
  const nothing = { messages: 0, octets: 0 };
  const deleted = asksDeleted ? await mailstore.imap.deleted(mailbox) : nothing;
  const values = items.map((item) => {
    if (item === 'RECENT') return `${item} ${recent}`;
    if (item === 'DELETED') return `${item} ${deleted.messages}`;
    // RFC 7889 section 4: the same of every mailbox.
    if (item === 'APPENDLIMIT') return `${item} ${services.maxMessageBytes}`;
    if (item === 'DELETED-STORAGE') return `${item} ${deleted.octets}`;
    if (item === 'MAILBOXID') return `${item} (${mailstore.imap.objectIds.mailbox(mailbox)})`;
    return `${item} ${ITEMS[item](mailbox)}`;
  });
  return `* STATUS ${writeMailbox(mailbox.name, isUtf8)} (${values.join(' ')})\r\n`;
}
