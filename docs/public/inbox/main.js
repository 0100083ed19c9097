/**
 * The page: who is signed in, which message is open, what is on the screen. What it shows of mail
 * comes from the cache; what changes the cache is in inbox.js.
 */
import { byId, element } from './elements.js';
import { emptyHint } from './empty-hint.js';
import { Inbox } from './inbox.js';
import { openMailCache } from './mail-cache.js';
import { MailboxView } from './mailbox-view.js';
import { MemoryCache } from './memory-cache.js';
import { formatAddresses } from './message-parts.js';
import { MessageView } from './message-view.js';
import { ProtocolLog } from './protocol-log.js';
import { showProtocol } from './protocol-panel.js';
import { readBody, readHeaders, saveAttachment } from './read-message.js';
import { Session } from './session.js';
import { askForSession } from './sign-in.js';

/** @typedef {import('./sync-client.js').Message} Message */

const origin = location.origin;
const log = new ProtocolLog();
showProtocol(log);
const session = new Session({ origin, log, storage: sessionStorage, onWait: sayWait });
const cache = await openMailCache().catch(() => new MemoryCache());
const messageView = new MessageView();
const mailboxView = new MailboxView(() => void refresh());

/** @type {Inbox | undefined} */
let inbox;
let mailbox = 'INBOX';
/** UID of the message that is open. @type {number | undefined} */
let openUid;
/** Lets go of what is being fetched for a message that nobody looks at any more. */
let reading = new AbortController();
/** Whether the first look at the server is done: before it an empty list says nothing. */
let isSettled = false;

// ---- Who is signed in

/** @param {string} notice why the last session ended */
function showWelcome(notice) {
  inbox?.stop();
  inbox = undefined;
  show('welcome');
  byId('account').textContent = '';
  showState('stopped', 0);
  askForSession(session, notice, () => void enter());
}

async function enter() {
  show('inbox');
  isSettled = false;
  byId('empty').replaceChildren();
  messageView.clear();
  if (matchMedia('(min-width: 70rem)').matches) toggleProtocol(true);
  inbox = new Inbox({
    origin,
    session,
    cache,
    log,
    onState: showState,
    onMailboxes: () => {
      showMailboxes();
      void refresh();
    },
    onChange: (changed) => {
      if (changed === mailbox) void refresh();
    },
    onArrival: announce,
    onSettled: () => {
      isSettled = true;
      void refresh();
    },
    onEnd: (why) =>
      showWelcome(
        why === 'expired'
          ? 'Your token is not good any more. Sign in again; what this browser has kept is still here.'
          : 'This account is suspended or was deleted.',
      ),
    onTrouble: say,
  });
  await inbox.start();
  await route();
}

async function signOut() {
  const ending = inbox;
  inbox = undefined;
  reading.abort();
  await ending?.signOut();
  log.clear();
  byId('entries').replaceChildren();
  byId('messages').replaceChildren();
  messageView.clear();
  mailbox = 'INBOX';
  openUid = undefined;
  history.replaceState(null, '', location.pathname);
  showWelcome('');
}

// ---- What is on the screen

/** @param {'welcome' | 'inbox'} view */
function show(view) {
  const isInbox = view === 'inbox';
  document.body.dataset.view = view;
  byId('welcome').hidden = isInbox;
  byId('inbox').hidden = !isInbox;
  byId('sign-out').hidden = !isInbox;
  byId('toggle-protocol').hidden = !isInbox;
}

/** `#/INBOX/12` is a message, `#/INBOX` a mailbox: the browser's own back button goes between them. */
async function route() {
  const [, name = '', uid = ''] = location.hash.split('/');
  mailbox = decodeName(name) || 'INBOX';
  const before = openUid;
  openUid = /^[1-9]\d{0,9}$/.test(uid) ? Number(uid) : undefined;
  document.body.dataset.pane = openUid === undefined ? 'list' : 'message';
  mailboxView.markOpen(openUid === undefined ? '' : `${mailbox}/${openUid}`);
  showMailboxes();
  await refresh();
  reading.abort();
  reading = new AbortController();
  if (openUid !== undefined) await openMessage(openUid);
  else {
    messageView.clear();
    if (before !== undefined) mailboxView.focus();
  }
}

/** @param {string} name as an address bar has it, where anybody may write anything */
function decodeName(name) {
  try {
    return decodeURIComponent(name);
  } catch {
    return '';
  }
}

function listHash() {
  return `#/${encodeURIComponent(mailbox)}`;
}

