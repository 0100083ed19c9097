/**
 * Checks webhooks of Postroom (Standard Webhooks 1.0.0). It needs WebCrypto alone: Node, Deno, Bun, workers, browsers.
 */
import type { MessageReceived } from './api-types.ts';
import type { EventType, UserEvent } from './events.ts';

/** What a webhook can be. */
export type WebhookEvent = MessageReceived & {
  /** Of the delivery, the same in each attempt: process each id once. */
  readonly id: string;
};

/** Why a webhook was refused. */
export type SignatureProblem = 'missing' | 'old' | 'wrong';

/** A request that did not come from this server, or was changed on its way. Answer it with 401. */
export class SignatureError extends Error {
  override readonly name: string = 'SignatureError';
  /** `missing`: without the headers. `old`: of another time. `wrong`: no secret of yours signed these bytes. */
  readonly problem: SignatureProblem;

  constructor(problem: SignatureProblem, message: string) {
    super(message);
    this.problem = problem;
  }
}

/** Headers of a request, as `fetch` has them or as Node has them. */
export type RequestHeaders =
  | Headers
  | Readonly<Record<string, string | readonly string[] | undefined>>;

/** Seconds that a clock of sender and receiver may differ. */
const TOLERANCE_S = 300;
const PREFIX = 'whsec_';

/**
 * Checks who sent a webhook, and reads it.
 *
 * @param body the bytes as they came: parsed and written again they are others
 * @param secrets of the route; while a secret is changed, the new and the previous one
 * @param options.now milliseconds since 1970, for tests
 * @throws SignatureError
 * @throws TypeError where the body was already parsed, or a secret is missing
 */
export async function verifyWebhook(
  body: Uint8Array | ArrayBuffer | string,
  headers: RequestHeaders,
  secrets: string | readonly (string | undefined)[],
  { now = Date.now() }: { readonly now?: number } = {},
): Promise<WebhookEvent> {
  const bytes = toBytes(body);
  const known = [secrets].flat().filter((secret): secret is string => Boolean(secret));
  if (known.length === 0)
    throw new TypeError('the secret of the route or of the event hook is missing');
  const id = readHeader(headers, 'webhook-id');
  const timestamp = readHeader(headers, 'webhook-timestamp');
  const given = readHeader(headers, 'webhook-signature');
  if (!id || !timestamp || !given) {
    throw new SignatureError('missing', 'the request has no webhook-id, -timestamp or -signature');
  }
  const age = now / 1000 - (/^\d+$/.test(timestamp) ? Number(timestamp) : Number.NaN);
  if (!(Math.abs(age) <= TOLERANCE_S)) {
    throw new SignatureError('old', 'the time of the webhook is over 5 minutes from now');
  }
  const signed = await new Blob([`${id}.${timestamp}.`, bytes]).arrayBuffer();
  const signatures = given.split(' ').filter((one) => one.startsWith('v1,'));
  for (const secret of known) {
    const key = await importKey(secret);
    for (const signature of signatures) {
      const octets = fromBase64(signature.slice('v1,'.length));
      // The comparison of WebCrypto takes the same time for each signature.
      if (octets && (await crypto.subtle.verify('HMAC', key, octets, signed))) {
        return { ...(JSON.parse(new TextDecoder().decode(bytes)) as MessageReceived), id };
      }
    }
  }
  throw new SignatureError(
    'wrong',
    'the signature was made with another secret, or over other bytes',
  );
}

/** What an event hook posts. Its `id` is the event's `cursor`: process each once. */
export type PostedEvent = UserEvent<Exclude<EventType, 'mailbox.changed'>> & {
  readonly id: string;
};

/** As `verifyWebhook`, for what an event hook posts. */
export function verifyEvent(...given: Parameters<typeof verifyWebhook>): Promise<PostedEvent> {
  return verifyWebhook(...given) as Promise<object> as Promise<PostedEvent>;
}

function toBytes(body: unknown): Uint8Array<ArrayBuffer> {
  if (typeof body === 'string') return new TextEncoder().encode(body);
  if (body instanceof ArrayBuffer) return new Uint8Array(body);
  if (body instanceof Uint8Array) return new Uint8Array(body);
  throw new TypeError(
    'the body was already parsed: pass its bytes, in Express by express.raw({ type: "application/json" })',
  );
}

function readHeader(headers: RequestHeaders, name: string): string | undefined {
  if (headers instanceof Headers) return headers.get(name) ?? undefined;
  const value =
    headers[name] ?? Object.entries(headers).find(([key]) => key.toLowerCase() === name)?.[1];
  return typeof value === 'string' ? value : value?.join(' ');
}

function importKey(secret: string): Promise<CryptoKey> {
  const bytes = secret.startsWith(PREFIX)
    ? fromBase64(secret.slice(PREFIX.length))
    : new TextEncoder().encode(secret);
  if (!bytes) throw new TypeError('a secret must be Base64 after whsec_');
  return crypto.subtle.importKey('raw', bytes, { name: 'HMAC', hash: 'SHA-256' }, false, [
    'verify',
  ]);
}

/** Undefined where it is no Base64. */
function fromBase64(text: string): Uint8Array<ArrayBuffer> | undefined {
  try {
    return Uint8Array.from(atob(text), (character) => character.charCodeAt(0));
  } catch {
    return undefined;
  }
}
