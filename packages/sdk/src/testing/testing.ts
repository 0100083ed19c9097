/**
 * `@postroom/sdk/testing`: a server in the memory of a test, whose time moves only when the test says so.
 */
export { FakeAccount } from './account.ts';
export { VirtualClock } from './clock.ts';
export { FakeMailbox, type PlacedMail, type StoredMail } from './mailbox.ts';
export type { DeliverOptions, FakeMailboxes, NewAccount, Place } from './mailboxes.ts';
export type { FakeRequest } from './routes.ts';
export type { FakeSends } from './sends.ts';
export { FakeServer, type FakeServerOptions, type Fault } from './server.ts';
export type { NewAttachment, NewMail, ReadMail } from './source.ts';
