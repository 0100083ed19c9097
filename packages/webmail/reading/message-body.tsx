/**
 * An open message: its addresses, its text in a frame or as plain text, its files, and what can be done with it alone:
 * print it, see its source, leave its list. Actions that move it belong to the list and its keys.
 */
import { defineComponent, ref, watch } from 'vue';
import type { MailMessage } from '../../sdk/src/mail/client.ts';
import { readMailto } from '../compose/mailto.ts';
import { type Account, write } from '../state/parts.ts';
import { Menu } from '../ui/menu.tsx';
import { sayFailure } from '../ui/toasts.tsx';
import { Attachments } from './attachments.tsx';
import { saveFile } from './files.ts';
import { MessageHead } from './message-head.tsx';
import { MessageText } from './message-text.tsx';
import { PrintSheet } from './print-sheet.tsx';
import { SourceDialog } from './source-dialog.tsx';
import { type OpenMessage, useMessage } from './use-message.ts';
import './reading.css';

interface BodyProps {
  readonly account: Account;
  readonly message: MailMessage;
}

export const MessageBody = defineComponent(
  (props: BodyProps) => {
    const { open, failure, load } = useMessage(props);
    const writeTo = (url: string) =>
      write({ kind: 'new', account: props.account, ...readMailto(url) });
    return () => (
      <div class="message-body" aria-busy={!open.value && failure.value === undefined}>
        {open.value ? (
          <OpenBody key={String(props.message.id)} open={open.value} onMailto={writeTo} />
        ) : failure.value === undefined ? (
          <p class="soft">Loading…</p>
        ) : (
          <p class="notice bad" role="alert">
            The message could not be read: {failure.value}{' '}
            <button type="button" class="link" onClick={() => void load()}>
              Try again
            </button>
          </p>
        )}
      </div>
    );
  },
  { props: ['account', 'message'] },
);

interface OpenProps {
  readonly open: OpenMessage;
  readonly onMailto: (url: string) => void;
}

const OpenBody = defineComponent(
  (props: OpenProps) => {
    const asText = ref(false);
    const shown = ref<'source' | 'unsubscribe' | 'print'>();
    const show = (what: typeof shown.value) => () => {
      shown.value = what;
    };
    watch(
      () => props.open,
      () => {
        asText.value = false;
      },
    );
    const saveSource = async ({ mailbox, read }: OpenMessage) => {
      try {
        saveFile(await mailbox.source(read.message.id), 'message.eml');
      } catch (error) {
        sayFailure('The source was not saved', error);
      }
    };
    const turn = () => {
      asText.value = !asText.value;
    };
    const items = ({ html, text }: OpenMessage['read']) => [
      html !== undefined && text !== undefined
        ? { label: asText.value ? 'Show with formatting' : 'Show as plain text', run: turn }
        : undefined,
      { label: 'Print', icon: 'print' as const, run: show('print') },
      { label: 'Unsubscribe…', run: show('unsubscribe') },
      { label: 'Show source', icon: 'code' as const, run: show('source') },
      { label: 'Save source', icon: 'download' as const, run: () => void saveSource(props.open) },
    ];
    return () => {
      const { read, mailbox, attached } = props.open;
      return (
        <>
          <div class="message-about">
            <MessageHead message={read.message} auth={read.auth} />
            <Menu label="More about this message" items={items(read)} />
          </div>
          {read.truncated && <p class="notice">Only the beginning is shown: it is very long.</p>}
          <MessageText open={props.open} asText={asText.value} onMailto={props.onMailto} />
          {attached.length > 0 && <Attachments mailbox={mailbox} read={read} files={attached} />}
          {shown.value === 'print' && <PrintSheet open={props.open} close={show(undefined)} />}
          {(shown.value === 'source' || shown.value === 'unsubscribe') && (
            <SourceDialog
              kind={shown.value}
              mailbox={mailbox}
              message={read.message}
              onMailto={props.onMailto}
              close={show(undefined)}
            />
          )}
        </>
      );
    };
  },
  { props: ['open', 'onMailto'] },
);
