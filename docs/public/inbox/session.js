/**
 * The signed-in account, and its calls of the API: the token is sent along, is renewed when it is refused, and the
 * waiting time that a server asks for is kept.
 */
import { callApi, Refused } from './api-call.js';

/** @typedef {import('./protocol-log.js').ProtocolLog} ProtocolLog */

const PATIENCE = 5;
const STORED_AS = 'postroom-inbox';

/**
 * @typedef {object} SessionOptions
 * @property {string} origin where the API is, such as `https://mail.example`
 * @property {ProtocolLog} log
 * @property {Storage} [storage] keeps the token over a reload; nothing is kept where left out
 * @property {Storage} [device] keeps who stays signed in on this device; nobody does where left out
 * @property {(seconds: number) => void} [onWait] the server asked us to wait
 */

/** @typedef {import('./api-call.js').Call} Call */

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
   * Gets a token by the password. To get the next token when this one has expired, the password is kept in memory
   * only: a reload loses it. A user who stays signed in on this device has a cookie for that, which no script can
   * read.
   *
   * @param {string} address
   * @param {string} password
   * @param {boolean} [stay]
   */
  async signIn(address, password, stay = false) {
    // The user who was remembered here before is signed out.
    await this.#forgetDevice();
    const token = await this.#fetchToken(address, password, stay);
    // Another user must not see the cache of the account before.
    if (address.toLowerCase() !== this.account) this.account = '';
    this.#login = address;
    this.#password = stay ? '' : password;
    if (stay) this.options.device?.setItem(STORED_AS, this.account);
    this.#keep(token);
  }

  /**
   * Signs in with a token from elsewhere. One call shows whether it is valid.
   *
   * @param {string} token
   */
  async useToken(token) {
    this.options.log.hide(token);
    await this.#send('/mail/sync', { method: 'POST', body: { limit: 1 } }, token);
    await this.#forgetDevice();
    this.#password = '';
    this.account = '';
    this.#keep(token);
  }

  /** A new token in place of a refused one; false where none can be had. */
  renew() {
    // Several calls may be refused at the same time: one of them fetches the token for all.
    this.#renewal ??= this.#renew().finally(() => {
      this.#renewal = undefined;
    });
    return this.#renewal;
  }

  async #renew() {
    if (this.#password === '' && !this.#isRemembered) return false;
    try {
      const token = this.#isRemembered
        ? await this.#post('/mail/token/renew', { withCookie: true })
        : await this.#fetchToken(this.#login, this.#password);
      this.#keep(token);
      return true;
    } catch (error) {
      if (!(error instanceof Refused) || error.isBusy) throw error;
      this.#password = '';
      this.options.device?.removeItem(STORED_AS);
      return false;
    }
  }

  /**
   * @param {string} address
   * @param {string} password
   * @param {boolean} [stay]
   */
  #fetchToken(address, password, stay = false) {
    this.options.log.hide(password);
    const body = { address, password, ...(stay && { remember: true }) };
    return this.#post('/mail/token', { body, withCookie: stay });
  }

  /**
   * @param {string} path
   * @param {Call} call
   * @returns {Promise<string>} the token of the answer
   */
  async #post(path, call) {
    const response = await this.#send(path, { method: 'POST', ...call }, '');
    const { token } = await response.json();
    return token;
  }

  /** Whether a user stays signed in on this device. */
  get #isRemembered() {
    return typeof this.options.device?.getItem(STORED_AS) === 'string';
  }

  /** The session of the user who stays signed in on this device, in a tab that has none yet. */
  async resume() {
    if (!this.#isRemembered) return false;
    this.account = this.options.device?.getItem(STORED_AS) ?? '';
    // No answer now ends nothing: the cache is shown, and the connection is tried again.
    return await this.renew().catch(() => true);
  }

  /** Ends the login of the cookie. Without an answer the cookie stays, but nothing here uses it. */
  async #forgetDevice() {
    if (!this.#isRemembered) return;
    this.options.device?.removeItem(STORED_AS);
    const call = { method: 'POST', withCookie: true };
    await this.#send('/mail/token/forget', call, '').catch(() => undefined);
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
    if (this.#isRemembered) this.options.device?.setItem(STORED_AS, account);
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

  /** Signs out. */
  async forget() {
    this.token = '';
    this.account = '';
    this.#password = '';
    this.options.storage?.removeItem(STORED_AS);
    await this.#forgetDevice();
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
  #send(path, call, token) {
    return callApi(this.options, path, call, token);
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
