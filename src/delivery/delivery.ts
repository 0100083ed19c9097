/**
 * Takes accepted mail from `smtp/` to where its domain's route says. Owns no table: what it has
 * taken is durable in the mail store.
 */
export { createDelivery, type DeliveryOptions } from './deliver.ts';
export type { Arrival, Delivery, InboundEnvelope, RecipientOutcome } from './envelope.ts';
