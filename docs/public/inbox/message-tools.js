/** The tools of a message: what each is called, and what it does. */
import { mailboxDialog } from './dialogs.js';
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
 * @param {{ inbox: import('./inbox.js').Inbox, actions: import('./mail-actions.js').MailActions, screen: import('./screen.js').Screen }} page
 */
export async function applyTool(name, { mailbox, message }, { inbox, actions, screen }) {
  const { uid } = message;
  /** @param {() => Promise<boolean>} takeAway */
  const goAway = async (takeAway) => {
    const next = screen.list.keyAfter(keyOf({ mailbox, message }));
    if (await takeAway()) screen.leaveMessage({ mailbox, message }, next);
  };
  if (name === 'star') {
    await actions.setFlag(mailbox, uid, '\\Flagged', !isStarred(message));
  } else if (name === 'read') {
    await actions.setFlag(mailbox, uid, '\\Seen', true);
  } else if (name === 'unread') {
    await actions.setFlag(mailbox, uid, '\\Seen', isUnread(message));
    if (!isUnread(message)) screen.leaveMessage({ mailbox, message });
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
