/** The files of a message: pictures are seen here, all are saved. */
import { defineComponent, onBeforeUnmount, ref } from 'vue';
import type { Attachment } from '../../sdk/src/api-types.ts';
import type { MailboxHandle, ReadMessage } from '../../sdk/src/mail/client.ts';
import { Dialog } from '../ui/dialog.tsx';
import { formatSize } from '../ui/format.ts';
import { Icon, Tool } from '../ui/icon.tsx';
import { sayFailure } from '../ui/toasts.tsx';
import { saveAttachment } from './files.ts';
import { isPicture, safeFileName, straighten } from './stranger-text.ts';

interface AttachmentsProps {
  readonly mailbox: MailboxHandle;
  readonly read: ReadMessage;
  readonly files: readonly Attachment[];
}

/** Octets. A larger picture is saved, not shown. */
const SHOWN_MAX = 20_000_000;

export const Attachments = defineComponent(
  (props: AttachmentsProps) => {
    const shown = ref<{ file: Attachment; url: string }>();
    const busy = ref<string>();
    const close = () => {
      if (shown.value) URL.revokeObjectURL(shown.value.url);
      shown.value = undefined;
    };
    onBeforeUnmount(close);
    const attempt = async (file: Attachment, what: string, run: () => Promise<void>) => {
      busy.value = file.part;
      try {
        await run();
      } catch (error) {
        sayFailure(`${safeFileName(file)} was not ${what}`, error);
      } finally {
        busy.value = undefined;
      }
    };
    const save = (file: Attachment) =>
      attempt(file, 'saved', () => saveAttachment(props.mailbox, props.read, file));
    const open = (file: Attachment) =>
      attempt(file, 'opened', async () => {
        const bytes = await props.mailbox.attachment(props.read.message.id, file.part);
        close();
        const url = URL.createObjectURL(new Blob([bytes], { type: file.contentType }));
        shown.value = { file, url };
      });
    return () => (
      <section class="attachments" aria-label="Attachments">
        <ul>
          {props.files.map((file) => {
            const name = straighten(safeFileName(file));
            const isOpened = isPicture(file.contentType) && file.size <= SHOWN_MAX;
            return (
              <li key={file.part} aria-busy={busy.value === file.part}>
                <button
                  type="button"
                  class="file"
                  title={isOpened ? `Open ${name}` : `Save ${name}`}
                  onClick={() => void (isOpened ? open(file) : save(file))}
                >
                  <Icon name="attach" />
                  <span class="name">{name}</span>
                  <span class="soft">{formatSize(file.size)}</span>
                </button>
                {isOpened && (
                  <Tool icon="download" label={`Save ${name}`} press={() => void save(file)} />
                )}
              </li>
            );
          })}
        </ul>
        {shown.value && (
          <Dialog title={straighten(safeFileName(shown.value.file))} isWide close={close}>
            <img class="seen-picture" src={shown.value.url} alt={safeFileName(shown.value.file)} />
          </Dialog>
        )}
      </section>
    );
  },
  { props: ['mailbox', 'read', 'files'] },
);
