import { Webhook } from 'standardwebhooks';

const PREFIX = 'whsec_';

/**
 * The headers that say which delivery this is and who sends it (Standard Webhooks 1.0.0, "Webhook
 * Headers"). Without a secret there is no signature.
 *
 * @param now milliseconds since 1970: the time of the attempt, since receivers refuse old ones
 */
export function signRequest(
  { secret, id, body }: { secret?: string | undefined; id: string; body: string },
  now: number,
): Record<string, string> {
  const timestamp = String(Math.floor(now / 1000));
  const headers = { 'webhook-id': id, 'webhook-timestamp': timestamp };
  if (secret === undefined || secret === '') return headers;
  // The library takes a raw secret in a string for one of Latin-1: its UTF-8 bytes are given.
  const webhook = secret.startsWith(PREFIX)
    ? new Webhook(secret)
    : new Webhook(Buffer.from(secret), { format: 'raw' });
  return { ...headers, 'webhook-signature': webhook.sign(id, new Date(now), body) };
}
