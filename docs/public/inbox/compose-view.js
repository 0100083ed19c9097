/** The form for writing a message. It knows nothing of the network. */
import { byId, element } from './elements.js';
import { formatSize } from './message-parts.js';

/** @typedef {import('./draft.js').Draft} Draft */
/** @typedef {import('./draft.js').DraftFile} DraftFile */

/**
 * @typedef {object} ComposeActions
 * @property {() => void} onChange something was written
 * @property {() => void} onSend
 * @property {() => void} onClose
 * @property {() => void} onDiscard
 */

const FIELDS = /** @type {const} */ (['to', 'cc', 'bcc', 'subject', 'text']);

export class ComposeView {
  #actions;
  #pane = byId('compose-pane');
  #form = byId('compose', HTMLFormElement);
  #files = byId('compose-files');
  #notice = byId('compose-notice');
  #status = byId('compose-status');
  #later = byId('compose-later', HTMLDetailsElement);
  /** @type {DraftFile[]} */
  #attached = [];

  /** @param {ComposeActions} actions */
  constructor(actions) {
    this.#actions = actions;
    this.#form.addEventListener('submit', (event) => {
      event.preventDefault();
      actions.onSend();
    });
    this.#form.addEventListener('input', ({ target }) => {
      if (target instanceof HTMLElement && target.id !== 'compose-file') actions.onChange();
    });
    this.#form.addEventListener('keydown', (event) => {
      if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) actions.onSend();
      // In a field of one line Enter would press "Send".
      else if (event.key === 'Enter' && event.target instanceof HTMLInputElement)
        event.preventDefault();
      if (event.key !== 'Escape') return;
      event.preventDefault();
      actions.onClose();
    });
    byId('compose-close').addEventListener('click', actions.onClose);
    byId('compose-discard').addEventListener('click', actions.onDiscard);
    byId('compose-copies').addEventListener('click', () => {
      this.#showCopies(true);
      this.#field('cc').focus();
    });
    const chooser = byId('compose-file', HTMLInputElement);
    byId('compose-attach').addEventListener('click', () => chooser.click());
    chooser.addEventListener('change', () => {
      const chosen = [...(chooser.files ?? [])];
      this.#attached.push(
        ...chosen.map((file) => ({
          filename: file.name,
          size: file.size,
          type: file.type || 'application/octet-stream',
          file,
        })),
      );
      chooser.value = '';
      this.#showFiles();
      actions.onChange();
    });
  }

  /**
   * @param {string} title
   * @param {Draft} draft
   */
  open(title, draft) {
    byId('compose-title').textContent = title;
    for (const name of FIELDS) this.#field(name).value = draft[name];
    this.#attached = [...draft.files];
    this.#later.open = false;
    byId('compose-at', HTMLInputElement).value = '';
    this.#showFiles();
    this.#showCopies(draft.cc !== '' || draft.bcc !== '');
    this.say('');
    this.fail('');
    this.setBusy(false);
    this.#pane.hidden = false;
    const first = draft.to === '' ? this.#field('to') : this.#field('text');
    first.focus();
    if (first instanceof HTMLTextAreaElement) first.setSelectionRange(0, 0);
    this.#pane.scrollTop = 0;
  }

  close() {
    this.#pane.hidden = true;
    this.#form.reset();
    this.#attached = [];
    this.#showFiles();
  }

  /** The content of the form. */
  read() {
    const value = (/** @type {typeof FIELDS[number]} */ name) => this.#field(name).value;
    return {
      to: value('to'),
      cc: value('cc'),
      bcc: value('bcc'),
      subject: value('subject'),
      text: value('text'),
      files: [...this.#attached],
    };
  }

  /** When it is to go out; undefined for soon. @returns {Date | undefined} */
  get sendAt() {
    const { value } = byId('compose-at', HTMLInputElement);
    return this.#later.open && value !== '' ? new Date(value) : undefined;
  }

  /** The files are where the draft was saved now. @param {DraftFile[]} files */
  replaceFiles(files) {
    this.#attached = files;
    this.#showFiles();
  }

  /** @param {string} text of little weight, such as that the draft is saved */
  say(text) {
    this.#status.textContent = text;
  }

  /** @param {string} why it was not sent; empty for nothing */
  fail(why) {
    this.#notice.hidden = why === '';
    this.#notice.textContent = why;
    if (why !== '') this.#notice.scrollIntoView({ block: 'nearest' });
  }

  /** @param {boolean} isBusy */
  setBusy(isBusy) {
    byId('compose-send', HTMLButtonElement).disabled = isBusy;
  }

  /** @param {string} name */
  focus(name) {
    if (name === 'cc' || name === 'bcc') this.#showCopies(true);
    this.#field(name).focus();
  }

  /** @param {string} name */
  #field(name) {
    return /** @type {HTMLInputElement | HTMLTextAreaElement} */ (byId(`compose-${name}`));
  }

  /** @param {boolean} isShown */
  #showCopies(isShown) {
    byId('compose-copy-fields').hidden = !isShown;
    byId('compose-copies').hidden = isShown;
  }

  #showFiles() {
    const items = this.#attached.map((file) =>
      element(
        'li',
        {},
        element('span', { class: 'icon icon-clip', 'aria-hidden': 'true' }),
        element('span', { class: 'file' }, file.filename),
        element('span', { class: 'kind' }, formatSize(file.size)),
        element(
          'button',
          {
            type: 'button',
            class: 'remove',
            'aria-label': `Remove ${file.filename}`,
            click: () => {
              this.#attached = this.#attached.filter((other) => other !== file);
              this.#showFiles();
              this.#actions.onChange();
              byId('compose-attach').focus();
            },
          },
          '×',
        ),
      ),
    );
    this.#files.replaceChildren(...items);
    this.#files.hidden = items.length === 0;
  }
}
