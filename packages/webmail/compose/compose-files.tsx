/** The files of a message that is written, and what is quoted below it. */
import { ref } from 'vue';
import { MailFrame } from '../reading/mail-frame.tsx';
import { Button, Tool } from '../ui/button.tsx';
import { formatSize } from '../ui/format.ts';
import { Icon } from '../ui/icon.tsx';
import { sets } from '../ui/sets.ts';
import { FILES_MAX, uploadSize } from './checks.ts';
import type { Quote } from './content.ts';
import type { ComposeSession, SessionProps } from './session.ts';

/** Files that are dropped on a form or pasted into it. */
export function useFiles(session: ComposeSession) {
  /** Files are held over the form. */
  const isDropping = ref(false);
  return {
    isDropping,
    on: {
      onPaste(event: ClipboardEvent) {
        const given = event.clipboardData;
        // A text that was copied from a document comes with a picture of itself.
        if (!given || given.files.length === 0 || given.types.includes('text/plain')) return;
        event.preventDefault();
        session.attach(given.files);
      },
      onDragover({ dataTransfer }: DragEvent) {
        isDropping.value = dataTransfer?.types.includes('Files') === true;
      },
      onDragleave: sets(isDropping, false),
      onDrop({ dataTransfer }: DragEvent) {
        isDropping.value = false;
        session.attach(dataTransfer?.files ?? []);
      },
    },
  };
}

export const FileList = ({ session }: SessionProps) => {
  const { files } = session.content;
  const size = uploadSize(files);
  const remove = (at: number) => session.change({ files: files.toSpliced(at, 1) });
  return (
    files.length > 0 && (
      <section class="compose-files" aria-label="Files">
        <ul>
          {files.map((file, at) => (
            <li key={`${at} ${file.filename}`} class="bar">
              <Icon name="attach" />
              {file.filename}
              <span class="soft">{formatSize(file.size)}</span>
              <Tool icon="close" label={`Remove ${file.filename}`} press={() => remove(at)} />
            </li>
          ))}
        </ul>
        {size > FILES_MAX * 0.8 && (
          <p class="soft small">
            {formatSize(size)} of {formatSize(FILES_MAX)}
          </p>
        )}
      </section>
    )
  );
};

/** Chooses files of this device. */
export const AttachButton = ({ session }: SessionProps) => (
  <label class="tool attach-button" title="Attach files">
    <Icon name="attach" />
    <input
      type="file"
      multiple
      class="unseen"
      aria-label="Attach files"
      onChange={(event: Event) => {
        const input = event.target as HTMLInputElement;
        session.attach(input.files ?? []);
        // The same file may be chosen again after it was removed.
        input.value = '';
      }}
    />
  </label>
);

/** It is sent as it is: who wants to change it answers within the text. */
export const QuoteFold = ({ quote, drop }: { quote: Quote; drop: () => void }) => (
  <details class="compose-quote">
    <summary class="soft">Quoted text</summary>
    <Button class="link" label="Send without it" press={drop} />
    {quote.html === undefined ? (
      <pre>{quote.text}</pre>
    ) : (
      // It was unfolded just now: the frame does not fold it again.
      <MailFrame html={quote.html.replace(' type="cite"', '')} />
    )}
  </details>
);
