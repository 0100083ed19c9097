/** The message that is open: who, what, when; its text in one of three forms; its attachments. */
import { byId, element, longDate } from './elements.js';
import { FRAME_RIGHTS, writeMailDocument } from './mail-document.js';
import {
  decodedSizeOf,
  fileNameOf,
  formatAddresses,
  formatSize,
  sortParts,
  straighten,
} from './message-parts.js';

/** @typedef {import('./message-parts.js').Body} Body */
/** @typedef {import('./sync-client.js').BodyStructure} BodyStructure */
/** @typedef {import('./sync-client.js').Message} Message */

/**
 * @typedef {object} MessageActions
 * @property {() => Promise<Body>} body
 * @property {() => Promise<string>} headers
 * @property {(part: BodyStructure) => Promise<void>} save
 * @property {string} back URL of the list
 */

const LABELS = { html: 'HTML', text: 'Text', headers: 'Headers' };
/** @typedef {keyof typeof LABELS} Form */

export class MessageView {
  #pane = byId('message-pane');
  #generation = 0;

  /** Says that nothing is open. */
  clear() {
    this.#generation++;
    this.#pane.replaceChildren(
      element(
        'div',
        { class: 'nothing' },
        element('p', {}, 'Choose a message to read it here.'),
        element(
          'p',
          { class: 'hint keys' },
          element('kbd', {}, '↑'),
          element('kbd', {}, '↓'),
          ' move, ',
          element('kbd', {}, 'Enter'),
          ' opens, ',
          element('kbd', {}, 'Esc'),
          ' goes back',
        ),
      ),
    );
  }

  /**
   * @param {Message} message
   * @param {MessageActions} actions
   */
  show(message, actions) {
    this.#generation++;
    const { attachments } = sortParts(message.bodyStructure);
    const content = element('div', { class: 'content', 'aria-live': 'off' });
    const forms = element('div', { class: 'choice forms', role: 'group', 'aria-label': 'Show as' });
    this.#pane.replaceChildren(
      element('a', { class: 'back', href: actions.back }, '‹ Messages'),
      heading(message),
      ...(attachments.length > 0 ? [attachmentList(attachments, actions)] : []),
      forms,
      content,
    );
    this.#pane.scrollTop = 0;
    void this.#fill(message, actions, forms, content);
  }

  /**
   * The message went away while it was open.
   */
  removed() {
    this.#generation++;
    this.#pane.replaceChildren(
      element('div', { class: 'nothing' }, element('p', {}, 'This message is not there any more.')),
    );
  }

  /**
   * @param {Message} message
   * @param {MessageActions} actions
   * @param {HTMLElement} forms
   * @param {HTMLElement} content
   */
  async #fill(message, actions, forms, content) {
    const generation = this.#generation;
    const parts = sortParts(message.bodyStructure);
    /** @type {Form[]} */
    const offered = [
      ...(parts.html ? [/** @type {const} */ ('html')] : []),
      ...(parts.text ? [/** @type {const} */ ('text')] : []),
      'headers',
    ];
    /** @param {Form} form */
    const choose = async (form) => {
      for (const button of forms.querySelectorAll('button')) {
        button.setAttribute('aria-pressed', String(button.dataset.form === form));
      }
      content.dataset.form = form;
      content.replaceChildren(element('p', { class: 'waiting' }, 'Loading…'));
      const isStale = () => generation !== this.#generation || content.dataset.form !== form;
      try {
        const shown =
          form === 'headers'
            ? [preformatted(await actions.headers())]
            : showBody(await actions.body(), form);
        if (!isStale()) content.replaceChildren(...shown);
      } catch (error) {
        if (isStale()) return;
        const detail = error instanceof Error ? error.message : String(error);
        content.replaceChildren(element('p', { class: 'notice', role: 'alert' }, detail));
      }
    };
    for (const form of offered) {
      forms.append(
        element(
          'button',
          {
            type: 'button',
            'data-form': form,
            'aria-pressed': 'false',
            click: () => void choose(form),
          },
          LABELS[form],
        ),
      );
    }
    if (offered[0] === 'headers')
      content.replaceChildren(element('p', { class: 'waiting' }, 'This message has no text.'));
    else if (offered[0]) await choose(offered[0]);
  }
}

