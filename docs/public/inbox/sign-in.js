/** The form that opens a session: by address and password, or by a token. */

import { Refused } from './api-call.js';
import { byId } from './elements.js';

/** @typedef {import('./session.js').Session} Session */

/** @type {(() => void) | undefined} */
let onDone;
let isWired = false;

/**
 * Shows the form; calls back once somebody is signed in.
 *
 * @param {Session} session
 * @param {string} notice why the last session ended; empty for none
 * @param {() => void} done
 */
export function askForSession(session, notice, done) {
  onDone = done;
  showNotice(notice);
  if (!isWired) wire(session);
  isWired = true;
  const address = byId('address', HTMLInputElement);
  if (session.account !== '') address.value = session.account;
  const first = address.value === '' ? address : byId('password');
  first.focus();
}

/** @param {Session} session */
function wire(session) {
  byId('by-password').addEventListener('click', () => choose(false));
  byId('by-token').addEventListener('click', () => choose(true));
  byId('sign-in').addEventListener('submit', (event) => {
    event.preventDefault();
    void submit(session);
  });
}

/** @param {boolean} byToken */
function choose(byToken) {
  byId('by-password').setAttribute('aria-pressed', String(!byToken));
  byId('by-token').setAttribute('aria-pressed', String(byToken));
  byId('password-fields').hidden = byToken;
  byId('token-fields').hidden = !byToken;
  showNotice('');
  byId(byToken ? 'token' : 'address').focus();
}

/** @param {Session} session */
async function submit(session) {
  const address = byId('address', HTMLInputElement);
  const password = byId('password', HTMLInputElement);
  const token = byId('token', HTMLTextAreaElement);
  const stay = byId('stay', HTMLInputElement);
  const button = byId('submit', HTMLButtonElement);
  const isByToken = !byId('token-fields').hidden;
  const missing = isByToken
    ? token.value.trim() === '' && 'Paste a token first.'
    : (address.value.trim() === '' || password.value === '') && 'Enter address and password.';
  if (missing) return showNotice(missing);
  showNotice('');
  button.disabled = true;
  try {
    if (isByToken) await session.useToken(token.value.trim());
    else await session.signIn(address.value.trim(), password.value, stay.checked);
    password.value = '';
    token.value = '';
    onDone?.();
  } catch (error) {
    showNotice(explain(error));
  } finally {
    button.disabled = false;
  }
}

/** @param {unknown} error */
function explain(error) {
  if (!(error instanceof Refused)) return error instanceof Error ? error.message : String(error);
  if (error.status === 401) return 'That did not open a mailbox: check what you entered.';
  if (error.status === 429 && error.retryAfter !== undefined) {
    return `Too many requests from here. Try again in ${error.retryAfter} seconds.`;
  }
  return error.message;
}

/** @param {string} text */
function showNotice(text) {
  const notice = byId('notice');
  notice.hidden = text === '';
  notice.textContent = text;
}
