/** Accounts, mailboxes with their unseen mail, and how the copy stands to the server. */
import { computed, defineComponent, type FunctionalComponent, ref } from 'vue';
import type { MailboxInfo } from '../../sdk/src/mail/client.ts';
import { isSigningIn } from '../sign-in.tsx';
import { accounts, current, type OpenAccount, signOut } from '../state/accounts.ts';
import { commands } from '../state/commands.ts';
import { iconOf, isOwn, sortMailboxes, titleOf } from '../state/describe.ts';
import { goTo, hrefOf, isPanelOpen, route } from '../state/route.ts';
import { formatNumber } from '../ui/format.ts';
import { Icon } from '../ui/icon.tsx';
import { Menu, type MenuItem } from '../ui/menu.tsx';
import { ask } from '../ui/questions.tsx';
import { sayFailure } from '../ui/toasts.tsx';
import { Connection } from './connection.tsx';

/** Over the list where the window is narrow. */
export const isMenuOpen = ref(false);
/** Whether what became of sent mail is shown. */
export const isOutgoingOpen = ref(false);

export const Sidebar = defineComponent(() => {
  const sorted = computed(() => sortMailboxes(current.value?.live.mailboxes ?? []));
  return () =>
    current.value && (
      <>
        {isMenuOpen.value && (
          <button type="button" class="shade" aria-label="Close the mailboxes" onClick={close} />
        )}
        <nav class={['sidebar', { open: isMenuOpen.value }]} aria-label="Mailboxes">
          <AccountMenu />
          <button type="button" class="main write" title="Write a message (c)" onClick={compose}>
            <Icon name="edit" /> Write
          </button>
          <ul class="mailboxes">
            {sorted.value.map((mailbox) => (
              <MailboxLink key={mailbox.name} mailbox={mailbox} />
            ))}
          </ul>
          <button type="button" class="link new-folder" onClick={askForFolder}>
            <Icon name="plus" /> New folder
          </button>
          <Connection />
        </nav>
      </>
    );
});

function close(): void {
  isMenuOpen.value = false;
}

function compose(): void {
  close();
  commands.compose();
}

const MailboxLink: FunctionalComponent<{ mailbox: MailboxInfo }> = ({ mailbox }) => {
  const address = current.value?.address ?? '';
  const { name, unseen, total, specialUse } = mailbox;
  const isHere = route.value.mailbox === name && !route.value.query;
  // What is written counts as a whole, and nobody waits for what is in Trash.
  const amount =
    specialUse === '\\Drafts'
      ? total
      : specialUse === '\\Trash' || specialUse === '\\Sent'
        ? 0
        : unseen;
  const open = (event: MouseEvent) => {
    if (event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    close();
    goTo(address, name);
  };
  return (
    <li class={{ here: isHere }}>
      <a href={hrefOf(address, name)} aria-current={isHere ? 'page' : undefined} onClick={open}>
        <Icon name={iconOf(mailbox)} />
        <span class="title">{titleOf(mailbox)}</span>
        {amount > 0 && (
          <span class="amount">
            {formatNumber(amount)}
            <span class="unseen"> {specialUse === '\\Drafts' ? 'drafts' : 'unread'}</span>
          </span>
        )}
      </a>
      {isOwn(mailbox) && <Menu label={`Change ${name}`} items={folderItems(mailbox)} />}
    </li>
  );
};

function folderItems({ name, total }: MailboxInfo): MenuItem[] {
  const client = current.value?.client;
  if (!client) return [];
  const rename = () =>
    ask({
      title: `Rename ${name}`,
      action: 'Rename',
      field: { label: 'New name', value: name },
      run: async (to) => {
        await client.renameMailbox(name, to);
        if (route.value.mailbox === name) goTo(route.value.address, to);
      },
    });
  const remove = () =>
    ask({
      title: `Delete ${name}?`,
      text:
        total > 0
          ? `Its ${formatNumber(total)} messages are deleted with it, for good.`
          : 'It is empty.',
      action: 'Delete the folder',
      isDangerous: true,
      run: async () => {
        await client.deleteMailbox(name);
        if (route.value.mailbox === name) goTo(route.value.address, 'INBOX');
      },
    });
  return [
    { label: 'Rename…', icon: 'edit', run: rename },
    { label: 'Delete…', icon: 'delete', isDangerous: true, run: remove },
  ];
}

function askForFolder(): void {
  const client = current.value?.client;
  if (!client) return;
  ask({
    title: 'New folder',
    text: 'A slash makes a folder within another one: Work/Invoices.',
    action: 'Make the folder',
    field: { label: 'Name' },
    run: (name) => client.createMailbox(name),
  });
}

const AccountMenu: FunctionalComponent = () => {
  const account = current.value;
  if (!account) return null;
  const others = accounts.value.filter((one) => one !== account);
  const items: MenuItem[] = [
    ...others.map(({ address }) => ({
      label: address,
      icon: 'mail' as const,
      run: () => goTo(address, 'INBOX'),
    })),
    {
      label: 'Add an account…',
      icon: 'plus',
      run: () => {
        isSigningIn.value = true;
      },
    },
    {
      label: 'What the app says to the server',
      icon: 'code',
      run: () => {
        isPanelOpen.value = true;
      },
    },
    {
      label: 'Outgoing mail',
      icon: 'send',
      run: () => {
        isOutgoingOpen.value = true;
      },
    },
    { label: 'Sign out', icon: 'back', run: () => leave(account) },
  ];
  return (
    <div class="account">
      <span class="address" title={account.address}>
        {account.address}
      </span>
      <Menu label="Account" icon="chevron" items={items} />
    </div>
  );
};

function leave(account: OpenAccount): void {
  const waiting = account.live.pending.length;
  const out = () =>
    signOut(account).catch((error: unknown) => sayFailure('Signing out failed', error));
  if (waiting === 0) {
    void out();
    return;
  }
  ask({
    title: 'Sign out and lose changes?',
    text: `${formatNumber(waiting)} changes have not reached the server yet. They are lost when you sign out.`,
    action: 'Sign out',
    isDangerous: true,
    run: out,
  });
}
