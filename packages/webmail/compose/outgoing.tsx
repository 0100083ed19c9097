/** What became of mail that was sent: what waits, what is tried again, and what could not be delivered, with the reason. */
import { defineComponent, type FunctionalComponent, ref, shallowRef } from 'vue';
import type { Send, SentMail } from '../../sdk/src/mail/client.ts';
import type { Account } from '../state/parts.ts';
import { Dialog } from '../ui/dialog.tsx';
import { formatWhen } from '../ui/format.ts';
import { say } from '../ui/toasts.tsx';

const STATES: Readonly<Record<Send['status'], string>> = {
  queued: 'Sending',
  deferred: 'Not delivered yet, it is tried again',
  delivered: 'Delivered',
  bounced: 'Not delivered',
  cancelled: 'Cancelled',
};

const SendRow: FunctionalComponent<{ send: SentMail; cancel: () => void }> = ({ send, cancel }) => {
  const { status, sendAt, recipients, subject } = send;
  const waits = status === 'queued' && sendAt !== undefined && Date.parse(sendAt) > Date.now();
  return (
    <li class={status}>
      <p>
        <b>{waits ? `Goes out ${formatWhen(sendAt)}` : STATES[status]}</b> {subject}
        {waits && (
          <button type="button" class="plain" onClick={cancel}>
            Cancel sending
          </button>
        )}
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
SendRow.props = ['send', 'cancel'];

export const Outgoing = defineComponent(
  (props: { account: Account; close: () => void }) => {
    // Not deep: what Vue puts around an operation has none of its private members.
    const sends = shallowRef<readonly SentMail[]>();
    const failure = ref<string>();
    const fail = (error: unknown) => {
      failure.value = error instanceof Error ? error.message : String(error);
    };
    const look = async () => {
      sends.value = await props.account.client.sends();
    };
    const cancel = async ({ operation }: SentMail) => {
      await operation.cancel();
      await look();
      say('It is a draft again, and is not sent');
    };
    look().catch(fail);
    return () => (
      <Dialog title="Outgoing mail" close={props.close}>
        {failure.value !== undefined ? (
          <p class="notice bad" role="alert">
            {failure.value}
          </p>
        ) : sends.value === undefined ? (
          <p class="soft">Loading…</p>
        ) : sends.value.length === 0 ? (
          <p>Nothing was sent lately.</p>
        ) : (
          <ul class="outgoing">
            {sends.value.map((send) => (
              <SendRow key={send.id} send={send} cancel={() => void cancel(send).catch(fail)} />
            ))}
          </ul>
        )}
      </Dialog>
    );
  },
  { props: ['account', 'close'] },
);
