/** Accounts, mailboxes with their unseen mail, and how the copy stands to the server. In a narrow window it is a popover. */
import type { MailboxInfo } from '../../sdk/src/mail/client.ts';
import { heldOver, takesMail } from '../list/drag.ts';
import { accounts, isMail, type OpenAccount, signOut } from '../state/accounts.ts';
import { commands } from '../state/commands.ts';
import { iconOf, isForMail, isOwn, type ListedMailbox, listMailboxes } from '../state/describe.ts';
import { opens } from '../state/overlay.ts';
import { composer } from '../state/parts.ts';
import { go, hrefOf, isPanelOpen, route } from '../state/route.ts';
import { Button } from '../ui/button.tsx';
import { count } from '../ui/format.ts';
import { Icon } from '../ui/icon.tsx';
import { Menu, type MenuItem } from '../ui/menu.tsx';
import { ask } from '../ui/questions.tsx';
import { sayFailure } from '../ui/toasts.tsx';
import { Connection } from './connection.tsx';

const ID = 'mailboxes';

function close(): void {
  document.getElementById(ID)?.hidePopover();
}

function openPanel(): void {
  close();
  isPanelOpen.value = true;
}

/** Where the sidebar is a popover, it lies over the list. */
export const WriteButton = () => (
  <Button
    class="main write"
    icon="edit"
    label="Write"
    title="Write a message (c)"
    press={commands.compose}
  />
);

interface SidebarProps {
  readonly account: OpenAccount;
}

export const Sidebar = ({ account }: SidebarProps) => (
  <nav id={ID} popover="auto" class="sidebar" aria-label="Mailboxes">
    <div class="account bar apart soft small">
      <span class="address cut" title={account.address}>
        {account.address}
      </span>
      <Menu label="Account" icon="chevron" items={() => accountItems(account)} />
    </div>
    <WriteButton />
    <ul class="mailboxes">
      {listMailboxes(account.live.mailboxes).map((listed) => (
        <MailboxLink key={listed.mailbox.name} account={account} {...listed} />
      ))}
    </ul>
    <Button
      class="link new-folder"
      icon="plus"
      label="New folder"
      press={() => askForFolder(account)}
    />
    <Connection account={account} />
  </nav>
);

type LinkProps = SidebarProps & ListedMailbox;

/** What is written counts as a whole, and nobody waits for what is in Trash. */
function amountOf({ specialUse, total, unseen }: MailboxInfo): number {
  if (specialUse === '\\Drafts') return total;
  return ['\\Trash', '\\Sent'].includes(specialUse ?? '') ? 0 : unseen;
}

const MailboxLink = ({ account, mailbox, level, title }: LinkProps) => {
  const { name, specialUse } = mailbox;
  const isHere = route.value.mailbox === name && !route.value.query;
  const amount = amountOf(mailbox);
  return (
    <li
      class={['bar', { here: isHere, over: heldOver.value === name }]}
      {...(!isHere && isForMail(mailbox) && takesMail(name))}
    >
      <a
        class="bar grow"
        title={name}
        style={{ '--level': level }}
        href={hrefOf({ address: account.address, mailbox: name })}
        aria-current={isHere ? 'page' : undefined}
        onClick={close}
      >
        <Icon name={iconOf(mailbox)} />
        <span class="cut grow">{title}</span>
        {amount > 0 && (
          <span class="amount">
            {amount.toLocaleString()}
            <span class="unseen"> {specialUse === '\\Drafts' ? 'drafts' : 'unread'}</span>
          </span>
        )}
      </a>
      {isOwn(mailbox) && (
        <Menu label={`Change ${name}`} items={() => folderItems(account, mailbox)} />
      )}
    </li>
  );
};

function folderItems({ client }: OpenAccount, { name, total }: MailboxInfo): MenuItem[] {
  const goIfHere = (to: string) => {
    if (route.value.mailbox === name) go({ address: route.value.address, mailbox: to });
  };
  const rename = () =>
    ask({
      title: `Rename ${name}`,
      action: 'Rename',
      field: { label: 'New name', value: name },
      run: (to) => client.renameMailbox(name, to).then(() => goIfHere(to)),
    });
  const remove = () =>
    ask({
      title: `Delete ${name}?`,
      text: total > 0 ? `${count(total, 'message')} in it will be gone, for good.` : 'It is empty.',
      action: 'Delete the folder',
      isDangerous: true,
      run: () => client.deleteMailbox(name).then(() => goIfHere('INBOX')),
    });
  return [
    { label: 'Rename…', icon: 'edit', run: rename },
    { label: 'Delete…', icon: 'delete', isDangerous: true, run: remove },
  ];
}

function askForFolder({ client }: OpenAccount): void {
  ask({
    title: 'New folder',
    text: 'A slash makes a folder within another one: Work/Invoices.',
    action: 'Make the folder',
    field: { label: 'Name' },
    run: (name) => client.createMailbox(name),
  });
}

function accountItems(account: OpenAccount): MenuItem[] {
  const others = accounts.value.filter((one) => one !== account);
  return [
    ...others.map(({ address }): MenuItem => {
      return { label: address, icon: 'mail', run: () => go({ address, mailbox: 'INBOX' }) };
    }),
    { label: 'Add an account…', icon: 'plus', run: opens('sign-in') },
    { label: 'What the app says to the server', icon: 'code', run: openPanel },
    { label: 'Outgoing mail', icon: 'send', run: opens('outgoing') },
    { label: 'Sign out', icon: 'back', run: () => void leave(account) },
  ];
}

async function leave(account: OpenAccount): Promise<void> {
  await composer.leave();
  const texts = account.live.refused.filter(({ operation }) => isMail(operation));
  const waiting = (await account.client.pending()).length + texts.length;
  const out = () =>
    signOut(account).catch((error: unknown) => sayFailure('Signing out failed', error));
  if (waiting === 0) {
    void out();
    return;
  }
  ask({
    title: 'Sign out and lose changes?',
    text: `${count(waiting, 'change')} did not reach the server. Whoever signs out loses them.`,
    action: 'Sign out',
    isDangerous: true,
    run: out,
  });
}
