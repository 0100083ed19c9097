/** The open message: heading; its text in one of three forms; its attachments. */
import { byId, element } from './elements.js';
import { linkify } from './linkify.js';
import { FRAME_RIGHTS, writeMailDocument } from './mail-document.js';
import { attachmentList, facts, heading } from './message-heading.js';
import { sortParts } from './message-parts.js';
import { senderBadge } from './sender-badge.js';

/** @typedef {import('./message-parts.js').Body} Body */
/** @typedef {import('./sync-client.js').BodyStructure} BodyStructure */
/** @typedef {import('./sync-client.js').Message} Message */

/** @typedef {import('./message-tools.js').Tool & { run: () => void }} ToolButton */

/**
 * @typedef {object} MessageActions
 * @property {ToolButton[]} tools
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
  /** @type {{ tool: ToolButton, button: HTMLButtonElement }[]} */
  #tools = [];

  /** Shows that nothing is open. */
  clear() {
    this.#generation++;
    this.#pane.replaceChildren(
      element(
        'div',
        { class: 'nothing' },
        element('p', {}, 'Choose a message to read it here.'),
        element('p', { class: 'hint keys' }, element('kbd', {}, '?'), ' shows the keys'),
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
    this.#tools = actions.tools.map((tool) => ({ tool, button: toolButton(tool) }));
    this.#pane.replaceChildren(
      element(
        'div',
        { class: 'toolbar', role: 'toolbar', 'aria-label': 'This message' },
        element('a', { class: 'back', href: actions.back }, '‹ Messages'),
        ...this.#tools.map(({ button }) => button),
      ),
      heading(message),
      ...(attachments.length > 0 ? [attachmentList(attachments, actions.save)] : []),
      forms,
      content,
    );
    this.#pane.scrollTop = 0;
    this.update(message);
    void this.#fill(message, actions, forms, content);
  }

  /**
   * The flags of the message have changed.
   *
   * @param {Message} message
   */
  update(message) {
    this.#pane.querySelector('.about')?.replaceWith(facts(message));
    for (const { tool, button } of this.#tools) {
      if (tool.isPressed) button.setAttribute('aria-pressed', String(tool.isPressed(message)));
    }
  }

  /** @param {string} why there is no message */
  showMissing(why) {
    this.#generation++;
    this.#pane.replaceChildren(element('div', { class: 'nothing' }, element('p', {}, why)));
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
        if (isStale()) return;
        content.replaceChildren(...shown);
        this.#pane.querySelector('.sender')?.replaceChildren(...senderBadge(await actions.body()));
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

/** @param {ToolButton} tool */
function toolButton({ name, label, key, run }) {
  return element(
    'button',
    { type: 'button', class: 'tool', 'data-tool': name, title: `${label} (${key})`, click: run },
    element('span', { class: `icon icon-${name}`, 'aria-hidden': 'true' }),
    element('span', { class: 'label' }, label),
  );
}

/**
 * @param {Body} body
 * @param {Form} form
 * @returns {Node[]}
 */
function showBody(body, form) {
  const notes = body.isCut ? [note('Only the beginning is shown: the text is very long.')] : [];
  if (form === 'text') return [...notes, preformatted(...linkify(body.text ?? ''))];
  return [...notes, mailFrame(body, false)];
}

/**
 * @param {Pick<Body, 'html' | 'images'>} body
 * @param {boolean} withRemote whether the reader wants pictures from elsewhere
 */
function mailFrame({ html = '', images }, withRemote) {
  const { source, blocked, isBare } = writeMailDocument(html, images, withRemote);
  // #region frame
  // Without allow-scripts nothing in it runs; without allow-same-origin it is nobody's origin.
  const frame = element('iframe', {
    sandbox: FRAME_RIGHTS,
    title: 'The message',
    class: isBare ? 'mail bare' : 'mail',
  });
  frame.srcdoc = source;
  // #endregion frame
  const shown = element('div', { class: 'mail-box' });
  const load = element(
    'button',
    {
      type: 'button',
      class: 'plain',
      click: () => {
        shown.replaceWith(mailFrame({ html, images }, true));
        // Not the frame: in it the keys of the page do not work.
        byId('message-pane').focus();
      },
    },
    'Load images',
  );
  const items = blocked === 1 ? 'item was' : 'items were';
  const told = `Remote content is blocked: ${blocked} ${items} not loaded.`;
  if (blocked > 0) shown.append(note(told, ...(withRemote ? [] : [load])));
  shown.append(frame);
  return shown;
}

/** @param {(Node | string)[]} content */
function note(...content) {
  return element('p', { class: 'note' }, ...content);
}

/** @param {(Node | string)[]} content */
function preformatted(...content) {
  return element('pre', { class: 'text', tabindex: '0' }, ...content);
}
