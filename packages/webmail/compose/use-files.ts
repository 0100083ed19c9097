/** Files that are dropped on a form, pasted into it, or chosen. */
import { type Ref, ref } from 'vue';
import type { ComposeSession } from './session.ts';

export interface UsedFiles {
  /** Files are held over the form. */
  readonly isDropping: Ref<boolean>;
  attach(files: Iterable<File>): void;
  readonly on: {
    onPaste(event: ClipboardEvent): void;
    onDragover(event: DragEvent): void;
    onDragleave(event: DragEvent): void;
    onDrop(event: DragEvent): void;
  };
}

export function useFiles(session: ComposeSession): UsedFiles {
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
      onPaste(event) {
        const given = event.clipboardData;
        // A text that was copied from a document comes with a picture of itself.
        if (!given || given.files.length === 0 || given.types.includes('text/plain')) return;
        event.preventDefault();
        attach(given.files);
      },
      onDragover(event) {
        if (!hasFiles(event)) return;
        event.preventDefault();
        isDropping.value = true;
      },
      onDragleave() {
        isDropping.value = false;
      },
      onDrop(event) {
        isDropping.value = false;
        if (!hasFiles(event)) return;
        event.preventDefault();
        attach(event.dataTransfer?.files ?? []);
      },
    },
  };
}
