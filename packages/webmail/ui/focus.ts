/** Where the focus goes when what had it goes: keys and screen readers go on from there. */
import { nextTick } from 'vue';

/** The list; where nobody is signed in, the first field. */
export function focusList(): void {
  document.querySelector<HTMLElement>('.list, .sign-in input')?.focus();
}

/** @param within a text that goes on, in place of the list */
export async function keepFocus(within?: Element): Promise<void> {
  await nextTick();
  if (document.activeElement !== document.body) return;
  const text = within?.querySelector<HTMLElement>('textarea, [contenteditable=true]');
  if (text) text.focus();
  else focusList();
}

/** A button that was pressed may be gone: a file that is removed, a message that offered to undo. */
export function keepFocusOfButtons(): void {
  addEventListener('click', (event) => {
    // By a key: a pointer goes on where it is, and a phone would show its keyboard.
    if (event.detail > 0) return;
    // The way of the event: the button itself has no parent any more.
    const isComposer = (one: EventTarget) => one instanceof Element && one.matches('.composer');
    void keepFocus(event.composedPath().find(isComposer) as Element | undefined);
  });
}
