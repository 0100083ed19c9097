/**
 * The failures that Postroom expects, each with a stable code, and the one table of their answers over HTTP and SMTP.
 *
 * A capability throws a {@link Refusal} for every expected failure; any other exception is a bug and is answered 500
 * (HTTP) or 451 (SMTP) without details.
 */

interface Answer {
  /** HTTP status code. */
  readonly http: number;
  /** Short human title, the same for every occurrence of the code (RFC 9457 section 3.1.3). */
  readonly title: string;
  /** SMTP reply code (RFC 5321 section 4.2) and enhanced status code (RFC 3463). */
  readonly smtp?: readonly [code: number, enhanced: `${number}.${number}.${number}`];
}

/** Every code with its answers; codes are part of the public interface and never change meaning. */
export const answers = {
  invalid_request: { http: 400, title: 'The request is not valid', smtp: [554, '5.6.0'] },
  search_too_long: { http: 400, title: 'The search is too long' },
  nothing_to_search: { http: 400, title: 'The search has no word' },
  too_many_words: { http: 400, title: 'The search has too many words' },
  too_many_prefixes: { http: 400, title: 'The search has too many prefixes' },
  prefix_too_short: { http: 400, title: 'The prefix is too short' },
  unauthorized: { http: 401, title: 'Credentials are missing or not valid' },
  account_inactive: { http: 403, title: 'The account is not active', smtp: [450, '4.2.1'] },
  csrf_token_invalid: { http: 403, title: 'The CSRF token is missing or wrong' },
  send_disabled: { http: 403, title: 'Sending is switched off', smtp: [550, '5.7.1'] },
  key_restricted: { http: 403, title: 'The API key does not allow this' },
  link_invalid: { http: 403, title: 'The link is not valid any more' },
  route_not_found: { http: 404, title: 'There is no such path' },
  domain_not_found: { http: 404, title: 'There is no such domain' },
  account_not_found: { http: 404, title: 'There is no such account', smtp: [550, '5.1.1'] },
  dns_record_not_found: { http: 404, title: 'There is no such DNS record' },
  mailbox_not_found: { http: 404, title: 'There is no such mailbox' },
  message_not_found: { http: 404, title: 'There is no such message' },
  delivery_not_found: { http: 404, title: 'There is no such delivery' },
  send_not_found: { http: 404, title: 'There is no such sent message' },
  app_password_not_found: { http: 404, title: 'The account has no such app password' },
  key_not_found: { http: 404, title: 'There is no such API key' },
  session_not_found: { http: 404, title: 'There is no such session' },
  block_not_found: { http: 404, title: 'There is no such block' },
  event_hook_not_found: { http: 404, title: 'The user has no event hook' },
  suppression_not_found: { http: 404, title: 'The address is not suppressed' },
  part_not_found: { http: 404, title: 'The message has no such part' },
  method_not_allowed: { http: 405, title: 'The path does not take this method' },
  not_acceptable: { http: 406, title: 'None of the accepted types can be sent' },
  domain_exists: { http: 409, title: 'The domain exists already' },
  mailbox_exists: { http: 409, title: 'The mailbox exists already' },
  mailbox_has_children: { http: 409, title: 'There are mailboxes below it' },
  mailbox_protected: { http: 409, title: 'The mailbox cannot be renamed or deleted' },
  uidvalidity_changed: { http: 409, title: 'The mailbox was created again' },
  address_exists: { http: 409, title: 'There is already an account with this address' },
  domain_not_active: { http: 409, title: 'The domain is not active', smtp: [550, '5.1.2'] },
  domain_not_ready: { http: 409, title: 'The domain cannot send mail yet', smtp: [451, '4.7.1'] },
  delivery_released: { http: 409, title: 'The delivery is not kept any more' },
  already_sent: { http: 409, title: 'The mail went out already' },
  idempotency_key_in_use: { http: 409, title: 'The request with this key is under way' },
  idempotency_key_reused: { http: 409, title: 'The key belongs to another request' },
  cursor_expired: { http: 410, title: 'The cursor is older than what is kept' },
  body_too_large: { http: 413, title: 'The body is too large' },
  unsupported_media_type: { http: 415, title: 'The content type is not supported' },
  range_not_satisfiable: { http: 416, title: 'The range lies outside the content' },
  mail_server_refused: { http: 422, title: 'The mail server refuses this' },
  upgrade_required: { http: 426, title: 'The path speaks WebSocket only' },
  rate_limited: { http: 429, title: 'Too many requests' },
  send_limit: { http: 429, title: 'Too many recipients in a day', smtp: [450, '4.7.1'] },
  internal: { http: 500, title: 'Something failed on our side', smtp: [451, '4.3.0'] },
  unavailable: { http: 503, title: 'The service is not available right now', smtp: [451, '4.3.0'] },

  body_unavailable: {
    http: 503,
    title: 'The source of the message cannot be read',
    smtp: [451, '4.3.0'],
  },
  not_set_up: { http: 503, title: 'Nothing is hosted here yet', smtp: [450, '4.3.5'] },
  domain_suspended: {
    http: 409,
    title: 'The domain does not accept mail for now',
    smtp: [450, '4.1.2'],
  },
  relay_denied: { http: 403, title: 'The domain is not hosted here', smtp: [550, '5.7.1'] },
  address_invalid: { http: 400, title: 'The address is not valid', smtp: [553, '5.1.3'] },
  message_too_large: { http: 413, title: 'The message is too large', smtp: [552, '5.3.4'] },
  sender_rejected: { http: 400, title: 'The sender is not who it claims', smtp: [550, '5.7.1'] },
  recipient_suppressed: { http: 409, title: 'Mail to the address bounced', smtp: [550, '5.1.1'] },
  sender_blocked: { http: 403, title: 'The sender is blocked', smtp: [550, '5.7.1'] },
  spam_rejected: { http: 400, title: 'The message looks like spam', smtp: [550, '5.7.1'] },
  sender_unclear: {
    http: 503,
    title: 'The sender cannot be checked right now',
    smtp: [451, '4.7.1'],
  },
  spam_deferred: { http: 503, title: 'The message is deferred', smtp: [451, '4.7.1'] },
  srs_invalid: { http: 400, title: 'The return address is not valid', smtp: [550, '5.7.1'] },
  mailbox_refused: {
    http: 422,
    title: 'The mail server refuses the message',
    smtp: [550, '5.2.0'],
  },
  mailbox_full: { http: 507, title: 'The mailbox is full', smtp: [552, '5.2.2'] },
  message_looping: { http: 400, title: 'The message goes round in a loop', smtp: [554, '5.4.6'] },
  quota_exceeded: { http: 507, title: 'The account is full', smtp: [452, '4.2.2'] },
  storage_full: { http: 503, title: 'There is no space left', smtp: [452, '4.3.1'] },
  too_many_connections: { http: 429, title: 'Too many connections', smtp: [421, '4.7.0'] },
  too_many_recipients: { http: 400, title: 'Too many recipients', smtp: [452, '4.5.3'] },
} as const satisfies Record<string, Answer>;

