/** The mailboxes above the list, with how many unread messages each has; and the title of the tab. */
import { placeUrl } from './address-bar.js';
import { byId, element, putChildren } from './elements.js';

/** @param {string} mailbox */
export function titleOf(mailbox) {
  return mailbox === 'INBOX' ? 'Inbox' : mailbox;
}

/**
 * Links that stay are changed in place: a click on one that is replaced under the pointer would be lost.
 *
 * @param {string[]} mailboxes
 * @param {string} current the one that is shown; empty while search results are
 * @param {Map<string, number>} unread by mailbox
 */
export function showTabs(mailboxes, current, unread) {
  const nav = byId('mailboxes');
  const before = new Map([...nav.children].map((link) => [link.getAttribute('href'), link]));
  const links = mailboxes.map((mailbox) => {
    const href = placeUrl({ mailbox });
    const link = before.get(href) ?? element('a', { href });
    if (mailbox === current) link.setAttribute('aria-current', 'true');
    else link.removeAttribute('aria-current');
    const count = unread.get(mailbox) ?? 0;
    const badge = element('span', { class: 'badge' }, count.toLocaleString());
    const told = [' ', badge, element('span', { class: 'unseen' }, ' unread')];
    link.replaceChildren(titleOf(mailbox), ...(count === 0 ? [] : told));
    return link;
  });
  putChildren(nav, links);
}

/** @param {number} unread in INBOX; undefined where nobody is signed in */
export function showTitle(unread = 0) {
  document.title = `${unread > 0 ? `(${unread.toLocaleString()}) ` : ''}Live inbox · Postroom`;
}
