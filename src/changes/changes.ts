/**
 * What changed, told to whoever listens in this process: mailboxes that moved on, accounts that
 * lost their access. Holds nothing in storage; a listener that was away catches up by sync, so an
 * event is a hint and may be lost in a crash, while the change itself is in the mail store.
 *
 * Publishing comes after the commit, never before. Scale-out later puts Redis behind the same
 * interface.
 */
export type { AccessChange, Change, ChangeListener, Changes, MailboxChange } from './change.ts';
export { InProcessChanges } from './in-process.ts';
