import type { MailboxChange } from '../changes/changes.ts';
import type { Mailstore } from './store.ts';

/**
 * Wraps a mail store so that every change it makes is announced once it is committed. The store
 * itself knows no listeners: its operations answer with the changes they made.
 */
export function announceChanges(
  mailstore: Mailstore,
  publish: (change: MailboxChange) => void,
): Mailstore {
  return {
    listMailboxes: (user) => mailstore.listMailboxes(user),
    sync: (user, request) => mailstore.sync(user, request),
    fetchMessage: (user, mailbox, uid) => mailstore.fetchMessage(user, mailbox, uid),
    fetchPart: (user, mailbox, uid, part) => mailstore.fetchPart(user, mailbox, uid, part),
    // Within a transaction of the caller's nothing is committed yet: the caller announces.
    appendWithin: (tx, message, targets) => mailstore.appendWithin(tx, message, targets),
    async append(message, targets, alongside) {
      const appended = await mailstore.append(message, targets, alongside);
      for (const { change } of appended) publish(change);
      return appended;
    },
    async setFlags(user, mailbox, uids, flags) {
      const change = await mailstore.setFlags(user, mailbox, uids, flags);
      if (change) publish(change);
      return change;
    },
    async move(user, mailbox, uids, target) {
      const moved = await mailstore.move(user, mailbox, uids, target);
      for (const change of moved.changes) publish(change);
      return moved;
    },
    async expunge(user, mailbox, uids) {
      const change = await mailstore.expunge(user, mailbox, uids);
      if (change) publish(change);
      return change;
    },
  };
}
