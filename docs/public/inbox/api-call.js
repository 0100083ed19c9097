/** One call of the API: the request, its log entry, and the meaning of the answer. */

/** @typedef {import('./protocol-log.js').ProtocolLog} ProtocolLog */

/**
 * @typedef {object} Call
 * @property {string} [method]
 * @property {unknown} [body] sent as JSON
 * @property {Blob} [source] sent as a message, in place of a body
 * @property {string} [key] makes that the same call, made again, is carried out once
 * @property {string} [accept]
 * @property {boolean} [withCookie] the cookie of a remembered login goes along, and may be set
 * @property {AbortSignal} [signal]
 */

/** The server answered, but refused the request. */
export class Refused extends Error {
  /**
   * @param {number} status
   * @param {string} code stable code of the API's errors; empty where something else answered
   * @param {string} detail
   * @param {number | undefined} retryAfter seconds
   */
  constructor(status, code, detail, retryAfter) {
    super(detail);
    this.status = status;
    this.code = code;
    this.retryAfter = retryAfter;
  }

  /** Whether a retry after the server's waiting time may help. */
  get isBusy() {
    return this.status === 429 || this.status === 503;
  }
}

/** No answer came: no network, or no server. */
export class Unreachable extends Error {}

/**
 * @param {{ origin: string, log: ProtocolLog }} server
 * @param {string} path
 * @param {Call} call
 * @param {string} token none where it is empty
 * @returns {Promise<Response>} an answer of success
 * @throws {Refused | Unreachable}
 */
export async function callApi({ origin, log }, path, call, token) {
  const { method = 'GET', body, source, key, accept, withCookie, signal } = call;
  const type = source ? 'message/rfc822' : body !== undefined && 'application/json';
  /** @type {Record<string, string>} */
  const headers = {
    ...(accept !== undefined && { accept }),
    ...(token !== '' && { authorization: `Bearer ${token}` }),
    ...(type && { 'content-type': type }),
    ...(key !== undefined && { 'idempotency-key': key }),
  };
  const sent = source ?? (body === undefined ? undefined : JSON.stringify(body));
  const pending = log.request(method, path, headers, source ? `(${source.size} bytes)` : body);
  try {
    const response = await fetch(new URL(path, origin), {
      method,
      headers,
      // The token is the credential: the cookie is sent only where the next token is made.
      credentials: withCookie ? 'same-origin' : 'omit',
      ...(sent !== undefined && { body: sent }),
      ...(signal && { signal }),
    });
    return await judge(response, log, pending);
  } catch (error) {
    if (error instanceof Refused) throw error;
    pending.failed(error instanceof Error ? error.message : String(error));
    if (signal?.aborted) throw error;
    throw new Unreachable('The server does not answer.', { cause: error });
  }
}

/**
 * @param {Response} response
 * @param {ProtocolLog} log
 * @param {import('./protocol-log.js').PendingAnswer} pending
 */
async function judge(response, log, pending) {
  const { status, headers } = response;
  const isJson = /^application\/(problem\+)?json/.test(headers.get('content-type') ?? '');
  if (response.ok && !isJson) {
    pending.answered(status, headers, `(${headers.get('content-length') ?? 'some'} bytes)`);
    return response;
  }
  const text = await response.text();
  const answer = isJson ? JSON.parse(text) : {};
  // A token is a secret from the moment it arrives.
  if (answer.token && /\/mail\/token(\/renew)?$/.test(response.url)) log.hide(answer.token);
  pending.answered(status, headers, isJson ? text : `(${text.length} characters)`);
  if (response.ok) return new Response(text, { status, headers });
  const retryAfter = Number.parseInt(headers.get('retry-after') ?? '', 10);
  throw new Refused(
    status,
    answer.code ?? '',
    answer.detail ?? `The server answered ${status}.`,
    Number.isNaN(retryAfter) ? undefined : retryAfter,
  );
}
