/** Questions in a dialog. Esc closes each without an answer. */
import { element } from './elements.js';
import { titleOf } from './mailbox-tabs.js';

/**
 * Shows a dialog until a button of it with a value is pressed.
 *
 * @param {string} title
 * @param {Node[]} content
 * @returns {Promise<string>} value of the button; empty where it was closed
 */
function ask(title, content) {
  const dialog = element(
    'dialog',
    { class: 'dialog', 'aria-labelledby': 'dialog-title' },
    element('h2', { id: 'dialog-title' }, title),
    element('form', { method: 'dialog' }, ...content),
  );
  document.body.append(dialog);
  return new Promise((resolve) => {
    dialog.addEventListener('close', () => {
      dialog.remove();
      resolve(dialog.returnValue);
    });
    // A click outside: it hits the dialog itself, not its content.
    dialog.addEventListener('click', ({ target }) => target === dialog && dialog.close());
    dialog.showModal();
  });
}

/**
 * @param {string} question
 * @param {string} button what is done on yes
 */
export async function confirmDialog(question, button) {
  const answer = await ask(question, [
    element(
      'div',
      { class: 'answers' },
      element('button', { class: 'plain', value: '' }, 'Cancel'),
      element('button', { class: 'plain strong', value: 'yes' }, button),
    ),
  ]);
  return answer === 'yes';
}

/**
 * @param {string[]} mailboxes
 * @returns {Promise<{ mailbox: string, isNew: boolean } | undefined>}
 */
export async function mailboxDialog(mailboxes) {
  const name = element('input', {
    id: 'new-mailbox',
    maxlength: '200',
    autocomplete: 'off',
    placeholder: 'Projects/Spring',
  });
  const create = element('button', { class: 'plain', value: 'new' }, 'Create and move');
  // Enter in the field would press the first button of the form, which is another one.
  name.addEventListener('keydown', (event) => {
    if (event.key !== 'Enter') return;
    event.preventDefault();
    create.click();
  });
  const answer = await ask('Move to', [
    element(
      'ul',
      { class: 'choices' },
      ...mailboxes.map((mailbox) =>
        element('li', {}, element('button', { value: `to:${mailbox}` }, titleOf(mailbox))),
      ),
    ),
    element('label', { for: 'new-mailbox' }, 'Or to a new mailbox'),
    element('div', { class: 'beside' }, name, create),
  ]);
  if (answer.startsWith('to:')) return { mailbox: answer.slice(3), isNew: false };
  const mailbox = name.value.trim();
  return answer === 'new' && mailbox !== '' ? { mailbox, isNew: true } : undefined;
}

/** @param {Record<string, string>} keys what each key does */
export async function keysDialog(keys) {
  const rows = Object.entries(keys).flatMap(([key, deed]) => [
    element('dt', {}, ...key.split(' ').map((one) => element('kbd', {}, one))),
    element('dd', {}, deed),
  ]);
  await ask('Keys', [
    element('dl', { class: 'key-list' }, ...rows),
    element('div', { class: 'answers' }, element('button', { class: 'plain', value: '' }, 'Close')),
  ]);
}
