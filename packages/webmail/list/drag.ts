/** Messages that are dragged onto a mailbox are moved there: those that are chosen, or of one row alone. */
import { shallowRef } from 'vue';
import { moveTo, type Target } from '../state/actions.ts';
import { target } from '../state/commands.ts';
import type { Row } from './rows.ts';
import { selection } from './selection.ts';

let dragged: Target | undefined;
/** The mailbox that they are held over. */
export const heldOver = shallowRef<string>();

/** Of a row. A finger moves it to the side instead. */
export function drag({ dataTransfer }: DragEvent, row: Row): void {
  dragged = selection.chosen.has(row.key) ? target.value : { messages: row.messages };
  // What other programs take of it is nothing.
  dataTransfer?.setData('text/plain', '');
}

/** What a mailbox listens to. */
export const takesMail = (mailbox: string) => ({
  onDragover(event: DragEvent): void {
    if (!dragged) return;
    event.preventDefault();
    heldOver.value = mailbox;
  },
  onDragleave(): void {
    heldOver.value = undefined;
  },
  onDrop(event: DragEvent): void {
    event.preventDefault();
    heldOver.value = undefined;
    if (dragged) void moveTo(dragged, mailbox);
    dragged = undefined;
  },
});

// One that ends elsewhere moves nothing.
addEventListener('dragend', () => {
  dragged = undefined;
});
