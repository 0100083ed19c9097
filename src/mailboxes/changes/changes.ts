/**
 * What changed, for listeners: mailboxes with a new state, accounts that lost their access, users with new events.
 * Stores nothing; a listener that was disconnected catches up by sync, so an event is a hint and may be lost in a crash,
 * while the change itself is in the mail store.
 *
 * Changes are published after the commit, never before. Where there are several nodes, `shared-changes.ts` sends
 * them to the others as well.
 */
export {
  type AccessChange,
  type AccountChange,
  type Change,
  type Changes,
  type EventsChange,
  InProcessChanges,
  type ListChange,
  type MailboxChange,
  type MailSessionsChange,
  type SubscriptionsChange,
} from './in-process-changes.ts';
export { SharedChanges } from './shared-changes.ts';
