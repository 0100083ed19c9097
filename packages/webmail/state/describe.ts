/** What mailboxes and changes are called on the screen. */
import type { MailboxInfo, Operation } from '../../sdk/src/mail/client.ts';
import type { IconName } from '../ui/icons.ts';

const looks: Readonly<Record<string, readonly [title: string, icon: IconName]>> = {
  INBOX: ['Inbox', 'inbox'],
  '\\Drafts': ['Drafts', 'draft'],
  '\\Sent': ['Sent', 'send'],
  '\\Archive': ['Archive', 'archive'],
  '\\Junk': ['Spam', 'spam'],
  '\\Trash': ['Trash', 'delete'],
};
const order = Object.keys(looks);

const keyOf = ({ name, specialUse }: MailboxInfo) => (name === 'INBOX' ? name : (specialUse ?? ''));

/** Those of the mail program first, in their usual order; then the user's own by name. */
export function sortMailboxes(mailboxes: readonly MailboxInfo[]): MailboxInfo[] {
  const rank = (mailbox: MailboxInfo) => {
    const at = order.indexOf(keyOf(mailbox));
    return at < 0 ? order.length : at;
  };
  return mailboxes.toSorted((a, b) => rank(a) - rank(b) || a.name.localeCompare(b.name));
}

/** A mailbox in the list of them. */
export interface ListedMailbox {
  readonly mailbox: MailboxInfo;
  /** How deep it is within others. */
  readonly level: number;
  readonly title: string;
}

/** Each folder of the user behind the one that it is within, by its name there. */
export function listMailboxes(mailboxes: readonly MailboxInfo[]): ListedMailbox[] {
  const names = new Set(mailboxes.map(({ name }) => name));
  const nearest = (name: string): string => {
    const above = name.slice(0, Math.max(name.lastIndexOf('/'), 0));
    return above === '' || names.has(above) ? above : nearest(above);
  };
  const groups = Map.groupBy(sortMailboxes(mailboxes), (one) =>
    isOwn(one) ? nearest(one.name) : '',
  );
  const within = (above: string, level: number): ListedMailbox[] =>
    (groups.get(above) ?? []).flatMap((mailbox) => [
      {
        mailbox,
        level,
        title: level > 0 ? mailbox.name.slice(above.length + 1) : titleOf(mailbox),
      },
      ...within(mailbox.name, level + 1),
    ]);
  return within('', 0);
}

export function titleOf(mailbox: MailboxInfo): string {
  return looks[keyOf(mailbox)]?.[0] ?? mailbox.name;
}

export function iconOf(mailbox: MailboxInfo): IconName {
  return looks[keyOf(mailbox)]?.[1] ?? 'folder';
}

/** Whether mail of others has a place there: what is in the rest was written here. */
export function isForMail({ specialUse = '' }: MailboxInfo): boolean {
  return !['\\Drafts', '\\Sent'].includes(specialUse);
}

/** Whether the user made it: it may be renamed and deleted. */
export function isOwn(mailbox: MailboxInfo): boolean {
  return looks[keyOf(mailbox)] === undefined;
}

const verbs: Readonly<Record<Operation['kind'], string>> = {
  flag: 'Marking messages',
  move: 'Moving messages',
  copy: 'Copying messages',
  delete: 'Deleting messages',
  append: 'Saving a draft',
  send: 'Sending a mail',
  mailbox: 'Changing a folder',
};

export function describeOperation({ kind }: Operation): string {
  return verbs[kind];
}
