/** Changes that the server does not have yet, and those that it refused. */
import { type FunctionalComponent, ref } from 'vue';
import type { Operation } from '../../sdk/src/mail/client.ts';
import { current } from '../state/accounts.ts';
import { describeOperation } from '../state/describe.ts';
import { Dialog } from '../ui/dialog.tsx';
import { sayFailure } from '../ui/toasts.tsx';

export const isPendingOpen = ref(false);

const close = () => {
  isPendingOpen.value = false;
};

const undo = (operation: Operation) =>
  operation.undo().catch((error: unknown) => sayFailure('It could not be undone', error));

export const PendingDialog: FunctionalComponent = () => {
  const account = current.value;
  if (!account) return null;
  const { live } = account;
  const forget = () => {
    live.refused = [];
  };
  return (
    <Dialog title="Changes on their way" close={close}>
      {live.pending.length === 0 && live.refused.length === 0 && <p>The server has everything.</p>}
      {live.pending.length > 0 && (
        <>
          <p class="soft">These are sent as soon as there is a connection, also after a reload.</p>
          <ul class="pending-list">
            {live.pending.map((operation) => (
              <li key={operation.id}>
                {describeOperation(operation)}
                <button type="button" class="plain" onClick={() => void undo(operation)}>
                  Undo
                </button>
              </li>
            ))}
          </ul>
        </>
      )}
      {live.refused.length > 0 && (
        <>
          <h3>Refused</h3>
          <ul class="pending-list">
            {live.refused.map(({ operation, reason }) => (
              <li key={operation.id}>
                {describeOperation(operation)}: {reason}
              </li>
            ))}
          </ul>
          <div class="buttons">
            <button type="button" class="plain" onClick={forget}>
              Clear the list
            </button>
          </div>
        </>
      )}
    </Dialog>
  );
};
