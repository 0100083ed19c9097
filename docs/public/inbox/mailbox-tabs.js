/** The mailboxes above the list, with how many unread messages each has; and the title of the tab. */
import { placeUrl } from './address-bar.js';
import { byId, element } from './elements.js';

/** @param {string} mailbox */
export function titleOf(mailbox) {
  return mailbox === 'INBOX' ? 'Inbox' : mailbox;
}

/**
 * @param {string[]} mailboxes
 * @param {string} current the one that is shown; empty while search results are
 * @param {Map<string, number>} unread by mailbox
 */
export function showTabs(mailboxes, current, unread) {
  const nav = byId('mailboxes');
  const focused = nav.contains(document.activeElement) ? document.activeElement : undefined;
  const links = mailboxes.map((mailbox) => {
    const count = unread.get(mailbox) ?? 0;
    return element(
      'a',
      {
        href: placeUrl({ mailbox }),
        ...(mailbox === current && { 'aria-current': 'true' }),
      },
      titleOf(mailbox),
      ...(count === 0
        ? []
        : [
            ' ',
            element('span', { class: 'badge' }, count.toLocaleString()),
            element('span', { class: 'unseen' }, ' unread'),
          ]),
    );
  });
  nav.replaceChildren(...links);
  const again = links.find((link) => link.getAttribute('href') === focused?.getAttribute('href'));
  if (focused) again?.focus();
}

/** @param {number} unread in INBOX; undefined where nobody is signed in */
export function showTitle(unread = 0) {
  document.title = `${unread > 0 ? `(${unread.toLocaleString()}) ` : ''}Live inbox · Postroom`;
}
