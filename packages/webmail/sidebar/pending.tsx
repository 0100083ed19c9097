/** Changes that the server does not have yet, and those that it refused. */
import type { Operation } from '../../sdk/src/mail/client.ts';
import type { OpenAccount } from '../state/accounts.ts';
import { describeOperation } from '../state/describe.ts';
import { closeOverlay } from '../state/overlay.ts';
import { Button } from '../ui/button.tsx';
import { Dialog } from '../ui/dialog.tsx';
import { sayFailure } from '../ui/toasts.tsx';

const undo = (operation: Operation) =>
  operation.undo().catch((error: unknown) => sayFailure('It could not be undone', error));

export const PendingDialog = ({ account }: { account: OpenAccount }) => {
  const { live } = account;
  const { pending, refused } = live;
  const forget = () => {
    live.refused = [];
  };
  return (
    <Dialog title="Changes on their way" close={closeOverlay}>
      <p class="soft">
        {pending.length > 0
          ? 'These are sent as soon as there is a connection, also after a reload.'
          : 'The server has everything.'}
      </p>
      <ul class="entries">
        {pending.map((operation) => (
          <li key={operation.id}>
            {describeOperation(operation)}
            <Button class="plain" label="Undo" press={() => void undo(operation)} />
          </li>
        ))}
      </ul>
      {refused.length > 0 && (
        <>
          <h3>Refused</h3>
          <ul class="entries">
            {refused.map(({ operation, reason }) => (
              <li key={operation.id}>
                {describeOperation(operation)}: {reason}
              </li>
            ))}
          </ul>
          <div class="buttons">
            <Button class="plain" label="Clear the list" press={forget} />
          </div>
        </>
      )}
    </Dialog>
  );
};
