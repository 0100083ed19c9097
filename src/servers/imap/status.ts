/** STATUS (RFC 9051 section 6.3.11). */
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

export type StatusItem = keyof typeof ITEMS | 'RECENT';

export function readStatusItems(command: Cursor): StatusItem[] {
  return command.list(() => {
    const item = command.atom('an item').toUpperCase();
    if (item !== 'RECENT' && !Object.hasOwn(ITEMS, item))
      throw new BadCommand('The item of STATUS is not known');
    return item as StatusItem;
  });
}

export async function writeStatus(
  { services }: Session,
  mailbox: OpenMailbox,
  items: readonly StatusItem[],
): Promise<string> {
  const { recents, mailstore } = services;
  const from = recents.from(mailbox);
  const recent = items.includes('RECENT') ? await mailstore.imap.countFrom(mailbox, from) : 0;
  const values = items.map(
    (item) => `${item} ${item === 'RECENT' ? recent : ITEMS[item](mailbox)}`,
  );
  return `* STATUS ${writeMailbox(mailbox.name)} (${values.join(' ')})\r\n`;
}
