/**
 * Webhooks: what a route's URL gets of a message, and one attempt to send it (Standard Webhooks 1.0.0). The queue
 * decides when and how often, `delivery` decides what follows a failed last attempt. Stores nothing. The events of users
 * are posted by the same rules, to a URL of their own (`event-hooks.ts`).
 *
 * A body is built once, when the message is accepted ({@link buildWebhookBody}). Every attempt sends it, byte for byte,
 * under the same `webhook-id`. Only the timestamp and its signature differ.
 */
import { createHmac, timingSafeEqual } from 'node:crypto';
import type { SigningKeys } from '../../platform/nodes/nodes.ts';
import type { EpochMs } from '../../platform/time/time.ts';

export {
  EVENT,
  EventHooks,
  type HookSettings,
  type HookState,
  QUEUED_MAX,
} from './event-hooks.ts';
export { carryOutEvents, EventQueuer, type QueueEventsOptions } from './queue-events.ts';
export {
  createWebhookSender,
  type WebhookSender,
  type WebhookSenderOptions,
  webhookDelays,
  webhookDestination,
} from './send-webhook.ts';
export { buildWebhookBody, type WebhookMessage } from './webhook-body.ts';

/** How long a link is valid, in seconds. */
const GOOD_FOR_S = 7 * 24 * 3600;

export interface LinkTarget {
  /** The id of the source; letters, digits and dashes. */
  readonly id: string;
  /** Number of one MIME part; left out for the whole source. */
  readonly part?: string;
}

/** A link as it is in a request: all hostile text. */
export interface SignedLink extends LinkTarget {
  /** Seconds since 1970, decimal. */
  readonly expires: string;
  readonly signature: string;
}

/** The signed text names its purpose: the secret may sign other things, too. */
function sign(secret: string, { id, part }: LinkTarget, expires: string): Buffer {
  const target = part === undefined ? `raw_url:${id}` : `attachment_url:${id}:${part}`;
  return createHmac('sha256', secret).update(`${target}:${expires}`).digest();
}

/**
 * Makes the link to a source, `<publicUrl>/webhooks/raw/<id>?expires=...&signature=...`, or to a part of it,
 * `<publicUrl>/webhooks/attachments/<id>/<part>?...`; valid for 7 days.
 */
export function signLink(
  secret: SigningKeys,
  publicUrl: string,
  target: LinkTarget,
  now: EpochMs,
): string {
  const expires = String(Math.floor(now / 1000) + GOOD_FOR_S);
  const signature = sign(secret[0], target, expires).toString('base64url');
  const base = publicUrl.replace(/\/$/, '');
  const id = encodeURIComponent(target.id);
  const path = target.part === undefined ? `raw/${id}` : `attachments/${id}/${target.part}`;
  return `${base}/webhooks/${path}?expires=${expires}&signature=${signature}`;
}

/**
 * Whether a link was made here, is unchanged and has not expired.
 */
export function verifyLink(secret: SigningKeys, link: SignedLink, now: EpochMs): boolean {
  if (!/^\d{1,12}$/.test(link.expires)) return false;
  // Neither has a colon: no text can be moved from one side of it to the other.
  if (link.part !== undefined && !/^[\d.]{1,100}$/.test(link.part)) return false;
  const given = Buffer.from(link.signature, 'base64url');
  const isOurs = secret.some((key) => {
    const expected = sign(key, link, link.expires);
    return given.length === expected.length && timingSafeEqual(given, expected);
  });
  return isOurs && Number(link.expires) * 1000 > now;
}
