/** What an error of a connection means, in words for whoever looks after the receiver. */

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
