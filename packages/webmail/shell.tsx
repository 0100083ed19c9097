/** The page: its panes, what lies over them, and the keys of all of it. */
import { defineAsyncComponent, defineComponent, watch } from 'vue';
import { List } from './list/list.tsx';
import { ListBar } from './list/list-bar.tsx';
import { selection } from './list/selection.ts';
import { followList } from './list/source.ts';
import { focusSearch, SearchBox } from './search/search-box.tsx';
import { Help, isHelpOpen } from './settings/help.tsx';
import { isSettingsOpen, Settings } from './settings/settings.tsx';
import { MoveDialog } from './sidebar/move-dialog.tsx';
import { isPendingOpen, PendingDialog } from './sidebar/pending.tsx';
import { isMenuOpen, isOutgoingOpen, Sidebar } from './sidebar/sidebar.tsx';
import { isSigningIn, SignIn } from './sign-in.tsx';
import { current } from './state/accounts.ts';
import { brand } from './state/brand.ts';
import { commands, isMoveOpen } from './state/commands.ts';
import { titleOf } from './state/describe.ts';
import { writing } from './state/parts.ts';
import { closeOpen, go, goTo, isPanelOpen, route } from './state/route.ts';
import { followOpened } from './thread/opened.ts';
import { Thread } from './thread/thread.tsx';
import { Tool } from './ui/icon.tsx';
import { useKeys } from './ui/keys.ts';
import { Questions } from './ui/questions.tsx';
import { runLastAction, Toasts } from './ui/toasts.tsx';

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
      {current.value && !isSigningIn.value ? <Desk key={current.value.address} /> : <SignIn />}
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
  const account = current.value;
  if (!account) return brand.name;
  const { mailbox, query } = route.value;
  const info = account.live.mailboxes.find(({ name }) => name === mailbox);
  const unseen = info?.unseen ? `(${info.unseen}) ` : '';
  const title = query ? `Search: ${query}` : `${unseen}${info ? titleOf(info) : mailbox}`;
  return `${title} · ${brand.name}`;
}

/** Everything of an account that is signed in. */
const Desk = defineComponent(() => {
  useKeys(pageKeys);
  return () => (
    <div class={['desk', { reading: route.value.open !== undefined, panel: isPanelOpen.value }]}>
      <button type="button" class="plain skip" onClick={toList}>
        To the messages
      </button>
      <TopBar />
      <Sidebar />
      <main class="list-pane">
        <ListBar />
        <List />
      </main>
      <section class="reading-pane" aria-label="Reading">
        <Thread />
      </section>
      {isPanelOpen.value && current.value && (
        <ProtocolPanel account={current.value} close={closePanel} />
      )}
      <Overlays />
    </div>
  );
});

function toList(): void {
  document.querySelector<HTMLElement>('.list')?.focus();
}

const TopBar = () => (
  <header class="top">
    <span class="menu-button">
      <Tool
        icon="menu"
        label="Mailboxes"
        press={() => {
          isMenuOpen.value = !isMenuOpen.value;
        }}
      />
    </span>
    <button type="button" class="name" onClick={toInbox}>
      {brand.name}
    </button>
    <SearchBox />
    <Tool
      icon="settings"
      label="Settings"
      press={() => {
        isSettingsOpen.value = true;
      }}
    />
  </header>
);

function toInbox(): void {
  if (current.value) goTo(current.value.address, 'INBOX');
}

function closePanel(): void {
  isPanelOpen.value = false;
}

function closeOutgoing(): void {
  isOutgoingOpen.value = false;
}

const Overlays = () => (
  <>
    {writing.value && <Composer writing={writing.value} />}
    {isMoveOpen.value && <MoveDialog />}
    {isPendingOpen.value && <PendingDialog />}
    {isOutgoingOpen.value && current.value && (
      <Outgoing account={current.value} close={closeOutgoing} />
    )}
    {isSettingsOpen.value && <Settings />}
    {isHelpOpen.value && <Help />}
  </>
);

const goToUse = (use: string) => {
  const account = current.value;
  const found = account?.live.mailboxes.find(({ specialUse }) => specialUse === use);
  if (account && found) goTo(account.address, found.name);
};

/** Escape leaves one thing after the other. */
function stepBack(): void {
  if (isMenuOpen.value) isMenuOpen.value = false;
  else if (selection.chosen.size > 0) selection.clear();
  else if (route.value.open) closeOpen();
  else if (route.value.query) go({ address: route.value.address, mailbox: 'INBOX' });
}

const pageKeys = {
  j: () => commands.step(1),
  k: () => commands.step(-1),
  Enter: () => commands.open(),
  o: () => commands.open(),
  u: () => commands.toggleRead(),
  x: () => {
    const row = selection.active.value;
    if (row) selection.toggle(row.key);
  },
  e: () => commands.archive(),
  y: () => commands.archive(),
  '#': () => commands.remove(),
  Delete: () => commands.remove(),
  '!': () => commands.spam(),
  v: () => commands.askWhere(),
  m: () => commands.askWhere(),
  r: () => commands.answer('reply'),
  a: () => commands.answer('reply-all'),
  f: () => commands.answer('forward'),
  s: () => commands.toggleStar(),
  c: () => commands.compose(),
  '/': focusSearch,
  z: runLastAction,
  '?': () => {
    isHelpOpen.value = true;
  },
  Escape: stepBack,
  'g i': toInbox,
  'g s': () => goToUse('\\Sent'),
  'g d': () => goToUse('\\Drafts'),
  'g a': () => goToUse('\\Archive'),
  'g t': () => goToUse('\\Trash'),
};
