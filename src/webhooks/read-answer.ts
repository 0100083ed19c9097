/** What a receiver's answer means, or the error that came in place of one. */

/** Days and months as dates of HTTP have them. */
const DATE =
  /^(?:[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4}|[A-Z][a-z]{5,8}, \d{2}-[A-Z][a-z]{2}-\d{2}) \d{2}:\d{2}:\d{2} GMT$/;
const ASCTIME = /^[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d{2}:\d{2}:\d{2} \d{4}$/;

/**
 * Reads a Retry-After field (RFC 9110 section 10.2.3): seconds, or a date in one of the three forms
 * of RFC 9110 section 5.6.7.
 *
 * @param now milliseconds since 1970
 * @returns seconds from now, at least 0; undefined where there is no readable field
 */
export function readRetryAfter(field: string | undefined, now: number): number | undefined {
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

/** One sentence without a stack; what is not known goes by its code. */
export function explainFailure(error: unknown): string {
  const code = codeOf(error);
  // Its message says what is to be said, and no more.
  if (code === 'ADDRESS_REFUSED' && error instanceof Error) return error.message;
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
