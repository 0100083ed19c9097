/**
 * Calls of the API from the console. The session's cookie signs them in, which scripts cannot read; its
 * CSRF token, which goes with everything but GET, is asked for when the page is loaded. The API key is
 * sent once, to sign in. Nothing of this is kept in the browser's storage.
 */
import { reactive } from 'vue';
import type { Session } from './types.ts';

const OPERATOR = '/v2/operator';
const SESSION = `${OPERATOR}/console/session`;

const NO_COOKIE =
  'The key is right, but the browser took no cookie. Allow cookies for this page. Where PUBLIC_URL begins with https, open the console by HTTPS.';

/** An answer that says no, in the API's words. */
export class ApiError extends Error {
  /** HTTP status, 0 where there was no answer. */
  readonly status: number;
  /** Stable code, such as `rate_limited` (docs/reference/errors.md). */
  readonly code: string;
  readonly requestId: string | undefined;

  constructor(status: number, code: string, message: string, requestId?: string) {
    super(message);
    this.name = 'ApiError';
    this.status = status;
    this.code = code;
    this.requestId = requestId;
  }
}

/** The session of this page; without one every screen leads to the sign-in. */
export const session = reactive<{ current: Session | undefined }>({ current: undefined });

/** Finds whether the browser is signed in already: it has the cookie where it is. */
export async function findSession(): Promise<void> {
  session.current = await request<Session>('GET', SESSION, {});
}

/** Exchanges the API key for a session. */
export async function signIn(apiKey: string): Promise<void> {
  await request('POST', SESSION, { body: { api_key: apiKey } });
  // A browser drops the cookie of HTTPS on a page that came without it, and tells nobody.
  session.current = await request<Session>('GET', SESSION, {}).catch((error: unknown) => {
    if (!(error instanceof ApiError) || error.status !== 401) throw error;
    throw new ApiError(401, 'no_cookie', NO_COOKIE);
  });
}

/** Ends the session on the server, and here even where the server cannot be reached. */
export async function signOut(): Promise<void> {
  try {
    await call('DELETE', SESSION, {});
  } catch (error) {
    // It is over already.
    if (!(error instanceof ApiError) || error.status !== 401) throw error;
  } finally {
    session.current = undefined;
  }
}

export type Query = Readonly<Record<string, string | number | boolean | undefined>>;

interface Sent {
  readonly query?: Query;
  readonly body?: object;
  readonly signal?: AbortSignal;
}

/** Reads from the operator's API. */
export function read<Answer>(path: string, query: Query = {}, signal?: AbortSignal) {
  return call<Answer>('GET', OPERATOR + path, { query, ...(signal && { signal }) });
}

/** Changes something by the operator's API. */
export function act<Answer>(path: string, body: object): Promise<Answer> {
  return call<Answer>('POST', OPERATOR + path, { body });
}

/** Calls any route of `/v2`; a session that has ended leads to the sign-in. */
export async function call<Answer>(method: string, path: string, sent: Sent): Promise<Answer> {
  try {
    return await request<Answer>(method, path, sent).catch(async (error: unknown) => {
      if (!(error instanceof ApiError) || error.code !== 'csrf_token_invalid') throw error;
      // Another tab has signed in anew: the cookie is of a newer session than this page's.
      await findSession();
      return await request<Answer>(method, path, sent);
    });
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) session.current = undefined;
    throw error;
  }
}

/** What turns the order of the letters behind it. Answers are full of strangers' words: subjects, replies, names. */
const TURNS = /[\u202a-\u202e\u2066-\u2069]/g;

async function request<Answer>(method: string, path: string, sent: Sent): Promise<Answer> {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(sent.query ?? {})) {
    if (value !== undefined && value !== '') query.set(name, String(value));
  }
  const search = query.size > 0 ? `?${query}` : '';
  const token = session.current?.csrf_token;
  const response = await fetch(path + search, {
    method,
    headers: {
      accept: 'application/json',
      ...(sent.body && { 'content-type': 'application/json' }),
      ...(method !== 'GET' && token !== undefined && { 'x-csrf-token': token }),
    },
    ...(sent.body && { body: JSON.stringify(sent.body) }),
    ...(sent.signal && { signal: sent.signal }),
  }).catch((error: unknown) => {
    if (sent.signal?.aborted) throw error;
    throw new ApiError(0, 'unreachable', 'Postroom did not answer. Is it running?');
  });
  const text = await response.text();
  if (!response.ok) throw refusal(response, text);
  return text === '' ? (undefined as Answer) : JSON.parse(text.replace(TURNS, '\ufffd'));
}

/** What an answer says no with, in one text: its detail and what it says of single fields. */
function refusal(response: Response, text: string): ApiError {
  const wait = response.headers.get('retry-after');
  const after = wait === null ? '' : ` Try again in ${wait} s.`;
  try {
    const { code, title, detail, errors, request_id } = JSON.parse(text);
    const fields = Array.isArray(errors)
      ? errors.map(({ field, message }) => (field ? `${field}: ${message}` : message))
      : [];
    const said = [detail ?? title, ...fields.filter((field) => !detail?.includes(field))];
    return new ApiError(response.status, code, said.join('. ') + after, request_id);
  } catch {
    const said = `The answer was ${response.status} ${response.statusText}.`;
    return new ApiError(response.status, 'unknown', said + after);
  }
}
