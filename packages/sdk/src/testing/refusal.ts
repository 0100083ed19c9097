/** An answer that refuses, in the form of RFC 9457. */
import type { Problem } from '../api-types.ts';

type Code = Problem['code'];

/** By status; all others are 409. */
const CODES: Readonly<Record<number, readonly Code[]>> = {
  400: ['invalid_request', 'nothing_to_search'],
  401: ['unauthorized'],
  403: ['account_inactive'],
  404: [
    'route_not_found',
    'mailbox_not_found',
    'message_not_found',
    'part_not_found',
    'send_not_found',
  ],
  429: ['rate_limited'],
  503: ['unavailable'],
};

export class Refusal extends Error {
  readonly code: Code;
  readonly field: string | undefined;
  /** Seconds. */
  readonly retryAfter: number | undefined;
  readonly status: number;

  constructor(
    code: Code,
    detail: string,
    more: { field?: string; retryAfter?: number | undefined; status?: number } = {},
  ) {
    super(detail);
    this.code = code;
    this.field = more.field;
    this.retryAfter = more.retryAfter;
    const byCode = Object.entries(CODES).find(([, codes]) => codes.includes(code));
    this.status = more.status ?? Number(byCode?.[0] ?? 409);
  }

  toProblem(requestId: string): Problem {
    const { code, status, message, field } = this;
    const errors = field === undefined ? {} : { errors: [{ field, message }] };
    return {
      type: `/docs/reference/errors#${code}`,
      title: code,
      status,
      detail: message,
      code,
      ...errors,
      request_id: requestId,
    };
  }
}

export function invalid(field: string, expected: string): Refusal {
  return new Refusal('invalid_request', `${field} ${expected}`, { field });
}
