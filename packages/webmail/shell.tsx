/** The page: its panes, and what lies over them. */
import { defineAsyncComponent, defineComponent, watch } from 'vue';
import { List } from './list/list.tsx';
import { ListBar } from './list/list-bar.tsx';
import { followList } from './list/source.ts';
import { SearchBox } from './search/search-box.tsx';
import { Settings } from './settings/settings.tsx';
import { Help, pageKeys } from './settings/shortcuts.tsx';
import { MoveDialog } from './sidebar/move-dialog.tsx';
import { PendingDialog } from './sidebar/pending.tsx';
import { Sidebar } from './sidebar/sidebar.tsx';
import { isSigningIn, SignIn } from './sign-in.tsx';
import { current, here, type OpenAccount, titleOfName } from './state/accounts.ts';
import { brand } from './state/brand.ts';
import { closeOverlay, opens, overlay } from './state/overlay.ts';
import { writing } from './state/parts.ts';
import { goTo, isPanelOpen, route } from './state/route.ts';
import { followOpened } from './thread/opened.ts';
import { Thread } from './thread/thread.tsx';
import { Icon, Tool } from './ui/icon.tsx';
import { useKeys } from './ui/keys.ts';
import { Questions } from './ui/questions.tsx';
import { Toasts } from './ui/toasts.tsx';

export const Shell = defineComponent(() => {
  followList();
  followOpened();
  watch(
    titleNow,
    (title) => {
      document.title = title;
    },
    { immediate: true },
  );
  return () => (
    <>
      {current.value && !isSigningIn.value ? (
        <Desk key={current.value.address} account={current.value} />
      ) : (
        <SignIn />
      )}
      <Questions />
      <Toasts />
    </>
  );
});

/** Loaded when somebody writes, or wants to see the protocol. */
const Composer = defineAsyncComponent(
  async () => (await import('./compose/composer.tsx')).Composer,
);
const Outgoing = defineAsyncComponent(
  async () => (await import('./compose/outgoing.tsx')).Outgoing,
);
const ProtocolPanel = defineAsyncComponent(
  async () => (await import('./panel/panel.tsx')).ProtocolPanel,
);

/** "(3) Inbox · Mail" */
function titleNow(): string {
  if (!current.value) return brand.name;
  const { mailbox, query } = route.value;
  const unseen = here.value?.unseen ? `(${here.value.unseen}) ` : '';
  const title = query ? `Search: ${query}` : `${unseen}${titleOfName(mailbox)}`;
  return `${title} · ${brand.name}`;
}

/** Everything of an account that is signed in. */
const Desk = defineComponent(
  ({ account }: { account: OpenAccount }) => {
    useKeys(pageKeys);
    return () => (
      <div class={['desk', { reading: route.value.open }]}>
        <button type="button" class="plain skip" onClick={toList}>
          To the messages
        </button>
        <TopBar account={account} />
        <Sidebar account={account} />
        <main class="list-pane">
          <ListBar />
          <List />
        </main>
        <section class="reading-pane" aria-label="Reading">
          <Thread />
        </section>
        {isPanelOpen.value && <ProtocolPanel account={account} close={closePanel} />}
        {writing.value && <Composer key={writing.value.id} writing={writing.value} />}
        {overlay.value === 'move' && <MoveDialog />}
        {overlay.value === 'pending' && <PendingDialog account={account} />}
        {overlay.value === 'outgoing' && <Outgoing account={account} close={closeOverlay} />}
        {overlay.value === 'settings' && <Settings account={account} />}
        {overlay.value === 'help' && <Help />}
      </div>
    );
  },
  { props: ['account'] },
);

function toList(): void {
  document.querySelector<HTMLElement>('.list')?.focus();
}

function closePanel(): void {
  isPanelOpen.value = false;
}

const TopBar = ({ account }: { account: OpenAccount }) => (
  <header class="top bar">
    <button type="button" class="tool menu-button" aria-label="Mailboxes" popovertarget="mailboxes">
      <Icon name="menu" />
    </button>
    <button type="button" class="name" onClick={() => goTo(account.address, 'INBOX')}>
      {brand.name}
    </button>
    <SearchBox account={account} />
    <Tool icon="settings" label="Settings" press={opens('settings')} />
  </header>
);
