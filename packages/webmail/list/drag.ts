/** Messages that are dragged onto a mailbox are moved there: those that are chosen, or of one row alone. */
import { shallowRef } from 'vue';
import { moveTo, type Target } from '../state/actions.ts';
import { target } from '../state/commands.ts';
import type { Row } from './rows.ts';
import { selection } from './selection.ts';

/** Says that it is mail of this page. Nobody is told the end where the row went away meanwhile; the next thing may be a file. */
const TYPE = `application/x-postroom-${Math.random()}`;

let dragged: Target | undefined;
/** The mailbox that they are held over. */
export const heldOver = shallowRef<string>();

/** Of a row. A finger moves it to the side instead. */
export function drag({ dataTransfer }: DragEvent, row: Row): void {
  const isChosen = selection.isAll.value || selection.chosen.has(row.key);
  dragged = isChosen ? target.value : { messages: row.messages };
  // What other programs take of it is nothing.
  dataTransfer?.setData(TYPE, '');
}

/** What a mailbox listens to. */
export const takesMail = (mailbox: string) => ({
  onDragover(event: DragEvent): void {
    if (!event.dataTransfer?.types.includes(TYPE)) return;
    event.preventDefault();
    heldOver.value = mailbox;
  },
  onDragleave(): void {
    heldOver.value = undefined;
  },
  onDrop(event: DragEvent): void {
    event.preventDefault();
    heldOver.value = undefined;
    if (!dragged) return;
    // Mail that comes later is not chosen.
    if ('allOf' in dragged) selection.clear();
    void moveTo(dragged, mailbox);
    dragged = undefined;
  },
});
