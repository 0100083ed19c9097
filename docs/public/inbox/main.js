/**
 * The page: the session, and how the parts are connected. screen.js shows things, inbox.js changes the cache.
 */
import { Composer } from './composer.js';
import { ConnectionBadge } from './connection-badge.js';
import { confirmDialog, keysDialog } from './dialogs.js';
import { newDraft } from './draft.js';
import { DraftKeeper } from './draft-keeper.js';
import { byId } from './elements.js';
import { Inbox } from './inbox.js';
import { KEYS, listenToKeys } from './keys.js';
import { MailActions } from './mail-actions.js';
import { openMailCache } from './mail-cache.js';
import { MemoryCache } from './memory-cache.js';
import { formatAddresses } from './message-parts.js';
import { applyTool } from './message-tools.js';
import { NoticeBar } from './notice-bar.js';
import { Outbox } from './outbox.js';
import { ProtocolLog } from './protocol-log.js';
import { showProtocol, toggleProtocol } from './protocol-panel.js';
import { Screen } from './screen.js';
import { Session } from './session.js';
import { askForSession } from './sign-in.js';

/** @typedef {import('./mailbox-view.js').Entry} Entry */
/** @typedef {import('./sync-client.js').Message} Message */

const origin = location.origin;
const log = new ProtocolLog();
showProtocol(log);
const notice = new NoticeBar();
const badge = new ConnectionBadge(say, () => page?.inbox.wake());
const session = new Session({
  origin,
  log,
  storage: sessionStorage,
  device: localStorage,
  onWait: (seconds) => badge.showWait(seconds),
});
const cache = await openMailCache().catch(() => new MemoryCache());
const screen = new Screen({
  session,
  cache,
  onTool: (name, entry) => void useTool(name, entry),
  onSendTest: () => void sendTest(),
  onTrouble: (detail) => notice.show(detail, { isError: true }),
  composer: () => composer,
});
const outbox = new Outbox({ session, storage: sessionStorage, notice, say });
const composer = new Composer({
  keeper: () => {
    if (!page) throw new Error('nobody is signed in');
    return page.keeper;
  },
  notice,
  onOpen: () => screen.showWriting(),
  onClose: () => screen.endWriting(),
  onKept: (kept) => screen.markKept(kept),
  onSent: (id, subject) => outbox.add(id, subject),
  onTakenBack: (id) => outbox.drop(id),
});

/**
 * What works for the account that is signed in.
 *
 * @type {{ inbox: Inbox, actions: MailActions, keeper: DraftKeeper } | undefined}
 */
let page;

// ---- The session

/** @param {string} why the last session ended */
function showWelcome(why) {
  page?.inbox.stop();
  page = undefined;
  composer.drop();
  show('welcome');
  screen.close();
  badge.show('stopped', 0);
  askForSession(session, why, () => void enter(true));
}

/** @param {boolean} wantsFocus whether somebody has just signed in */
async function enter(wantsFocus) {
  show('inbox');
  if (matchMedia('(min-width: 70rem)').matches) toggleProtocol(true);
  const inbox = new Inbox({
    origin,
    session,
    cache,
    log,
    onState: (state, retryInMs) => badge.show(state, retryInMs),
    onMailboxes: () => void screen.refresh(),
    onChange: () => void screen.refresh(),
    onArrival: announce,
    onSettled: () => screen.settle(),
    onEnd: (why) =>
      showWelcome(
        why === 'expired'
          ? 'Your token is not good any more. Sign in again; what this browser has kept is still here.'
          : 'This account is suspended or was deleted.',
      ),
    onTrouble: say,
  });
  page = {
    inbox,
    actions: new MailActions({ inbox, notice, confirm: confirmDialog }),
    keeper: new DraftKeeper(session, inbox),
  };
  screen.open(inbox, wantsFocus);
  if (!wantsFocus) outbox.restore();
  await inbox.start();
  await screen.goToPlace();
}

async function signOut() {
  if (composer.isOpen && !(await composer.close())) return;
  const ending = page;
  page = undefined;
  outbox.clear();
  await ending?.inbox.signOut();
  log.clear();
  byId('entries').replaceChildren();
  notice.hide();
  history.replaceState(null, '', location.pathname);
  showWelcome('');
}

/** @param {'welcome' | 'inbox'} view */
function show(view) {
  const isInbox = view === 'inbox';
  document.body.dataset.view = view;
  byId('welcome').hidden = isInbox;
  byId('inbox').hidden = !isInbox;
  byId('sign-out').hidden = !isInbox;
  byId('toggle-protocol').hidden = !isInbox;
}

// ---- Actions and notices

/**
 * @param {string} name
 * @param {Entry | undefined} entry
 */
async function useTool(name, entry) {
  if (!page || !entry) return;
  try {
    await applyTool(name, entry, { ...page, screen, composer });
  } catch (error) {
    // The user has opened another message while this one was read.
    if (error instanceof DOMException && error.name === 'AbortError') return;
    notice.show(error instanceof Error ? error.message : String(error), { isError: true });
  }
}

/**
 * @param {string} mailbox
 * @param {Message[]} messages
 */
function announce(mailbox, messages) {
  screen.markFresh(mailbox, messages);
  const newest = messages.at(-1);
  if (!newest) return;
  const from = formatAddresses(newest.envelope.from)[0] ?? 'unknown sender';
  say(
    messages.length === 1
      ? `New message from ${from}: ${newest.envelope.subject}`
      : `${messages.length} new messages`,
  );
}

/** Sends a mail from the account to itself, which arrives like any other. */
async function sendTest() {
  const body = {
    to: [{ address: session.account }],
    subject: 'It works',
    text: `This is a test mail from the live inbox at ${origin}/docs/inbox.`,
  };
  try {
    await session.json('/mail/send', { method: 'POST', body });
    notice.show('A test mail is on its way.');
  } catch (error) {
    notice.show(error instanceof Error ? error.message : String(error), { isError: true });
  }
}

/** @param {string} text for readers of the screen who do not see it */
function say(text) {
  byId('said').textContent = text;
}

// ---- Start

listenToKeys(byId('messages'), {
  moveFocus: (step) => screen.list.moveFocus(step),
  leave: () => screen.leave(),
  onMessage: (name) => void useTool(name, screen.chosen),
  thread: () => screen.list.toggleThread(),
  undo: () => notice.undo(),
  write: () => void composer.open('New message', newDraft()),
  search: () => byId('search').focus(),
  help: () => void keysDialog(KEYS),
});
byId('write').addEventListener('click', () => void composer.open('New message', newDraft()));
byId('sign-out').addEventListener('click', () => void signOut());

if (session.restore() || (await session.resume())) await enter(false);
else showWelcome('');
