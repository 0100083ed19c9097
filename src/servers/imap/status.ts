/** STATUS (RFC 9051 section 6.3.11). */
import type { OpenMailbox } from '../../mailboxes/mailstore/mailstore.ts';
import { BadCommand, type Cursor } from './cursor.ts';
import { mailbox as writeMailbox } from './write.ts';

const ITEMS = {
  MESSAGES: ({ messages }) => messages,
  RECENT: () => 0,
  UIDNEXT: ({ uidnext }) => uidnext,
  UIDVALIDITY: ({ uidvalidity }) => uidvalidity,
  UNSEEN: ({ unseen }) => unseen,
  SIZE: ({ octets }) => octets,
  HIGHESTMODSEQ: ({ highestmodseq }) => highestmodseq,
} satisfies Record<string, (mailbox: OpenMailbox) => number>;

export type StatusItem = keyof typeof ITEMS;

export function readStatusItems(command: Cursor): StatusItem[] {
  return command.list(() => {
    const item = command.atom('an item').toUpperCase();
    if (!Object.hasOwn(ITEMS, item)) throw new BadCommand('The item of STATUS is not known');
    return item as StatusItem;
  });
}

export function writeStatus(mailbox: OpenMailbox, items: readonly StatusItem[]): string {
  const values = items.map((item) => `${item} ${ITEMS[item](mailbox)}`);
  return `* STATUS ${writeMailbox(mailbox.name)} (${values.join(' ')})\r\n`;
}
