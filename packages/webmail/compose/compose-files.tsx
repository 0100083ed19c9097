/** The files of a message that is written, and what is quoted below it. */
import { ref } from 'vue';
import { MailFrame } from '../reading/mail-frame.tsx';
import { Button, Tool } from '../ui/button.tsx';
import { formatSize } from '../ui/format.ts';
import { Icon } from '../ui/icon.tsx';
import { sets } from '../ui/sets.ts';
import { FILES_MAX, uploadSize } from './checks.ts';
import type { ComposeFile, Quote } from './content.ts';
import type { ComposeSession } from './session.ts';

/** Files that are dropped on a form, pasted into it, or chosen. */
export function useFiles(session: ComposeSession) {
  /** Files are held over the form. */
  const isDropping = ref(false);
  const attach = (files: Iterable<File>) => {
    const added = [...files].map((file) => ({
      filename: file.name || 'file',
      contentType: file.type || 'application/octet-stream',
      size: file.size,
      content: file,
    }));
    if (added.length === 0) return;
    session.change({ files: [...session.content.files, ...added] });
  };
  const hasFiles = ({ dataTransfer }: DragEvent) => dataTransfer?.types.includes('Files') === true;
  return {
    isDropping,
    attach,
    on: {
      onPaste(event: ClipboardEvent) {
        const given = event.clipboardData;
        // A text that was copied from a document comes with a picture of itself.
        if (!given || given.files.length === 0 || given.types.includes('text/plain')) return;
        event.preventDefault();
        attach(given.files);
      },
      onDragover(event: DragEvent) {
        if (!hasFiles(event)) return;
        event.preventDefault();
        isDropping.value = true;
      },
      onDragleave: sets(isDropping, false),
      onDrop(event: DragEvent) {
        isDropping.value = false;
        if (!hasFiles(event)) return;
        event.preventDefault();
        attach(event.dataTransfer?.files ?? []);
      },
    },
  };
}

interface FilesProps {
  readonly files: readonly ComposeFile[];
  readonly remove: (at: number) => void;
}

export const FileList = ({ files, remove }: FilesProps) =>
  files.length > 0 && (
    <section class="compose-files" aria-label="Files">
      <ul>
        {files.map(({ filename, size }, at) => (
          <li key={`${at} ${filename}`} class="bar">
            <Icon name="attach" />
            {filename}
            <span class="soft">{formatSize(size)}</span>
            <Tool icon="close" label={`Remove ${filename}`} press={() => remove(at)} />
          </li>
        ))}
      </ul>
      {uploadSize(files) > FILES_MAX * 0.8 && (
        <p class="hint">
          {formatSize(uploadSize(files))} of {formatSize(FILES_MAX)}
        </p>
      )}
    </section>
  );

/** Chooses files of this device. */
export const AttachButton = ({ attach }: { attach: (files: FileList) => void }) => (
  <label class="tool attach-button" title="Attach files">
    <Icon name="attach" />
    <input
      type="file"
      multiple
      class="unseen"
      aria-label="Attach files"
      onChange={(event: Event) => {
        const input = event.target as HTMLInputElement;
        if (input.files) attach(input.files);
        // The same file may be chosen again after it was removed.
        input.value = '';
      }}
    />
  </label>
);

/** It is sent as it is: who wants to change it answers within the text. */
export const QuoteFold = ({ quote, drop }: { quote: Quote; drop: () => void }) => (
  <details class="compose-quote">
    <summary>Quoted text</summary>
    <Button class="link" label="Send without it" press={drop} />
    {quote.html === undefined ? (
      <pre>{quote.text}</pre>
    ) : (
      // It was unfolded just now: the frame does not fold it again.
      <MailFrame
        html={quote.html.replace(' type="cite"', '')}
        images={{}}
        withRemote={false}
        isDark={false}
      />
    )}
  </details>
);
