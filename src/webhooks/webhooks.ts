/**
 * Webhooks: what a route's URL is told of a message, and one attempt to tell it (Standard Webhooks
 * 1.0.0). When and how often is the queue's affair, what follows a last failure is `delivery`'s.
 * Owns nothing in storage.
 *
 * A body is built once, when the message is accepted ({@link buildWebhookBody}); it is what every
 * attempt sends, byte for byte, under the same `webhook-id`. Only the timestamp and the signature
 * over it are new each time.
 */
export { type RawLink, signLink, verifyLink } from './raw-links.ts';
export {
  createWebhookSender,
  type WebhookRequest,
  type WebhookSender,
  type WebhookSenderOptions,
  webhookDestination,
} from './send-webhook.ts';
export { type AuthVerdicts, buildWebhookBody, type WebhookMessage } from './webhook-body.ts';

/**
 * Seconds between one attempt and the next: ten attempts in three days and four hours, of the
 * schedule that Standard Webhooks recommends.
 */
export const webhookDelays: readonly number[] = [
  5,
  5 * 60,
  30 * 60,
  2 * 3600,
  5 * 3600,
  10 * 3600,
  14 * 3600,
  20 * 3600,
  24 * 3600,
];
