/** What became of mail that was sent: what waits, what is tried again, and what could not be delivered, with the reason. */
import { onScopeDispose } from 'vue';
import type { Send, SentMail } from '../../sdk/src/mail/client.ts';
import type { OpenedProps } from '../state/parts.ts';
import { Button } from '../ui/button.tsx';
import { component } from '../ui/component.ts';
import { Dialog } from '../ui/dialog.tsx';
import { formatSoon, reasonOf } from '../ui/format.ts';
import { useLoaded, Waiting } from '../ui/loaded.tsx';
import { say } from '../ui/toasts.tsx';

const STATES: Readonly<Record<Send['status'], string>> = {
  queued: 'Sending',
  deferred: 'Not delivered yet, it is tried again',
  delivered: 'Delivered',
  bounced: 'Not delivered',
  cancelled: 'Cancelled',
};

const SendRow = ({ send, cancel }: { send: SentMail; cancel: () => void }) => {
  const { status, sendAt, recipients, subject } = send;
  const waits = status === 'queued' && sendAt !== undefined && Date.parse(sendAt) > Date.now();
  return (
    <li class="ruled">
      <p>
        <b class={{ bad: status === 'bounced' }}>
          {waits ? `Goes out ${formatSoon(sendAt)}` : STATES[status]}
        </b>{' '}
        {subject}
        {waits && <Button class="plain" label="Cancel sending" press={cancel} />}
      </p>
      <ul>
        {recipients.map(({ address, status: one, detail }) => (
          <li key={address}>
            {address}
            {one !== status && `: ${STATES[one]}`}
            {detail && one !== 'delivered' && <span class="soft"> {detail}</span>}
          </li>
        ))}
      </ul>
    </li>
  );
};

export const Outgoing = component<OpenedProps>(['account', 'close'], ({ account, close }) => {
  const sends = useLoaded(() => account.client.sends());
  // Mail that was on its way has gone, or waits for its time now.
  onScopeDispose(account.client.on('pending', sends.again));
  const cancel = async ({ operation }: SentMail) => {
    try {
      await operation.cancel();
      sends.again();
      say('It is a draft again, and is not sent');
    } catch (error) {
      sends.failure = reasonOf(error);
    }
  };
  return () => (
    <Dialog title="Outgoing mail" close={close}>
      {sends.value === undefined || sends.failure !== undefined ? (
        <Waiting of={sends} />
      ) : sends.value.length === 0 ? (
        <p>Nothing was sent from here lately.</p>
      ) : (
        <ul class="outgoing">
          {sends.value.map((send) => (
            <SendRow key={send.id} send={send} cancel={() => void cancel(send)} />
          ))}
        </ul>
      )}
    </Dialog>
  );
});
