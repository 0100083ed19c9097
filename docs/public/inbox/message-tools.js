/** The tools of a message: their names, and what they do. */
import { mailboxDialog } from './dialogs.js';
import { answer, forward } from './draft.js';
import { keyOf } from './mailbox-view.js';
import { isUnread } from './sync-client.js';

/** @typedef {import('./mailbox-view.js').Entry} Entry */
/** @typedef {import('./sync-client.js').Message} Message */

/**
 * @typedef {object} Tool
 * @property {string} name also that of its icon
 * @property {string} label
 * @property {string} key that does the same
 * @property {(message: Message) => boolean} [isPressed] of a tool that is on or off
 */

/** @type {Tool[]} */
export const TOOLS = [
  { name: 'reply', label: 'Reply', key: 'r' },
  { name: 'reply-all', label: 'Reply all', key: 'a' },
  { name: 'forward', label: 'Forward', key: 'f' },
  { name: 'archive', label: 'Archive', key: 'e' },
  { name: 'move', label: 'Move', key: 'm' },
  { name: 'delete', label: 'Delete', key: '#' },
  { name: 'unread', label: 'Unread', key: 'u' },
  { name: 'star', label: 'Star', key: 's', isPressed: isStarred },
];

/** @param {Message} message */
function isStarred(message) {
  return message.flags.includes('\\Flagged');
}

/**
 * Does what a tool is for.
 *
 * @param {string} name
 * @param {Entry} entry
 * @param {object} page
 * @param {import('./inbox.js').Inbox} page.inbox
 * @param {import('./mail-actions.js').MailActions} page.actions
 * @param {import('./screen.js').Screen} page.screen
 * @param {import('./composer.js').Composer} page.composer
 */
export async function applyTool(name, entry, { inbox, actions, screen, composer }) {
  const { mailbox, message } = entry;
  const { uid } = message;
  /** @param {() => Promise<boolean>} takeAway */
  const goAway = async (takeAway) => {
    const next = screen.list.keyAfter(keyOf(entry));
    if (await takeAway()) screen.leaveMessage(entry, next);
  };
  if (name === 'reply' || name === 'reply-all') {
    const toAll = name === 'reply-all';
    await composer.open('Reply', answer(entry, await screen.read(entry), inbox.account, toAll));
  } else if (name === 'forward') {
    await composer.open('Forward', forward(entry, await screen.read(entry)));
  } else if (name === 'star') {
    await actions.setFlag(mailbox, uid, '\\Flagged', !isStarred(message));
  } else if (name === 'read') {
    await actions.markRead(mailbox, uid);
  } else if (name === 'unread') {
    await actions.setFlag(mailbox, uid, '\\Seen', isUnread(message));
    if (!isUnread(message)) screen.leaveMessage(entry);
  } else if (name === 'delete') {
    await goAway(() => actions.delete(mailbox, uid));
  } else if (name === 'archive') {
    const archive = inbox.mailboxFor('\\Archive') ?? 'Archive';
    if (archive !== mailbox) await goAway(() => actions.move(mailbox, uid, archive));
  } else if (name === 'move') {
    const to = await mailboxDialog(inbox.mailboxes.filter((other) => other !== mailbox));
    if (to) await goAway(() => actions.move(mailbox, uid, to.mailbox, to.isNew));
  }
}
