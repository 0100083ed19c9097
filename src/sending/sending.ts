/**
 * Mail that accounts send: takes a composed message, keeps a copy in the account's Sent, brings it to its
 * recipients and knows what became of each.
 *
 * `sends` has a row for each message, `send_recipients` one for each of its recipients. What goes out are
 * deliveries of kind `send` in the queue; those of kind `copy` change the sender's mailboxes on a mail server.
 * The source of a message is one body: with Bcc, as the copy in Sent has it; Bcc is left out whenever it goes
 * out. `suppressions` has the addresses that a domain's accounts do not write to any more.
 */
export { type CarryOutSendsOptions, carryOutSends } from './carry-out-sends.ts';
export { type Copies, EmbeddedCopies } from './copies.ts';
export type { ComposeRequest, GivenAttachment, SendTimes } from './read-request.ts';
export { readReport } from './reports.ts';
export { Sending, type SendingOptions } from './send.ts';
export { type Accepted, burySends, pruneSends, type SendStatus } from './send-rows.ts';
export { ServerCopies } from './server-copies.ts';
export { Suppressions } from './suppressions.ts';
