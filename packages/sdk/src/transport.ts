/** Sends requests: address, credentials, time limits, and when a request is sent again. */
import { ApiError, ConnectionError, isPassing } from './errors.ts';

/** What every call takes beside its own parameters. */
export interface CallOptions {
  /** Ends the call; it then throws the signal's reason. */
  readonly signal?: AbortSignal | undefined;
  /**
   * For each attempt, with its answer. When left out, 30,000 and what a slow network needs for a large body; an answer then
   * may take as long as it goes on coming.
   */
  readonly timeoutMs?: number | undefined;
  /** Attempts after the first; 2 when left out. */
  readonly maxRetries?: number | undefined;
  /** Added to the request. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** The server carries out one request of this key; one is made for each call when left out. */
  readonly idempotencyKey?: string | undefined;
}

/** A request below the address of the server. */
export interface ApiRequest {
  readonly method: string;
  /** With its query. */
  readonly path: string;
  /** Sent as JSON; a Blob is sent as it is, with its type. */
  readonly body?: unknown;
  /** Reads an answer that is no JSON. */
  readonly read?: (response: Response) => unknown;
  /** The server remembers the key of this request, so that it is carried out once. */
  readonly takesKey: boolean;
  /** To carry it out twice does the same as once. */
  readonly repeatable: boolean;
}

export interface TransportOptions {
  readonly baseUrl: string;
  /** Sent with each request. */
  readonly headers: Readonly<Record<string, string>>;
  /** In place of the global one. */
  readonly fetch?: typeof fetch | undefined;
}

/** An answer with its body. */
export interface ApiAnswer<T> {
  readonly data: T;
  readonly response: Response;
}

/** Nothing is sent or comes for so long. */
export const TIMEOUT_MS = 30_000;
/** Octets in a millisecond: the server waits two minutes for the largest request. */
const SLOWEST = 128;
const RETRIES = 2;
const FIRST_WAIT_MS = 500;
const LONGEST_WAIT_MS = 8000;
/** A server that asks for a longer pause than this has its error thrown. */
const LONGEST_RETRY_AFTER_S = 60;

/** What Node says of a connection that was never made: the request cannot have reached the server. */
const NEVER_SENT = /^(?:ECONNREFUSED|ENOTFOUND|EAI_AGAIN|UND_ERR_CONNECT_TIMEOUT)$/;

