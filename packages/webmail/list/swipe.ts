/** A finger that moves a row to the side: to the right it is archived, to the left deleted. Both can be undone. */
import { shallowRef } from 'vue';
import { commands } from '../state/commands.ts';
import type { Row } from './rows.ts';

/** Pixels after which it is no press any more. */
const BEGINS_PX = 16;
/** How much of its width a row has to be moved. */
const ENOUGH = 0.35;

/** The row that is moved, and by how many pixels to the right. */
export const swiped = shallowRef<{ readonly key: string; readonly by: number }>();

/** Follows the finger that came down on a row, until it leaves or the list begins to scroll. */
export function followFinger(event: PointerEvent, row: Row): void {
  if (event.pointerType !== 'touch' || !event.isPrimary) return;
  const element = event.currentTarget as HTMLElement;
  const begin = event.clientX;
  const over = new AbortController();
  const end = () => {
    over.abort();
    swiped.value = undefined;
  };
  const move = ({ clientX }: PointerEvent) => {
    const by = clientX - begin;
    if (swiped.value || Math.abs(by) >= BEGINS_PX) swiped.value = { key: row.key, by };
  };
  const leave = () => {
    const by = swiped.value?.by ?? 0;
    end();
    if (Math.abs(by) < ENOUGH * element.clientWidth) return;
    if (by > 0) commands.archiveRow(row);
    else commands.removeRow(row);
  };
  element.addEventListener('pointermove', move, over);
  element.addEventListener('pointerup', leave, over);
  element.addEventListener('pointercancel', end, over);
}

/** Of a row that is flung Chromium makes a scroll that goes on: the next tap would only stop it. */
export function keepFromBrowser(event: TouchEvent): void {
  if (swiped.value && event.cancelable) event.preventDefault();
}
