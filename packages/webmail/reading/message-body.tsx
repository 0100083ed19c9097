/**
 * An open message: its addresses, its text in a frame or as plain text, its files, and what can be done with it alone:
 * print it, see its source, leave its list. Actions that move it belong to the list and its keys.
 */
import { ref } from 'vue';
import type { MailMessage } from '../../sdk/src/mail/client.ts';
import type { Account } from '../state/parts.ts';
import { component } from '../ui/component.ts';
import { useLoaded, Waiting } from '../ui/loaded.tsx';
import { Menu } from '../ui/menu.tsx';
import { sets, turns } from '../ui/sets.ts';
import { sayFailure } from '../ui/toasts.tsx';
import { Attachments } from './attachments.tsx';
import { saveFile } from './files.ts';
import { MailText } from './mail-text.tsx';
import { MessageHead } from './message-head.tsx';
import { type OpenMessage, openMessage } from './open-message.ts';
import { PlainText } from './plain-text.tsx';
import { PrintSheet } from './print-sheet.tsx';
import { SourceDialog, UnsubscribeDialog } from './source-dialog.tsx';
import './reading.css';

/** Another message is another one of these (`key`). */
export const MessageBody = component<{ account: Account; message: MailMessage }>(
  ['account', 'message'],
  ({ account, message }) => {
    const loaded = useLoaded(() => openMessage(account, message));
    return () => (
      <div class="message-body" aria-busy={!loaded.value && loaded.failure === undefined}>
        {loaded.value ? <OpenBody open={loaded.value} /> : <Waiting of={loaded} />}
      </div>
    );
  },
);

const OpenBody = component<{ open: OpenMessage }>(['open'], ({ open }) => {
  const { read, attached } = open;
  const isPlain = ref(read.html === undefined);
  const shown = ref<'source' | 'unsubscribe' | 'print'>();
  const close = sets(shown, undefined);
  const save = () =>
    open.mailbox
      .source(read.message.id)
      .then((source) => saveFile(source, 'message.eml'))
      .catch((error: unknown) => sayFailure('The source was not saved', error));
  const items = () => [
    read.html !== undefined && read.text !== undefined
      ? {
          label: isPlain.value ? 'Show with formatting' : 'Show as plain text',
          run: turns(isPlain),
        }
      : undefined,
    { label: 'Print', icon: 'print' as const, run: sets(shown, 'print') },
    { label: 'Unsubscribe…', run: sets(shown, 'unsubscribe') },
    { label: 'Show source', icon: 'code' as const, run: sets(shown, 'source') },
    { label: 'Save source', icon: 'download' as const, run: () => void save() },
  ];
  return () => (
    <>
      <div class="message-about bar apart">
        <MessageHead message={read.message} auth={read.auth} />
        <Menu label="More about this message" items={items} />
      </div>
      {read.truncated && <p class="notice">Only the beginning is shown: it is very long.</p>}
      {isPlain.value ? <Plain open={open} /> : <MailText open={open} />}
      {attached.length > 0 && <Attachments open={open} />}
      {shown.value === 'print' && <PrintSheet open={open} close={close} />}
      {shown.value === 'source' && <SourceDialog open={open} close={close} />}
      {shown.value === 'unsubscribe' && <UnsubscribeDialog open={open} close={close} />}
    </>
  );
});

const Plain = ({ open }: { open: OpenMessage }) =>
  open.read.text?.trim() ? (
    <PlainText text={open.read.text} writeTo={open.writeTo} />
  ) : (
    <p class="soft">This message has no text.</p>
  );
