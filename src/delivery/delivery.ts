/**
 * Takes accepted mail from `smtp/` to where its domain's route says: checks its sender, stores it for
 * accounts, queues what has to go on, and decides what follows when that fails for good. Owns no
 * table: what it has taken is durable in the mail store and the queue, in one transaction.
 */
export { type CarryOutOptions, carryOut } from './carry-out.ts';
export { createMailReceiver, type MailReceiverOptions } from './deliver.ts';
export type { Arrival, InboundEnvelope, MailReceiver, RecipientOutcome } from './envelope.ts';
export { LocalDelivery, type LocalDeliveryOptions } from './local-delivery.ts';
export { createSenderChecks, type SenderChecks } from './sender-checks/check-sender.ts';
