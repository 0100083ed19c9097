import type { MailboxChange } from '../changes/changes.ts';
import type { ChangedMailbox, Mailstore } from './store.ts';

/**
 * Wraps a mail store so that every change it makes is announced once it is committed. The store
 * itself knows no listeners: its operations answer with the changes they made.
 */
export function announceChanges(
  mailstore: Mailstore,
  publish: (change: MailboxChange) => void,
): Mailstore {
  const announced = <Changed extends ChangedMailbox>(changed: Changed): Changed => {
    for (const change of changed.changes) publish(change);
    return changed;
  };
  return {
    listMailboxes: (user) => mailstore.listMailboxes(user),
    search: (user, request) => mailstore.search(user, request),
    sync: (user, request) => mailstore.sync(user, request),
    fetchMessage: (user, mailbox, uid) => mailstore.fetchMessage(user, mailbox, uid),
    fetchPart: (user, mailbox, uid, part) => mailstore.fetchPart(user, mailbox, uid, part),
    createMailbox: async (user, name) => announced(await mailstore.createMailbox(user, name)),
    renameMailbox: async (user, name, to) =>
      announced(await mailstore.renameMailbox(user, name, to)),
    deleteMailbox: async (user, name) => announced(await mailstore.deleteMailbox(user, name)),
    appendMessage: async (user, request, source) =>
      announced(await mailstore.appendMessage(user, request, source)),
    setFlags: async (user, set, flags) => announced(await mailstore.setFlags(user, set, flags)),
    move: async (user, set, target) => announced(await mailstore.move(user, set, target)),
    copy: async (user, set, target) => announced(await mailstore.copy(user, set, target)),
    expunge: async (user, set) => announced(await mailstore.expunge(user, set)),
  };
}