/** A stable error code. */
export type ErrorCode = keyof typeof answers;

/** One field of the input that is wrong: its path (`forward_to_email`) and what was expected. */
export interface FieldError {
  readonly field: string;
  readonly message: string;
}

interface RefusalOptions {
  readonly errors?: readonly FieldError[];
  /** Seconds after which the same call may succeed (Retry-After, RFC 9110 section 10.2.3). */
  readonly retryAfter?: number;
  /** The cursor from which reading can go on. */
  readonly oldest?: string;
  readonly cause?: unknown;
}

/** An expected failure: a stable code and one sentence that says what was wrong. */
export class Refusal extends Error {
  override readonly name = 'Refusal';
  readonly code: ErrorCode;
  readonly errors: readonly FieldError[] | undefined;
  readonly retryAfter: number | undefined;
  readonly oldest: string | undefined;

  constructor(code: ErrorCode, detail: string, options: RefusalOptions = {}) {
    super(detail, options.cause === undefined ? undefined : { cause: options.cause });
    this.code = code;
    this.errors = options.errors;
    this.retryAfter = options.retryAfter;
    this.oldest = options.oldest;
  }
}

/** Tells whether an error is a refusal with one of these codes. */
export function isRefusal(...codes: readonly ErrorCode[]): (error: unknown) => boolean {
  return (error) => error instanceof Refusal && codes.includes(error.code);
}

/** For a `catch`: the value where the error is one that is expected; any other is thrown on. */
export function when<Value>(
  isExpected: (error: unknown) => boolean,
  value: Value,
): (error: unknown) => Value {
  return (error) => {
    if (isExpected(error)) return value;
    throw error;
  };
}

/**
 * Refuses one field of the input.
 *
 * @param field path of the field as the caller wrote it
 * @param expected what was expected of it, as the end of "<field> ..."
 */
export function invalidField(field: string, expected: string): Refusal {
  return new Refusal('invalid_request', `${field} ${expected}`, {
    errors: [{ field, message: expected }],
  });
}

/** A number of things in words: `1 account`, `2 accounts`. */
export const many = (count: number, one: string, more = `${one}s`) =>
  `${count} ${count === 1 ? one : more}`;

const DATE = /^\d{4}-\d\d-\d\d$/;
/** RFC 3339 section 5.6, without leap seconds, which Date does not have. */
const TIME =
  /^(?<date>\d{4}-\d\d-\d\d)T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,9})?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)$/i;

/**
 * Reads a point in time of a request: all code uses this one reader.
 *
 * @param field path of the field as the caller wrote it
 * @param takesDate whether a date without a time is allowed; it means its midnight in UTC
 * @returns milliseconds since 1970
 * @throws Refusal invalid_request for text that is not RFC 3339, and for a day or an hour that does not exist
 */
export function readInstant(field: string, written: string, takesDate = false): number {
  const date = takesDate && DATE.test(written) ? written : TIME.exec(written)?.groups?.date;
  const midnight = date === undefined ? Number.NaN : Date.parse(date);
  const expected = takesDate
    ? 'must be a date (2026-01-31) or a time (2026-01-31T12:00:00Z)'
    : 'must be a time (2026-01-31T12:00:00Z)';
  if (Number.isNaN(midnight)) throw invalidField(field, expected);
  // Date reads the 30th of February as the 2nd of March.
  if (!new Date(midnight).toISOString().startsWith(`${date}`)) {
    throw invalidField(field, `${expected}; there is no ${date}`);
  }
  const at = Date.parse(written);
  // Answers are in UTC, where the year of a time in another zone may have five digits, or be before the first.
  if (!/^\d/.test(new Date(at).toISOString())) {
    throw invalidField(field, `${expected}, in UTC between the years 0000 and 9999`);
  }
  return at;
}

/** The answers to a refusal over HTTP and SMTP. */
interface RefusalAnswer {
  /** HTTP status code. */
  readonly http: number;
  /** Short human title (RFC 9457 section 3.1.3). */
  readonly title: string;
  /** Reply code and enhanced status code; those of `internal` for codes without their own. */
  readonly smtp: { readonly code: number; readonly enhanced: string };
}

/** The answers to a code. */
export function answerOf(code: ErrorCode): RefusalAnswer {
  const { http, title, smtp = answers.internal.smtp }: Answer = answers[code];
  return { http, title, smtp: { code: smtp[0], enhanced: smtp[1] } };
}
