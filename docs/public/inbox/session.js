/**
 * Who is signed in, and calls of the API in their name: the token goes along, is renewed once it is
 * refused, and a server that asks for patience gets it.
 */

/** @typedef {import('./protocol-log.js').ProtocolLog} ProtocolLog */

/** The server answered, but not with what was asked for. */
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

  /** Whether waiting as long as the server says may help. */
  get isBusy() {
    return this.status === 429 || this.status === 503;
  }
}

/** No answer came: no network, or no server. */
export class Unreachable extends Error {}

const PATIENCE = 5;
const STORED_AS = 'postroom-inbox';

/**
 * @typedef {object} SessionOptions
 * @property {string} origin where the API is, such as `https://mail.example`
 * @property {ProtocolLog} log
 * @property {Storage} [storage] keeps the token over a reload; nothing is kept where left out
 * @property {(seconds: number) => void} [onWait] the server asked us to wait
 */

/**
 * @typedef {object} Call
 * @property {string} [method]
 * @property {unknown} [body] sent as JSON
 * @property {string} [accept]
 * @property {AbortSignal} [signal]
 */

export class Session {
  token = '';
  /** The mailbox's address; empty until the server has said it. */
  account = '';
  #password = '';
  #login = '';
  /** @type {Promise<boolean> | undefined} */
  #renewal;

  /** @param {SessionOptions} options */
  constructor(options) {
    this.options = options;
  }

  // #region sign-in
  /**
   * A token for whoever knows the password. The password is kept in memory alone, to get the next
   * token when this one has expired; a reload forgets it.
   *
   * @param {string} address
   * @param {string} password
   */
  async signIn(address, password) {
    const token = await this.#fetchToken(address, password);
    // Somebody else must not see what is cached of the account before.
    if (address.toLowerCase() !== this.account) this.account = '';
    this.#login = address;
    this.#password = password;
    this.#keep(token);
  }

  /**
   * Signs in with a token that somebody else made. One call shows whether it is good.
   *
   * @param {string} token
   */
  async useToken(token) {
    this.options.log.hide(token);
    await this.#send('/mail/sync', { method: 'POST', body: { limit: 1 } }, token);
    this.#password = '';
    this.account = '';
    this.#keep(token);
  }

  /** A new token in place of one that was refused; false where nobody can get one. */
  renew() {
    // Several calls may be refused at the same time: one of them fetches the token for all.
    this.#renewal ??= this.#renew().finally(() => {
      this.#renewal = undefined;
    });
    return this.#renewal;
  }

  async #renew() {
    if (this.#password === '') return false;
    try {
      this.#keep(await this.#fetchToken(this.#login, this.#password));
      return true;
    } catch (error) {
      if (!(error instanceof Refused) || error.isBusy) throw error;
      this.#password = '';
      return false;
    }
  }

  /**
   * @param {string} address
   * @param {string} password
   * @returns {Promise<string>}
   */
  async #fetchToken(address, password) {
    this.options.log.hide(password);
    const body = { address, password };
    const response = await this.#send('/mail/token', { method: 'POST', body }, '');
    const { token } = await response.json();
    return token;
  }
  // #endregion sign-in

  // #region request
  /**
   * One call of the API. An expired token is renewed once; `Retry-After` is waited for.
   *
   * @param {string} path
   * @param {Call} [call]
   * @returns {Promise<Response>} an answer of success
   * @throws {Refused | Unreachable}
   */
  async request(path, call = {}) {
    let renewed = false;
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#send(path, call, this.token);
      } catch (error) {
        if (!(error instanceof Refused)) throw error;
        if (error.status === 401 && !renewed && (await this.renew())) {
          renewed = true;
        } else if (error.isBusy && error.retryAfter !== undefined && attempt < PATIENCE) {
          this.options.onWait?.(error.retryAfter);
          await pause(error.retryAfter, call.signal);
        } else {
          throw error;
        }
      }
    }
  }
  // #endregion request

  /**
   * @param {string} path
   * @param {Call} [call]
   * @returns {Promise<any>} the answer, of the shape that the API's description says
   */
  async json(path, call = {}) {
    const response = await this.request(path, call);
    return await response.json();
  }

  /** @param {string} account as `hello` says it */
  remember(account) {
    this.account = account;
    this.#keep(this.token);
  }

  /** The session that this tab had before it was loaded again. */
  restore() {
    const kept = this.options.storage?.getItem(STORED_AS);
    if (!kept) return false;
    /** @type {{ token: string, account: string }} */
    const { token, account } = JSON.parse(kept);
    this.options.log.hide(token);
    this.token = token;
    this.account = account;
    return true;
  }

  forget() {
    this.token = '';
    this.account = '';
    this.#password = '';
    this.options.storage?.removeItem(STORED_AS);
  }

  /** @param {string} token */
  #keep(token) {
    this.options.log.hide(token);
    this.token = token;
    this.options.storage?.setItem(STORED_AS, JSON.stringify({ token, account: this.account }));
  }

  /**
   * @param {string} path
   * @param {Call} call
   * @param {string} token
   */
  async #send(path, { method = 'GET', body, accept, signal }, token) {
    /** @type {Record<string, string>} */
    const headers = {
      ...(accept !== undefined && { accept }),
      ...(token !== '' && { authorization: `Bearer ${token}` }),
      ...(body !== undefined && { 'content-type': 'application/json' }),
    };
    const pending = this.options.log.request(method, path, headers, body);
    try {
      const response = await fetch(new URL(path, this.options.origin), {
        method,
        headers,
        // The token is the only credential: no cookies, nothing for another site to abuse.
        credentials: 'omit',
        ...(body !== undefined && { body: JSON.stringify(body) }),
        ...(signal && { signal }),
      });
      return await this.#judge(response, pending);
    } catch (error) {
      if (error instanceof Refused) throw error;
      pending.failed(error instanceof Error ? error.message : String(error));
      if (signal?.aborted) throw error;
      throw new Unreachable('The server does not answer.', { cause: error });
    }
  }

  /**
   * @param {Response} response
   * @param {import('./protocol-log.js').PendingAnswer} pending
   */
  async #judge(response, pending) {
    const { status, headers } = response;
    const isJson = /^application\/(problem\+)?json/.test(headers.get('content-type') ?? '');
    if (response.ok && !isJson) {
      pending.answered(status, headers, `(${headers.get('content-length') ?? 'some'} bytes)`);
      return response;
    }
    const text = await response.text();
    const answer = isJson ? JSON.parse(text) : {};
    // The answer of /mail/token is a secret from its first appearance on.
    if (response.url.endsWith('/mail/token') && answer.token) this.options.log.hide(answer.token);
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
}

/**
 * @param {number} seconds
 * @param {AbortSignal} [signal]
 * @returns {Promise<void>}
 */
function pause(seconds, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, seconds * 1000);
    signal?.addEventListener('abort', () => {
      clearTimeout(timer);
      reject(signal.reason);
    });
  });
}
