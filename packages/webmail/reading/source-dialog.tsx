/** What only the source of a message tells: its header, and how to leave the list that sent it. */
import { defineComponent, ref } from 'vue';
import type { MailboxHandle, MailMessage } from '../../sdk/src/mail/client.ts';
import { Dialog } from '../ui/dialog.tsx';
import { readUnsubscribe } from './unsubscribe.ts';

interface SourceProps {
  readonly kind: 'source' | 'unsubscribe';
  readonly mailbox: MailboxHandle;
  readonly message: MailMessage;
  readonly onMailto: (url: string) => void;
  readonly close: () => void;
}

/** Octets that are shown: the header, and the beginning of the text. */
const SHOWN_MAX = 100_000;

export const SourceDialog = defineComponent(
  (props: SourceProps) => {
    const source = ref<string>();
    const failure = ref<string>();
    props.mailbox
      .source(props.message.id)
      .then(async (bytes) => {
        source.value = await bytes.slice(0, SHOWN_MAX).text();
      })
      .catch((error: unknown) => {
        failure.value = error instanceof Error ? error.message : String(error);
      });
    const unsubscribe = () => {
      const ways = readUnsubscribe(source.value ?? '');
      if (!ways) return <p>This message does not say how to unsubscribe.</p>;
      const { page, mailto } = ways;
      return (
        <>
          <p>
            The sender of this list offers it. If you never signed up, mark the message as spam: an
            answer shows that somebody reads it.
          </p>
          <div class="buttons">
            {mailto && (
              <button
                type="button"
                class="plain"
                onClick={() => {
                  props.close();
                  props.onMailto(mailto);
                }}
              >
                Write a mail
              </button>
            )}
            {page && (
              <a class="button" href={page} target="_blank" rel="noopener noreferrer nofollow">
                Open {new URL(page).host}
              </a>
            )}
          </div>
        </>
      );
    };
    const content = () => {
      if (failure.value !== undefined) {
        return (
          <p class="notice bad" role="alert">
            {failure.value}
          </p>
        );
      }
      if (source.value === undefined) return <p class="soft">Loading…</p>;
      return props.kind === 'source' ? (
        <pre class="source" tabindex="0">
          {source.value}
        </pre>
      ) : (
        unsubscribe()
      );
    };
    return () => (
      <Dialog
        title={props.kind === 'source' ? 'Source' : 'Unsubscribe'}
        isWide={props.kind === 'source'}
        close={props.close}
      >
        {content()}
      </Dialog>
    );
  },
  { props: ['kind', 'mailbox', 'message', 'onMailto', 'close'] },
);
