/** The line at the bottom that says what was done, with a button to undo it. */
import { byId, element } from './elements.js';

const SHOWN_MS = 10_000;

export class NoticeBar {
  #bar = byId('done');
  /** @type {ReturnType<typeof setTimeout> | undefined} */
  #timer;
  /** @type {(() => void) | undefined} */
  #undo;

  constructor() {
    // The button must not disappear while the user reaches for it.
    for (const event of ['pointerenter', 'focusin']) {
      this.#bar.addEventListener(event, () => clearTimeout(this.#timer));
    }
    for (const event of ['pointerleave', 'focusout']) {
      this.#bar.addEventListener(event, () => this.#hideLater());
    }
  }

  /**
   * @param {string} text
   * @param {{ undo?: () => void, label?: string, isError?: boolean }} [options] `undo` is done once
   */
  show(text, { undo, label = 'Undo', isError = false } = {}) {
    this.#undo = undo;
    const button = element('button', { type: 'button', click: () => this.undo() }, label);
    this.#bar.replaceChildren(element('span', {}, text), ...(undo ? [button] : []));
    this.#bar.classList.toggle('failed', isError);
    this.#bar.hidden = false;
    this.#hideLater();
  }

  /** Undoes the last action, while the line shows it. */
  undo() {
    const undo = this.#undo;
    this.hide();
    undo?.();
  }

  hide() {
    clearTimeout(this.#timer);
    this.#undo = undefined;
    this.#bar.hidden = true;
    this.#bar.replaceChildren();
  }

  #hideLater() {
    clearTimeout(this.#timer);
    if (!this.#bar.hidden) this.#timer = setTimeout(() => this.hide(), SHOWN_MS);
  }
}
