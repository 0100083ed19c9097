/** One attempt to send a webhook to its URL: the request, its signature, and the meaning of the answer. */
import { createHmac } from 'node:crypto';
import { isIP } from 'node:net';
import type { Agent, buildConnector, Dispatcher } from 'undici';
import {
  type AddressFilter,
  AddressRefused,
  guardLookup,
  inTime,
  type ResolveHost,
} from '../../platform/net/net.ts';
import type { EpochMs } from '../../platform/time/time.ts';
import type { AttemptOutcome } from '../queue/queue.ts';

export interface WebhookSenderOptions {
  /** The addresses that connections may go to. */
  readonly filter: AddressFilter;
  readonly resolve: ResolveHost;
  /** Milliseconds for a whole attempt; 15,000 when left out. */
  readonly timeoutMs?: number;
  /** PEM of authorities to trust in place of the system's. */
  readonly ca?: string;
  readonly now?: () => EpochMs;
}

export interface WebhookRequest {
  readonly url: string;
  /** The request is signed with each; without any there is no signature. */
  readonly secrets?: readonly string[];
  /** The `webhook-id`. */
  readonly id: string;
  /** JSON, the same in every attempt. */
  readonly body: string;
}

export interface WebhookSender {
  /**
   * Makes one attempt. Only 2xx is success; 410 is permanent; everything else may be fixed, so it is temporary: a
   * redirect, a refused address, a certificate that does not match.
   *
   * @param signal ends it early
   */
  attempt(request: WebhookRequest, signal?: AbortSignal): Promise<AttemptOutcome>;
  close(): Promise<void>;
}

const TIMEOUT_MS = 15_000;
/** Connections to one origin: as many as the queue has under way. */
const PER_ORIGIN = 32;
/** Bytes of an answer that are kept of a failure. */
const ERROR_BYTES = 500;
/** Bytes of an answer that are read so that its connection can be reused; after a longer answer it is closed. */
const DRAINED_BYTES = 16 * 1024;
/** How long to wait for the rest of an answer whose status is a success. */
const DRAIN_MS = 1_000;
/** 429 Too Many Requests (RFC 6585 section 4), 503 Service Unavailable (RFC 9110 section 15.6.4). */
const SAY_WHEN = [429, 503];
const GONE = 410;

/**
 * The receiver of a URL: scheme, host and port.
 *
 * @param url an http or https URL
 */
export function webhookDestination(url: string): string {
  return new URL(url).origin;
}

export function createWebhookSender(options: WebhookSenderOptions): WebhookSender {
  const { timeoutMs = TIMEOUT_MS, now = Date.now } = options;
  let opened: Promise<Agent> | undefined;

  async function attempt(request: WebhookRequest, signal?: AbortSignal): Promise<AttemptOutcome> {
    const url = URL.canParse(request.url) ? new URL(request.url) : undefined;
    if (url?.protocol !== 'http:' && url?.protocol !== 'https:') {
      return { result: 'permanent', error: { text: 'the URL is not an http or https URL' } };
    }
    const deadline = AbortSignal.timeout(timeoutMs);
    const ending = signal ? AbortSignal.any([signal, deadline]) : deadline;
    try {
      const response = post(url, request, ending);
      // A request that still waits for its connection sees the abort only once it has one, and is dropped then; the
      // attempt ends in time all the same.
      return await judgeResponse(await inTime(ending, response), now);
    } catch (error) {
      if (!ending.aborted) return temporary(explainFailure(error));
      const stopped = 'we were stopped before the answer';
      return temporary(signal?.aborted ? stopped : `no answer within ${timeoutMs / 1000} s`);
    }
  }

  async function openAgent(): Promise<Agent> {
    // Loaded at first use, since it would take each start a tenth of a second.
    const undici = await import('undici');
    return new undici.Agent({
      connect: connectAllowed(undici.buildConnector, options, timeoutMs),
      connections: PER_ORIGIN,
      pipelining: 1,
      allowH2: false,
      // The signal limits the whole attempt.
      headersTimeout: 0,
      bodyTimeout: 0,
    });
  }

  async function post(url: URL, request: WebhookRequest, signal: AbortSignal) {
    opened ??= openAgent();
    const agent = await opened;
    return agent.request({
      origin: url.origin,
      path: url.pathname + url.search,
      method: 'POST',
      headers: {
        'content-type': 'application/json',
        'user-agent': 'Postroom-Webhooks',
        ...signRequest(request, now()),
      },
      body: request.body,
      signal,
    });
  }

  // The queue has waited for the attempts under way.
  return { attempt, close: async () => (await opened)?.destroy() };
}

