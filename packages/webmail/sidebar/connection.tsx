/** How the copy stands to the server, and what waits to be sent there. */
import type { FunctionalComponent } from 'vue';
import type { MailState } from '../../sdk/src/mail/client.ts';
import { isSigningIn } from '../sign-in.tsx';
import { current } from '../state/accounts.ts';
import { count } from '../ui/format.ts';
import { isPendingOpen } from './pending.tsx';

const words: Readonly<Record<MailState, string>> = {
  cached: 'Connecting…',
  syncing: 'Syncing…',
  live: 'Live',
  polling: 'Checked every minute',
  offline: 'Offline',
  stopped: 'Signed out',
};

export const Connection: FunctionalComponent = () => {
  const account = current.value;
  if (!account) return null;
  const { state, reason, pending, refused } = account.live;
  return (
    <div class="connection" data-state={state}>
      <p title={reason}>
        <span class="dot" aria-hidden="true" />
        {words[state]}
        {state === 'offline' && (
          <button type="button" class="link" onClick={() => account.client.reconnect()}>
            Try now
          </button>
        )}
        {state === 'stopped' && (
          <button
            type="button"
            class="link"
            onClick={() => {
              isSigningIn.value = true;
            }}
          >
            Sign in
          </button>
        )}
      </p>
      {(pending.length > 0 || refused.length > 0) && (
        <button type="button" class="link" onClick={openPending}>
          {pending.length > 0 && `${count(pending.length, 'change')} pending`}
          {pending.length > 0 && refused.length > 0 && ', '}
          {refused.length > 0 && <span class="bad">{refused.length} refused</span>}
        </button>
      )}
      {account.client.storage === 'memory' && <p class="hint">Nothing is kept on this device.</p>}
    </div>
  );
};

function openPending(): void {
  isPendingOpen.value = true;
}
