/** How the copy stands to the server: what waits to be sent there, and what it refused. */
import type { MailState, Operation } from '../../sdk/src/mail/client.ts';
import { isMail, type OpenAccount } from '../state/accounts.ts';
import { describeOperation } from '../state/describe.ts';
import { closeOverlay, opens } from '../state/overlay.ts';
import { Button } from '../ui/button.tsx';
import { Dialog } from '../ui/dialog.tsx';
import { count } from '../ui/format.ts';
import { ask } from '../ui/questions.tsx';
import { sayFailure } from '../ui/toasts.tsx';

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
      {client.storage === 'memory' && <p class="soft small">Nothing is kept on this device.</p>}
    </div>
  );
};

const undo = (operation: Operation) =>
  operation.undo().catch((error: unknown) => sayFailure('It could not be undone', error));

export const PendingDialog = ({ account }: { account: OpenAccount }) => {
  const { live } = account;
  const { pending, refused } = live;
  const forget = () => {
    for (const { operation } of refused.filter((one) => !isMail(one.operation)))
      void account.settle(operation, 'forget');
  };
  const drop = (operation: Operation) =>
    ask({
      title: 'Throw it away?',
      text: 'Its text and files are nowhere else.',
      action: 'Throw away',
      isDangerous: true,
      run: () => account.settle(operation, 'forget'),
    });
  return (
    <Dialog title="Changes on their way" close={closeOverlay}>
      {pending.length > 0 ? (
        <p class="soft">These are sent as soon as there is a connection, also after a reload.</p>
      ) : (
        refused.length === 0 && <p class="soft">The server has everything.</p>
      )}
      <ul>
        {pending.map((operation) => (
          <li class="bar apart" key={operation.id}>
            {describeOperation(operation)}
            <Button class="plain" label="Undo" press={() => void undo(operation)} />
          </li>
        ))}
      </ul>
      {refused.length > 0 && (
        <>
          <h3>Refused</h3>
          <ul>
            {refused.map(({ operation, reason }) => (
              <li class="bar apart" key={operation.id}>
                {describeOperation(operation)}: {reason}
                {isMail(operation) && (
                  <>
                    <Button
                      class="plain"
                      label="Keep as a draft"
                      press={() => void account.settle(operation, 'undo')}
                    />
                    <Button class="plain" label="Throw away" press={() => drop(operation)} />
                  </>
                )}
              </li>
            ))}
          </ul>
          {!refused.every(({ operation }) => isMail(operation)) && (
            <div class="bar wrap last">
              <Button class="plain" label="Clear the list" press={forget} />
            </div>
          )}
        </>
      )}
    </Dialog>
  );
};
