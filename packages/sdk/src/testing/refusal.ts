/** An answer that refuses, in the form of RFC 9457. */
import type { Problem } from '../api-types.ts';

type Code = Problem['code'];

/** Where it is not 404 for what is not found, or 409. */
const STATUSES: Partial<Record<Code, number>> = {
  invalid_request: 400,
  nothing_to_search: 400,
  unauthorized: 401,
  account_inactive: 403,
  rate_limited: 429,
  unavailable: 503,
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
    this.status = more.status ?? STATUSES[code] ?? (code.endsWith('_not_found') ? 404 : 409);
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
