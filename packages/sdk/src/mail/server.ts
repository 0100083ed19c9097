/** Calls of the API for one account: its token, the pauses that the server asks for, and what went over the wire. */
import type { MailAnswers, Token } from '../api-types.ts';
import { clientHeaders } from '../client-name.ts';
import { ApiError, ConnectionError, isForeign, isPassing } from '../errors.ts';
import { prepare, sendOnce, type TransportOptions, writeQuery } from '../transport.ts';
import type { TellTraffic } from './live.ts';
import type { Platform } from './platform.ts';

/** Gives a token each time one is needed: from your backend, or by a cookie. An ApiError of it ends the session. */
export type TokenSource = () => PromiseLike<MailToken>;

/** What `POST /mail/token` and `POST /v2/email-accounts/{id}/token` answer. */
export interface MailToken {
  readonly token: string;
  /** Seconds; until the server refuses it when left out. */
  readonly expires_in?: number;
}

/** By method and path; bytes are a Blob here. */
type Answers = Omit<MailAnswers, FileRoute> & Record<FileRoute, Blob>;
type FileRoute = 'GET /mail/attachment' | 'GET /mail/message';
export type MailRoute = keyof Answers;

export interface MailCall {
  readonly query?: Readonly<Record<string, string | number>> | undefined;
  readonly body?: unknown;
  /** The server carries out one request of this key. */
  readonly key?: string | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** The session is over: the account signed out, was suspended, or the token is another account's. */
export class SessionEnded extends Error {
  override readonly name = 'SessionEnded';
}

export interface ServerOptions {
  readonly baseUrl: string;
  readonly address: string | undefined;
  readonly auth: TokenSource | { readonly address: string; readonly password: string };
  readonly app: string | undefined;
  readonly platform: Platform;
  readonly tell: TellTraffic;
  /** The server asks for a pause, of all tabs. */
  readonly pause: (ms: number) => void;
}

/** As for a request. */
const TOKEN_MS = 30_000;
const RATE_LOW = 0.25;
const RATE_PREFETCH = 0.4;

export class MailServer {
  readonly #options: ServerOptions;
  readonly #to: TransportOptions;
  #token: string | undefined;
  /** When a new token is fetched although the old one is good. */
  #renewAt = Infinity;
  #renewal: Promise<string> | undefined;
  /** By the platform's ticks: before it nothing is asked. */
  pausedUntil = 0;
  /** Of the minute's requests, the part that is left. */
  #left = 1;

  constructor(options: ServerOptions) {
    this.#options = options;
    const { app, baseUrl, platform } = options;
    const headers = clientHeaders(app);
    this.#to = { baseUrl, headers, fetch: platform.fetch };
  }