/**
 * @param {Body} body
 * @param {Form} form
 */
function showBody(body, form) {
  const notes = body.isCut ? ['Only the beginning is shown: the text is very long.'] : [];
  if (form === 'text') return [...notes.map(note), preformatted(body.text ?? '')];
  const { source, blocked, isBare } = writeMailDocument(body.html ?? '', body.images);
  if (blocked > 0) {
    notes.push(
      `Remote content is blocked: ${blocked} ${blocked === 1 ? 'item was' : 'items were'} not loaded.`,
    );
  }
  // #region frame
  // Without allow-scripts nothing in it runs; without allow-same-origin it is nobody's origin.
  const frame = element('iframe', {
    sandbox: FRAME_RIGHTS,
    title: 'The message',
    class: isBare ? 'mail bare' : 'mail',
  });
  frame.srcdoc = source;
  // #endregion frame
  return [...notes.map(note), frame];
}

/** @param {string} text */
function note(text) {
  return element('p', { class: 'note' }, text);
}

/** @param {string} text */
function preformatted(text) {
  return element('pre', { class: 'text', tabindex: '0' }, text);
}

/** @param {Message} message */
function heading({ envelope, flags, internalDate, size, uid }) {
  /** @type {(label: string, text: string) => Node[]} */
  const line = (label, text) =>
    text === '' ? [] : [element('dt', {}, label), element('dd', {}, text)];
  const list = (/** @type {import('./sync-client.js').Address[] | undefined} */ addresses = []) =>
    addresses
      .map(({ name, address }) =>
        straighten(name && address ? `${name} <${address}>` : name || address || ''),
      )
      .join(', ');
  const from = formatAddresses(envelope.from)[0] ?? '?';
  return element(
    'header',
    { class: 'heading' },
    element('h2', {}, straighten(envelope.subject) || '(no subject)'),
    element(
      'div',
      { class: 'people' },
      element(
        'span',
        { class: 'initial', 'aria-hidden': 'true' },
        [...from][0]?.toUpperCase() ?? '?',
      ),
      element(
        'dl',
        {},
        ...line('From', list(envelope.from)),
        ...line('To', list(envelope.to)),
        ...line('Cc', list(envelope.cc)),
        ...line('Date', longDate(internalDate)),
      ),
    ),
    element(
      'p',
      { class: 'facts' },
      ...[`UID ${uid}`, formatSize(size), ...flags].map((fact) =>
        element('span', { class: 'fact' }, fact),
      ),
    ),
  );
}

/**
 * @param {BodyStructure[]} attachments
 * @param {MessageActions} actions
 */
function attachmentList(attachments, actions) {
  const items = attachments.map((part) => {
    const outcome = element('span', { class: 'unseen', role: 'status' });
    const save = async () => {
      button.disabled = true;
      outcome.textContent = '';
      outcome.className = 'unseen';
      try {
        await actions.save(part);
        outcome.textContent = 'Saved.';
      } catch (error) {
        outcome.className = 'failed';
        outcome.textContent = error instanceof Error ? error.message : String(error);
      } finally {
        button.disabled = false;
      }
    };
    const button = element(
      'button',
      { type: 'button', class: 'attachment', click: () => void save() },
      element('span', { class: 'file' }, fileNameOf(part)),
      element(
        'span',
        { class: 'kind' },
        `${part.encoding === 'base64' ? 'about ' : ''}${formatSize(decodedSizeOf(part))} · ${part.type}`,
      ),
    );
    return element('li', {}, button, outcome);
  });
  return element('ul', { class: 'attachments', 'aria-label': 'Attachments' }, ...items);
}
