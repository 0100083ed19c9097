/** What calls throw: an answer that refuses, or no answer. */
import type { Problem } from './api-types.ts';

/** Codes that this version knows; a newer server may have more. */
export type ErrorCode = Problem['code'] | (string & {});

/** A field of the request that was wrong. */
export interface FieldError {
  readonly field: string;
  readonly message: string;
}

/** The server refused: an answer with a problem (RFC 9457), or one of a proxy in front of it. */
export class ApiError extends Error {
  override readonly name: string = 'ApiError';
  /** Of the answer. */
  readonly status: number;
  /** Stable, for programs. `unreadable` where the answer was not one of Postroom: a proxy's page, say. */
  readonly code: ErrorCode;
  /** What was wrong this time, in English. */
  readonly detail: string;
  /** The fields that were wrong, by their names in the request. */
  readonly errors: readonly FieldError[];
  /** To find the request in the server's log; undefined where a proxy answered. */
  readonly requestId: string | undefined;
  /** Seconds after which the server takes the next one, where it said so. */
  readonly retryAfter: number | undefined;
  /** Of `cursor_expired`: from where events can be read on. */
  readonly oldest: string | undefined;
  /** How often the request was sent. */
  readonly attempts: number;

  constructor(response: Response, text: string, attempts: number) {
    const problem = readProblem(text);
    const detail = problem?.detail ?? text.slice(0, 200).trim();
    super(`${response.status} ${problem?.code ?? 'unreadable'}: ${detail || response.statusText}`);
    this.status = response.status;
    this.code = problem?.code ?? 'unreadable';
    this.detail = detail;
    this.errors = Array.isArray(problem?.errors) ? problem.errors : [];
    this.requestId = problem?.request_id ?? response.headers.get('x-request-id') ?? undefined;
    this.retryAfter = readRetryAfter(response.headers);
    this.oldest = problem?.oldest;
    this.attempts = attempts;
  }
}

/** There was no answer: no connection, one that broke, or none within the time. */
export class ConnectionError extends Error {
  override readonly name: string = 'ConnectionError';
  /** Whether the server may have carried the request out although its answer never came. */
  readonly mayHaveHappened: boolean;
  /** How often the request was sent. */
  readonly attempts: number;

  constructor(cause: unknown, mayHaveHappened: boolean, attempts: number) {
    super(`no answer: ${describe(cause)}`, { cause });
    this.mayHaveHappened = mayHaveHappened;
    this.attempts = attempts;
  }
}

/** Whether the same call may succeed later. */
export function isPassing(error: unknown): boolean {
  if (error instanceof ConnectionError) return true;
  if (!(error instanceof ApiError)) return false;
  const { status, code, retryAfter } = error;
  // A key that is in use: the first attempt is still under way.
  const isUnderWay = status === 409 && retryAfter !== undefined;
  // The recipients of a day last for hours: whoever sends is told.
  const isOfMinute = status === 429 && code !== 'send_limit';
  // 507: an account stays full until somebody makes room, perhaps by what waits behind.
  return (status >= 500 && status !== 507) || status === 408 || isOfMinute || isUnderWay;
}

/** Statuses of proxies that say something of the request itself, or of who sent it: it would be refused again. */
const OF_REQUEST: readonly number[] = [400, 401, 413, 431];

/**
 * Whether somebody else answered, and nobody looked at the request: the page of a network that wants a login first, or of a
 * proxy whose server is away.
 */
export function isForeign({ code, status }: ApiError): boolean {
  return code === 'unreadable' && !OF_REQUEST.includes(status);
}

/** Whether the server cannot be reached now. A page that is no error comes of a network that wants a login first. */
export function isAway(error: unknown): boolean {
  if (!(error instanceof ApiError)) return error instanceof ConnectionError;
  const { status } = error;
  return [502, 503, 504].includes(status) || (isForeign(error) && status < 400);
}

/** Whether nothing is answered any more until the user signs in again. */
export function endsSession({ status, code }: ApiError): boolean {
  return status === 401 || code === 'account_inactive';
}

/**
 * Seconds until the next attempt, by the answer's Retry-After (RFC 9110 section 10.2.3): a number of them, or a date.
 */
function readRetryAfter(headers: Headers): number | undefined {
  const text = headers.get('retry-after') ?? '';
  const seconds = /^\d+$/.test(text) ? Number(text) : (Date.parse(text) - Date.now()) / 1000;
  return Number.isNaN(seconds) ? undefined : Math.max(0, seconds);
}

/** The problem of an answer; undefined where somebody else wrote it. */
function readProblem(text: string): Problem | undefined {
  try {
    const body = JSON.parse(text) as Problem | null;
    return typeof body?.code === 'string' ? body : undefined;
  } catch {
    return undefined;
  }
}

/** fetch hides the reason in a cause. */
function describe(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  return error.cause instanceof Error ? describe(error.cause) : error.message;
}
