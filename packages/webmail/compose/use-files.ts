/** Files that are dropped on a form, pasted into it, or chosen. */
import { ref } from 'vue';
import { sets } from '../ui/sets.ts';
import type { ComposeSession } from './session.ts';

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