/**
 * Connects only to checked addresses. A name is checked in the lookup that the connection itself uses, so that no
 * second lookup can give another answer. An address in the URL, which the URL parser has normalized (`2130706433` is
 * `127.0.0.1`), is checked here.
 */
function connectAllowed(
  build: typeof buildConnector,
  { filter, resolve, ca }: WebhookSenderOptions,
  timeoutMs: number,
): buildConnector.connector {
  const connect = build({
    lookup: guardLookup(filter, resolve),
    timeout: timeoutMs,
    allowH2: false,
    autoSelectFamily: true,
    // Set here, so that NODE_TLS_REJECT_UNAUTHORIZED has no effect.
    rejectUnauthorized: true,
    ...(ca === undefined ? {} : { ca }),
  });
  return (target, callback) => {
    const host = target.hostname.replace(/^\[|\]$/g, '');
    const verdict = isIP(host) ? filter.judge(host) : undefined;
    if (verdict?.allowed === false) callback(new AddressRefused(host, verdict.kind), null);
    else connect(target, callback);
  };
}

async function judgeResponse(
  { statusCode: status, headers, body }: Dispatcher.ResponseData,
  now: () => number,
): Promise<AttemptOutcome> {
  if (status >= 200 && status < 300) {
    const late = setTimeout(() => body.destroy(), DRAIN_MS);
    await readStart(body);
    clearTimeout(late);
    return { result: 'delivered' };
  }
  const said = readable(await readStart(body));
  if (status === GONE) {
    return { result: 'permanent', error: { status, text: said } };
  }
  const isRedirect = status >= 300 && status < 400;
  const error = { status, text: isRedirect ? 'redirects are not followed' : said };
  const retryAfter = SAY_WHEN.includes(status)
    ? readRetryAfter(firstOf(headers['retry-after']), now())
    : undefined;
  return retryAfter === undefined
    ? { result: 'temporary', error }
    : { result: 'temporary', error, retryAfterSeconds: retryAfter };
}

/**
 * Reads the first 500 bytes of an answer. A short answer is read to its end, so that its connection can be reused; an
 * endless one is cut off. If the answer breaks off, that is no error: the status is known.
 */
async function readStart(body: Dispatcher.ResponseData['body']): Promise<Buffer> {
  const start: Uint8Array[] = [];
  let kept = 0;
  let read = 0;
  try {
    for await (const chunk of body as AsyncIterable<Uint8Array>) {
      read += chunk.length;
      if (kept < ERROR_BYTES) {
        const piece = chunk.subarray(0, ERROR_BYTES - kept);
        start.push(Uint8Array.from(piece));
        kept += piece.length;
      }
      // Leaving the loop closes the body and its connection.
      if (read >= DRAINED_BYTES) break;
    }
  } catch {
    // The connection was closed, or the time is over.
  }
  return Buffer.concat(start);
}

/** Hostile bytes as one line of text. */
function readable(bytes: Buffer): string {
  return bytes
    .toString()
    .replace(/\ufffd+$/, '')
    .replace(/[\p{Cc}\s]+/gu, ' ')
    .trim();
}

function firstOf(header: string | string[] | undefined): string | undefined {
  return typeof header === 'object' ? header[0] : header;
}

function temporary(text: string): AttemptOutcome {
  return { result: 'temporary', error: { text } };
}

const PREFIX = 'whsec_';

/**
 * The headers that identify the delivery and prove its sender (Standard Webhooks 1.0.0, "Webhook Headers"). Without a
 * secret there is no signature; with several there is one for each, separated by spaces.
 *
 * @param now the time of the attempt, since receivers refuse old timestamps
 */
export function signRequest(
  { secrets = [], id, body }: Pick<WebhookRequest, 'secrets' | 'id' | 'body'>,
  now: EpochMs,
): Record<string, string> {
  const timestamp = String(Math.floor(now / 1000));
  const headers = { 'webhook-id': id, 'webhook-timestamp': timestamp };
  if (secrets.length === 0) return headers;
  const signatures = secrets.map((secret) => {
    const hmac = createHmac('sha256', keyOf(secret)).update(`${id}.${timestamp}.`).update(body);
    return `v1,${hmac.digest('base64')}`;
  });
  return { ...headers, 'webhook-signature': signatures.join(' ') };
}

