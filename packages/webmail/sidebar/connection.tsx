/** How the copy stands to the server, and what waits to be sent there. */
import type { MailState } from '../../sdk/src/mail/client.ts';
import type { OpenAccount } from '../state/accounts.ts';
import { opens } from '../state/overlay.ts';
import { Button } from '../ui/button.tsx';
import { count } from '../ui/format.ts';

const words: Readonly<Record<MailState, string>> = {
  cached: 'Connecting…',
  syncing: 'Syncing…',
  live: 'Live',
  polling: 'Checked every minute',
  offline: 'Offline',
  stopped: 'Signed out',
};

export const Connection = ({ account }: { account: OpenAccount }) => {
  const { client, live } = account;
  const { state, stateReason, pending, refused } = live;
  return (
    <div class="connection soft small" data-state={state}>
      <p class="bar" title={stateReason}>
        <span class="dot" aria-hidden="true" />
        {words[state]}
        {state === 'offline' && (
          <Button class="link" label="Try now" press={() => client.reconnect()} />
        )}
        {state === 'stopped' && <Button class="link" label="Sign in" press={opens('sign-in')} />}
      </p>
      {pending.length + refused.length > 0 && (
        <button type="button" class="link" onClick={opens('pending')}>
          {pending.length > 0 && `${count(pending.length, 'change')} pending `}
          {refused.length > 0 && <span class="bad">{refused.length} refused</span>}
        </button>
      )}
      {client.storage === 'memory' && <p class="hint">Nothing is kept on this device.</p>}
    </div>
  );
};
