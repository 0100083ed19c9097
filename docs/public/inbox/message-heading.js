/** The heading of a message: sender, recipients, subject, time, and its attachments. */
import { element, longDate } from './elements.js';
import {
  decodedSizeOf,
  fileNameOf,
  formatAddresses,
  formatSize,
  straighten,
} from './message-parts.js';

/** @typedef {import('./sync-client.js').BodyStructure} BodyStructure */
/** @typedef {import('./sync-client.js').Message} Message */

/** @param {Message} message */
export function heading({ envelope, flags, internalDate, size, uid }) {
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
      'div',
      { class: 'below' },
      element('p', { class: 'sender facts' }),
      facts({ flags, size, uid }),
    ),
  );
}

/** @param {Pick<Message, 'flags' | 'size' | 'uid'>} message */
export function facts({ flags, size, uid }) {
  return element(
    'p',
    { class: 'facts about' },
    ...[`UID ${uid}`, formatSize(size), ...flags].map((fact) =>
      element('span', { class: 'fact' }, fact),
    ),
  );
}

/**
 * @param {BodyStructure[]} attachments
 * @param {(part: BodyStructure) => Promise<void>} save
 */
export function attachmentList(attachments, save) {
  const items = attachments.map((part) => {
    const outcome = element('span', { class: 'unseen', role: 'status' });
    const press = async () => {
      button.disabled = true;
      outcome.textContent = '';
      outcome.className = 'unseen';
      try {
        await save(part);
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
      { type: 'button', class: 'attachment', click: () => void press() },
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