function keyOf(secret: string): Buffer {
  return secret.startsWith(PREFIX)
    ? Buffer.from(secret.slice(PREFIX.length), 'base64')
    : Buffer.from(secret);
}

/* The meaning of a receiver's answer, or of the error in its place. */

/** Days and months as dates of HTTP have them. */
const DATE =
  /^(?:[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4}|[A-Z][a-z]{5,8}, \d{2}-[A-Z][a-z]{2}-\d{2}) \d{2}:\d{2}:\d{2} GMT$/;
const ASCTIME = /^[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d{2}:\d{2}:\d{2} \d{4}$/;

/**
 * Reads a Retry-After field (RFC 9110 section 10.2.3): seconds, or a date in one of the three forms
 * of RFC 9110 section 5.6.7.
 *
 * @returns seconds from now, at least 0; undefined where there is no readable field
 */
export function readRetryAfter(field: string | undefined, now: EpochMs): number | undefined {
  const text = field?.trim() ?? '';
  if (/^\d{1,10}$/.test(text)) return Number(text);
  if (!DATE.test(text) && !ASCTIME.test(text)) return undefined;
  const at = Date.parse(ASCTIME.test(text) ? `${text} GMT` : text);
  return Number.isNaN(at) ? undefined : Math.max(Math.ceil((at - now) / 1000), 0);
}

/** By code of the system, of TLS, and of undici. */
const meanings: Readonly<Record<string, string>> = {
  ENOTFOUND: 'the host name has no address',
  EAI_AGAIN: 'DNS gave no answer for the host name',
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'the connection was closed before the answer',
  EPIPE: 'the connection was closed before the answer',
  UND_ERR_SOCKET: 'the connection was closed before the answer',
  ETIMEDOUT: 'no connection in time',
  UND_ERR_CONNECT_TIMEOUT: 'no connection in time',
  EHOSTUNREACH: 'the host cannot be reached',
  ENETUNREACH: 'the host cannot be reached',
  UND_ERR_HEADERS_OVERFLOW: 'the header of the answer is too large',
  ERR_TLS_CERT_ALTNAME_INVALID: 'the TLS certificate is for another name',
  CERT_HAS_EXPIRED: 'the TLS certificate has expired',
  CERT_NOT_YET_VALID: 'the TLS certificate is not valid yet',
  DEPTH_ZERO_SELF_SIGNED_CERT: 'the TLS certificate is self-signed',
  SELF_SIGNED_CERT_IN_CHAIN: 'the TLS certificate is from an authority that is not trusted',
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    'the TLS certificate is from an authority that is not trusted, or an intermediate one is missing',
  UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    'the TLS certificate is from an authority that is not trusted, or an intermediate one is missing',
};

/** One sentence without a stack; an unknown error is named by its code. */
function explainFailure(error: unknown): string {
  const code = codeOf(error);
  // Its message says exactly what is needed.
  if (code === 'ADDRESS_REFUSED' && error instanceof Error) return error.message;
  // The library's words for a 100 Continue (RFC 9110 section 15.2.1): no request of ours asks for it, and none is accepted.
  if (code === 'UND_ERR_SOCKET' && error instanceof Error && error.message === 'bad response') {
    return `the answer begins with 100 Continue, which was not asked for (${code})`;
  }
  const meaning = meanings[code];
  if (meaning !== undefined) return `${meaning} (${code})`;
  // Of undici's parser, whose code may be missing.
  if (error instanceof Error && error.name === 'HTTPParserError') return 'the answer is not HTTP';
  if (code.startsWith('ERR_SSL_') || code === 'EPROTO') return `TLS failed (${code})`;
  return code === '' ? 'the request failed' : `the request failed (${code})`;
}

function codeOf(error: unknown): string {
  if (!(error instanceof Error)) return '';
  if ('code' in error && typeof error.code === 'string') return error.code;
  // Several addresses were tried: the first failure stands for all.
  if (error instanceof AggregateError) return codeOf(error.errors[0]);
  return codeOf(error.cause);
}

/**
 * Seconds between one attempt and the next: ten attempts in three days and four hours, on the schedule that Standard
 * Webhooks recommends.
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
