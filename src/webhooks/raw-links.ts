/** Links to the source of a message, for whoever got them in a webhook. */
import { createHmac, timingSafeEqual } from 'node:crypto';

/** How long a link is good, in seconds. */
const GOOD_FOR_S = 7 * 24 * 3600;
const PATH = '/webhooks/raw/';

/** The parts of a link as a request brings them: all hostile text. */
export interface RawLink {
  readonly id: string;
  /** Seconds since 1970, decimal. */
  readonly expires: string;
  readonly signature: string;
}

/** What is signed says what it is for: the secret may sign other things, too. */
function sign(secret: string, id: string, expires: string): Buffer {
  return createHmac('sha256', secret).update(`raw_url:${id}:${expires}`).digest();
}

/**
 * Makes the link to a source: `<publicUrl>/webhooks/raw/<id>?expires=...&signature=...`, good for 7
 * days.
 *
 * @param id what the source is found by; letters, digits and dashes
 * @param now milliseconds since 1970
 */
export function signLink(secret: string, publicUrl: string, id: string, now: number): string {
  const expires = String(Math.floor(now / 1000) + GOOD_FOR_S);
  const signature = sign(secret, id, expires).toString('base64url');
  const base = publicUrl.replace(/\/$/, '');
  return `${base}${PATH}${encodeURIComponent(id)}?expires=${expires}&signature=${signature}`;
}

/**
 * Whether a link is one of ours, unchanged and not yet expired.
 *
 * @param now milliseconds since 1970
 */
export function verifyLink(secret: string, link: RawLink, now: number): boolean {
  if (!/^\d{1,12}$/.test(link.expires)) return false;
  const expected = sign(secret, link.id, link.expires);
  const given = Buffer.from(link.signature, 'base64url');
  if (given.length !== expected.length || !timingSafeEqual(given, expected)) return false;
  return Number(link.expires) * 1000 > now;
}