function showMailboxes() {
  if (!inbox) return;
  byId('account').textContent = inbox.account;
  byId('account').title = inbox.account;
  const names = inbox.mailboxes.length > 0 ? inbox.mailboxes : ['INBOX'];
  const links = names.map((name) =>
    element(
      'a',
      {
        href: `#/${encodeURIComponent(name)}`,
        ...(name === mailbox && { 'aria-current': 'true' }),
      },
      name === 'INBOX' ? 'Inbox' : name,
    ),
  );
  byId('mailboxes').replaceChildren(...links);
}

/** Shows the list again from the cache. */
async function refresh() {
  if (!inbox || inbox.account === '') return;
  const shown = mailbox;
  const content = await cache.newest(inbox.account, shown, mailboxView.wanted);
  if (shown !== mailbox || !inbox) return;
  if (content.total === 0 && isSettled) {
    byId('empty').replaceChildren(...emptyHint(inbox.account, shown));
  }
  mailboxView.show(shown, content, isSettled);
}

/** @param {number} uid */
async function openMessage(uid) {
  if (!inbox) return;
  const { account } = inbox;
  const read = await cache.read(account, mailbox, uid);
  if (uid !== openUid) return;
  if (!read) {
    messageView.removed();
    return;
  }
  const { message } = read;
  const position = await cache.position(account, mailbox);
  const { signal } = reading;
  const from = mailbox;
  // A message never changes under its UID: what was read once is good for ever.
  let body = read.body;
  messageView.show(message, {
    back: listHash(),
    body: async () => {
      body ??= await readBody(session, from, uid, message.bodyStructure, signal);
      if (position) await cache.keepBody(account, from, position.uidvalidity, uid, body);
      return body;
    },
    headers: () => readHeaders(session, from, uid, signal),
    save: (part) => saveAttachment(session, from, uid, part),
  });
  if (matchMedia('(max-width: 44rem)').matches) byId('message-pane').focus();
}

/**
 * @param {string} where
 * @param {Message[]} messages
 */
function announce(where, messages) {
  mailboxView.markFresh(where, messages);
  void refresh();
  const newest = messages.at(-1);
  if (!newest) return;
  const from = formatAddresses(newest.envelope.from)[0] ?? 'unknown sender';
  say(
    messages.length === 1
      ? `New message from ${from}: ${newest.envelope.subject}`
      : `${messages.length} new messages`,
  );
}

// ---- What is said

/** @param {string} text for readers of the screen who do not see it */
function say(text) {
  byId('said').textContent = text;
}

/** @param {number} seconds */
function sayWait(seconds) {
  say(`The server asks us to wait ${seconds} seconds.`);
  byId('connection-text').textContent = `Waiting ${seconds} s`;
}

const STATES = {
  connecting: 'Connecting',
  live: 'Live',
  reconnecting: 'Reconnecting',
  stopped: 'Not connected',
};

/**
 * @param {import('./live-channel.js').ChannelState} state
 * @param {number} retryInMs
 */
function showState(state, retryInMs) {
  const badge = byId('connection');
  const isOffline = state === 'reconnecting' && !navigator.onLine;
  if (badge.dataset.state !== state && badge.dataset.state !== 'stopped') say(STATES[state]);
  badge.dataset.state = state;
  byId('connection-text').textContent = isOffline ? 'Offline' : STATES[state];
  badge.title = retryInMs > 0 ? `Next attempt in ${Math.ceil(retryInMs / 1000)} s` : '';
}

/** @param {boolean} [isOpen] */
function toggleProtocol(isOpen = byId('protocol').hidden === true) {
  byId('protocol').hidden = !isOpen;
  byId('toggle-protocol').setAttribute('aria-expanded', String(isOpen));
  document.body.classList.toggle('with-protocol', isOpen);
}

/**
 * A socket that was asleep may be dead without knowing it. The timers of a tab in the background run
 * once a minute at least: a longer gap is a machine that slept.
 */
function wakeAfterSleep() {
  const SLEEP_MS = 150_000;
  let awakeAt = Date.now();
  setInterval(() => {
    const slept = Date.now() - awakeAt > SLEEP_MS;
    awakeAt = Date.now();
    if (slept) inbox?.wake();
  }, 20_000);
}

// ---- The beginning

addEventListener('hashchange', () => void route());
addEventListener('online', () => inbox?.wake());
addEventListener('keydown', (event) => {
  if (event.key === 'Escape' && openUid !== undefined) location.hash = listHash();
});
byId('sign-out').addEventListener('click', () => void signOut());
byId('toggle-protocol').addEventListener('click', () => toggleProtocol());
byId('close-protocol').addEventListener('click', () => toggleProtocol(false));
wakeAfterSleep();

if (session.restore()) await enter();
else showWelcome('');
