/**
 * What changed, told to whoever listens: mailboxes that moved on, accounts that
 * lost their access. Holds nothing in storage; a listener that was away catches up by sync, so an
 * event is a hint and may be lost in a crash, while the change itself is in the mail store.
 *
 * Publishing comes after the commit, never before. Where there are several nodes, `shared-changes.ts`
 * tells the others as well.
 */
export {
  type AccessChange,
  type Change,
  type ChangeListener,
  type Changes,
  InProcessChanges,
  type ListChange,
  type MailboxChange,
} from './in-process-changes.ts';
export { SharedChanges, type Wire } from './shared-changes.ts';
