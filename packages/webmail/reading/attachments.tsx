/** The files of a message: pictures are seen here, all are saved. */
import { onBeforeUnmount, ref, shallowRef } from 'vue';
import type { Attachment } from '../../sdk/src/api-types.ts';
import { Tool } from '../ui/button.tsx';
import { component } from '../ui/component.ts';
import { Dialog } from '../ui/dialog.tsx';
import { formatSize } from '../ui/format.ts';
import { Icon } from '../ui/icon.tsx';
import { sayFailure } from '../ui/toasts.tsx';
import { saveFile } from './files.ts';
import type { OpenMessage } from './open-message.ts';
import { isPicture, safeFileName } from './stranger-text.ts';

/** Octets. A larger picture is saved, not shown. */
const SHOWN_MAX = 20_000_000;

export const Attachments = component<{ open: OpenMessage }>(['open'], ({ open }) => {
  const { read, attached } = open;
  const shown = shallowRef<{ name: string; url: string }>();
  const busy = ref<string>();
  const close = () => {
    if (shown.value) URL.revokeObjectURL(shown.value.url);
    shown.value = undefined;
  };
  onBeforeUnmount(close);
  /** Fetches a file for something that is done with it. */
  const use = async (file: Attachment, act: (bytes: Blob, name: string) => void) => {
    if (busy.value === file.part) return;
    const name = safeFileName(file);
    busy.value = file.part;
    try {
      act(await open.mailbox.attachment(read.message.id, file.part), name);
    } catch (error) {
      sayFailure(`${name} was not fetched`, error);
    } finally {
      busy.value = undefined;
    }
  };
  const show = (file: Attachment) =>
    use(file, (bytes, name) => {
      close();
      const url = URL.createObjectURL(new Blob([bytes], { type: file.contentType }));
      shown.value = { name, url };
    });
  const entry = (file: Attachment) => {
    const name = safeFileName(file);
    const isShown = isPicture(file.contentType) && file.size <= SHOWN_MAX;
    const save = () => void use(file, saveFile);
    return (
      <li key={file.part} aria-busy={busy.value === file.part}>
        <button
          type="button"
          class="file"
          title={isShown ? `Open ${name}` : `Save ${name}`}
          onClick={isShown ? () => void show(file) : save}
        >
          <Icon name="attach" />
          {name}
          <span class="soft">{formatSize(file.size)}</span>
        </button>
        {isShown && <Tool icon="download" label={`Save ${name}`} press={save} />}
      </li>
    );
  };
  return () => (
    <>
      <ul class="attachments bar wrap" aria-label="Attachments">
        {attached.map(entry)}
      </ul>
      {shown.value && (
        <Dialog title={shown.value.name} isWide close={close}>
          <img class="seen-picture" src={shown.value.url} alt={shown.value.name} />
        </Dialog>
      )}
    </>
  );
});