/** The address of a server, without slashes at its end. @throws TypeError where it is none */
export function readBaseUrl(text: string): string {
  if (/^https?:\/\//.test(text)) return text.replace(/\/+$/, '');
  throw new TypeError(`baseUrl must begin with http or https: ${text}`);
}

/** Sends requests, and sends those again that may succeed then. */
export class Transport {
  readonly #options: TransportOptions;

  constructor(options: TransportOptions) {
    this.#options = options;
  }

  /**
   * Sends a request until it is answered, and reads the answer's JSON.
   *
   * @throws ApiError where the server refused
   * @throws ConnectionError where no answer came
   */
  async send<T>(request: ApiRequest, options: CallOptions = {}): Promise<ApiAnswer<T>> {
    const { maxRetries = RETRIES, signal, headers, idempotencyKey } = options;
    const { takesKey } = request;
    // Each attempt has the same.
    const key = takesKey && { 'idempotency-key': idempotencyKey ?? crypto.randomUUID() };
    const init = prepare(this.#options, request, { ...key, ...headers });
    const repeatable = request.repeatable || takesKey;
    for (let attempt = 1; ; attempt++) {
      try {
        return await sendOnce<T>(this.#options, request, init, options, attempt);
      } catch (error) {
        const wait = waitAfter(error, repeatable, attempt);
        if (attempt > maxRetries || wait === undefined) throw error;
        await pause(wait, signal);
      }
    }
  }
}

/** With its question mark; members that are undefined are left out. */
export function writeQuery(query: Readonly<Record<string, unknown>>): string {
  const given = Object.entries(query).filter(([, value]) => value !== undefined);
  // It makes texts of the values itself.
  const text = `${new URLSearchParams(given as [string, string][])}`;
  return text && `?${text}`;
}

/** A request as `fetch` takes it. */
export function prepare(
  to: TransportOptions,
  { method, body }: Pick<ApiRequest, 'method' | 'body'>,
  more: Readonly<Record<string, string>>,
): RequestInit {
  // `fetch` says itself of which type a Blob is.
  const sent = body instanceof Blob ? body : JSON.stringify(body);
  const type = typeof sent === 'string' && { 'content-type': 'application/json' };
  const headers = { ...type, ...to.headers, ...more };
  // A redirect would carry the API key to another address.
  return { method, redirect: 'manual', headers, body: sent ?? null };
}

/**
 * One attempt.
 *
 * @throws ApiError, ConnectionError, and the signal's reason
 */
export async function sendOnce<T>(
  { fetch: send = fetch, baseUrl }: TransportOptions,
  { path, method, read }: Pick<ApiRequest, 'path' | 'method' | 'read'>,
  init: RequestInit,
  { signal, timeoutMs }: CallOptions,
  attempt = 1,
): Promise<ApiAnswer<T>> {
  const ending = new AbortController();
  let timer: ReturnType<typeof setTimeout> | undefined;
  const within = (ms: number) => {
    clearTimeout(timer);
    timer = setTimeout(() => ending.abort(new Error('timeout')), ms);
    // In Node a time limit alone does not keep the program running.
    (timer as { unref?: () => void }).unref?.();
  };
  let response: Response;
  let text: string;
  try {
    within(timeoutMs ?? TIMEOUT_MS + octetsOf(init.body) / SLOWEST);
    const either = signal ? AbortSignal.any([signal, ending.signal]) : ending.signal;
    response = await send(`${baseUrl}${path}`, { ...init, signal: either });
    const watched = timeoutMs === undefined ? watch(response, () => within(TIMEOUT_MS)) : response;
    // Whoever reads it says what it is.
    if (response.ok && read) return { data: (await read(watched)) as T, response };
    text = await watched.text();
  } catch (error) {
    signal?.throwIfAborted();
    const mayHaveHappened = method !== 'GET' && !NEVER_SENT.test(codeOf(error));
    throw new ConnectionError(error, mayHaveHappened, attempt);
  } finally {
    clearTimeout(timer);
  }
  try {
    if (response.ok) return { data: JSON.parse(text) as T, response };
  } catch {
    // Somebody else answered: a proxy's page, say.
  }
  throw new ApiError(response, text, attempt);
}

function octetsOf(body: RequestInit['body']): number {
  const { size, length = 0 } = (body ?? {}) as Partial<Blob & string>;
  return size ?? length;
}

/** The same answer, telling of each part of it that comes. */
function watch(response: Response, came: () => void): Response {
  if (!response.ok || !response.body) return response;
  const told = new TransformStream<Uint8Array, Uint8Array>({
    transform(part, to) {
      came();
      to.enqueue(part);
    },
  });
  return new Response(response.body.pipeThrough(told), response);
}

/**
 * Milliseconds until a request is sent again; undefined where that would not help, might do twice what was asked once, or
 * takes too long.
 */
function waitAfter(error: unknown, repeatable: boolean, attempt: number): number | undefined {
  const after = error instanceof ApiError ? error.retryAfter : undefined;
  const wasRefused = error instanceof ApiError && [429, 503].includes(error.status);
  const wasNotSent = error instanceof ConnectionError && !error.mayHaveHappened;
  if (!isPassing(error) || !(repeatable || wasRefused || wasNotSent)) return undefined;
  if (after === undefined) return backoff(attempt);
  return after <= LONGEST_RETRY_AFTER_S ? after * 1000 : undefined;
}

/** Full jitter: many clients that failed together do not come back together. @param longest in milliseconds */
export function backoff(
  failures: number,
  longest: number = LONGEST_WAIT_MS,
  random: number = Math.random(),
): number {
  return random * Math.min(longest, FIRST_WAIT_MS * 2 ** failures);
}

/** @throws the signal's reason */
export async function pause(ms: number, signal?: AbortSignal): Promise<void> {
  signal?.throwIfAborted();
  await new Promise<void>((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(signal?.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', stop);
      resolve();
    }, ms);
    signal?.addEventListener('abort', stop, { once: true });
  });
}

function codeOf(error: unknown): string {
  const { cause } = error as { readonly cause?: { readonly code?: unknown } | null };
  return String(cause?.code);
}