  /** Whether the token itself says whose it is; others are asked. */
  get isOurs(): boolean {
    return ownerOf(this.#token ?? '') !== undefined;
  }

  get isLow(): boolean {
    return this.#left < RATE_LOW;
  }

  get mayPrefetch(): boolean {
    return this.#left > RATE_PREFETCH;
  }

  /**
   * One attempt; a refused token is renewed once.
   *
   * @throws ApiError, ConnectionError, SessionEnded
   */
  async call<Route extends MailRoute>(route: Route, call: MailCall = {}): Promise<Answers[Route]> {
    const token = await this.ready(call.signal);
    try {
      return await this.#send<Answers[Route]>(route, call, token);
    } catch (error) {
      if (!(error instanceof ApiError && error.status === 401)) throw error;
      if (this.#token === token) this.forget();
      return await this.#send<Answers[Route]>(route, call, await this.ready(call.signal));
    }
  }

  /** @returns the token, at a time when the server may be asked: it names another one perhaps while a token is fetched */
  async ready(signal?: AbortSignal): Promise<string> {
    const { platform } = this.#options;
    for (;;) {
      signal?.throwIfAborted();
      const ms = this.pausedUntil - platform.ticks();
      if (ms <= 0) {
        const token = await this.token();
        if (this.pausedUntil <= platform.ticks()) return token;
        continue;
      }
      await new Promise<void>((resolve) => {
        const over = () => {
          cancel();
          // An app may have one signal for many calls.
          signal?.removeEventListener('abort', over);
          resolve();
        };
        const cancel = platform.after(ms, over);
        signal?.addEventListener('abort', over);
      });
    }
  }

  /** The token of today; one call of `auth` at a time. @throws SessionEnded, ConnectionError */
  async token(): Promise<string> {
    if (this.#token !== undefined && this.#options.platform.now() < this.#renewAt)
      return this.#token;
    this.#renewal ??= this.#renew().finally(() => {
      this.#renewal = undefined;
    });
    return await this.#renewal;
  }

  /** The server refused it, or the session is over. */
  forget(): void {
    this.#token = undefined;
  }

  async #renew(): Promise<string> {
    const { auth, platform, address } = this.#options;
    try {
      const { token, expires_in = Infinity } = await (typeof auth === 'function'
        ? this.#inTime(auth())
        : this.#send<Token>('POST /mail/token', { body: auth }, undefined));
      const owner = ownerOf(token);
      if (address !== undefined && owner !== undefined && owner !== address) {
        throw new SessionEnded(`the token is of ${owner}, not of ${address}`);
      }
      this.#renewAt = platform.now() + 800 * expires_in;
      this.#token = token;
      return token;
    } catch (error) {
      if (error instanceof SessionEnded || isPassing(error)) throw error;
      if (error instanceof ApiError && !isForeign(error))
        throw new SessionEnded(error.message, { cause: error });
      // A callback fails in its own way where there is no network.
      throw new ConnectionError(error, false, 1);
    }
  }

  /** Everything waits for a callback: one that never comes back is asked again. */
  #inTime<T>(asked: PromiseLike<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const late = () => reject(new Error('auth gave no token in 30 s'));
      const cancel = this.#options.platform.after(TOKEN_MS, late);
      void Promise.resolve(asked).then(resolve, reject).finally(cancel);
    });
  }

  async #send<T>(route: string, call: MailCall, token: string | undefined): Promise<T> {
    const [method = '', path = ''] = route.split(' ');
    const { query = {}, body, key, signal } = call;
    const isSource = path === '/mail/message';
    const isBlob = isSource || path === '/mail/attachment';
    const request = {
      ...{ method, path: path + writeQuery(query), body },
      ...(isBlob && { read: (response: Response) => response.blob() }),
    };
    const init = prepare(this.#to, request, {
      ...(isSource && { accept: 'message/rfc822' }),
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
      ...(key !== undefined && { 'idempotency-key': key }),
    });
    const { tell } = this.#options;
    tell('sent', `${method} ${request.path}`, withoutSecret(body));
    try {
      const { data, response } = await sendOnce<T>(this.#to, request, init, { signal });
      this.#readRate(response.headers);
      tell('received', `${response.status}`, isBlob ? undefined : withoutSecret(data));
      return data;
    } catch (error) {
      tell('received', describe(error));
      if (error instanceof ApiError && error.status === 429 && isPassing(error)) {
        const ms = 1000 * (error.retryAfter ?? 1);
        this.pauseFor(ms);
        this.#options.pause(ms);
      }
      throw error;
    }
  }

  pauseFor(ms: number): void {
    this.pausedUntil = Math.max(this.pausedUntil, this.#options.platform.ticks() + ms);
  }

  #readRate(headers: Headers): void {
    const read = (name: string) => Number(headers.get(`x-ratelimit-${name}`));
    const limit = read('limit');
    this.#left = limit > 0 ? read('remaining') / limit : 1;
  }
}

/** The address that a token of Postroom itself is for; tokens of a product name the account in their own way. */
export function ownerOf(token: string): string | undefined {
  try {
    const [, payload = ''] = token.split('.');
    const text = atob(payload.replaceAll('-', '+').replaceAll('_', '/'));
    const { sub, postroom_account } = JSON.parse(text) as Record<string, unknown>;
    return postroom_account === undefined ? undefined : String(sub).toLowerCase();
  } catch {
    return undefined;
  }
}

function withoutSecret(body: unknown): unknown {
  if (body instanceof Blob) return `(${body.size} bytes)`;
  if (typeof body !== 'object' || body === null) return body;
  const isSecret = (name: string) =>
    name === 'password' || (name === 'token' && !('mailbox' in body));
  return Object.fromEntries(
    Object.entries(body).map(([name, value]) => [name, isSecret(name) ? '…' : value]),
  );
}

function describe(error: unknown): string {
  return error instanceof ApiError ? `${error.status} ${error.code}` : 'no answer';
}
