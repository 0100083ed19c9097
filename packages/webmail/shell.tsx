/** The page: its panes, and what lies over them. */
import { type Component, defineAsyncComponent, defineComponent, watch, watchEffect } from 'vue';
import { List } from './list/list.tsx';
import { ListBar } from './list/list-bar.tsx';
import { followList } from './list/source.ts';
import { SearchBox } from './search/search-box.tsx';
import { Settings } from './settings/settings.tsx';
import { Help, pageKeys } from './settings/shortcuts.tsx';
import { PendingDialog } from './sidebar/connection.tsx';
import { MoveDialog } from './sidebar/move-dialog.tsx';
import { Sidebar, WriteButton } from './sidebar/sidebar.tsx';
import { SignInDialog, SignInPage } from './sign-in.tsx';
import { accounts, current, here, type OpenAccount, titleOfName } from './state/accounts.ts';
import { brand } from './state/brand.ts';
import { closeOverlay, opens, overlay } from './state/overlay.ts';
import { writing } from './state/parts.ts';
import { go, isPanelOpen, route } from './state/route.ts';
import { followOpened } from './thread/opened.ts';
import { Thread } from './thread/thread.tsx';
import { Button, Tool } from './ui/button.tsx';
import { component } from './ui/component.ts';
import { focusList, keepFocus, keepFocusOfButtons } from './ui/focus.ts';
import { Icon } from './ui/icon.tsx';
import { useKeys } from './ui/keys.ts';
import { Questions } from './ui/questions.tsx';
import { sets } from './ui/sets.ts';
import { sayFailure, Toasts } from './ui/toasts.tsx';

export const Shell = defineComponent(() => {
  followList();
  followOpened();
  // Back leads to other messages than those that a dialog is about.
  watch(route, closeOverlay);
  // The page of another account, or the one to sign in.
  watch(
    () => current.value?.address,
    () => void keepFocus(),
  );
  keepFocusOfButtons();
  watchEffect(() => {
    document.title = titleNow();
  });
  // Once the list is there: who loses the network after that can write.
  watchEffect(() => {
    if (current.value?.live.state === 'live') void loadComposer().catch(() => undefined);
  });
  return () => (
    <>
      {current.value ? (
        <Desk key={current.value.address} account={current.value} />
      ) : (
        <SignInPage />
      )}
      {/* Another account may be shown while it is open. */}
      {writing.value && (
        <Composer
          key={writing.value.id}
          writing={writing.value}
          isOfSeveral={accounts.value.length > 1}
        />
      )}
      <Questions />
      <Toasts />
    </>
  );
});

/** A part that is not loaded with the page; of a service that was updated since, it may be gone. */
const lazily = <Part extends Component>(loader: () => Promise<Part>) =>
  defineAsyncComponent({
    loader,
    onError(error, _again, fail) {
      sayFailure('This part of the page could not be loaded. Reload the page', error);
      fail();
    },
  });
const loadComposer = async () => (await import('./compose/composer.tsx')).Composer;
const Composer = lazily(loadComposer);
const Outgoing = lazily(async () => (await import('./compose/outgoing.tsx')).Outgoing);
const ProtocolPanel = lazily(async () => (await import('./panel/panel.tsx')).ProtocolPanel);

/** "(3) Inbox · Mail" */
function titleNow(): string {
  if (!current.value) return brand.name;
  const { mailbox, query } = route.value;
  const unseen = here.value?.unseen ? `(${here.value.unseen}) ` : '';
  const title = query ? `Search: ${query}` : `${unseen}${titleOfName(mailbox)}`;
  return `${title} · ${brand.name}`;
}

/** Everything of an account that is signed in. */
const Desk = component<{ account: OpenAccount }>(['account'], ({ account }) => {
  useKeys(pageKeys);
  return () => (
    <div class={['desk', { reading: route.value.open }]}>
      <Button class="plain skip" label="To the messages" press={focusList} />
      <TopBar account={account} />
      <Sidebar account={account} />
      <main class="list-pane">
        <ListBar />
        <List />
        <WriteButton />
      </main>
      <section class="reading-pane" aria-label="Reading">
        <Thread />
      </section>
      {isPanelOpen.value && <ProtocolPanel account={account} close={sets(isPanelOpen, false)} />}
      {overlay.value === 'move' && <MoveDialog />}
      {overlay.value === 'pending' && <PendingDialog account={account} />}
      {overlay.value === 'outgoing' && <Outgoing account={account} close={closeOverlay} />}
      {overlay.value === 'settings' && <Settings account={account} />}
      {overlay.value === 'help' && <Help />}
      {overlay.value === 'sign-in' && <SignInDialog />}
    </div>
  );
});

const TopBar = ({ account }: { account: OpenAccount }) => (
  <header class="top bar ruled">
    <button type="button" class="tool menu-button" aria-label="Mailboxes" popovertarget="mailboxes">
      <Icon name="menu" />
    </button>
    <Button
      class="name"
      label={brand.name}
      press={() => go({ address: account.address, mailbox: 'INBOX' })}
    />
    <SearchBox account={account} />
    <Tool icon="settings" label="Settings" press={opens('settings')} />
  </header>
);
