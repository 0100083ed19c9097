/**
 * Tokens of one account. A user who stays signed in has a cookie that no script reads, and each token comes by it.
 * Otherwise the password is kept in memory, and the token in this tab's storage, which a reload keeps.
 */
import type { Token } from '../../sdk/src/api-types.ts';
import { Transport } from '../../sdk/src/transport.ts';

const transport = new Transport({ baseUrl: '', headers: {} });

async function post<Answer>(path: string, body?: object): Promise<Answer> {
  const request = { method: 'POST', path, body, takesKey: false, repeatable: true };
  const { data } = await transport.send<Answer>(request);
  return data;
}

/** A login of this browser; `slot` says which of its cookies, and is missing for a login of this tab alone. */
export interface Login {
  readonly address: string;
  readonly slot?: number;
}

/** As many logins as the service remembers for one browser. */
export const SLOTS = 10;

/** Seconds before its end in which a token is not used any more: a request may take that long. */
const SPARE_S = 60;

interface KeptToken extends Token {
  /** Milliseconds since 1970. */
  readonly until: number;
}

export class Session {
  readonly login: Login;
  #password: string | undefined;
  #next: KeptToken | undefined;

  constructor(login: Login) {
    this.login = login;
    const kept = sessionStorage.getItem(this.#key);
    if (kept !== null) this.#next = JSON.parse(kept) as KeptToken;
  }

  get #key(): string {
    return `postroom-webmail-token-${this.login.address}`;
  }

  get #query(): string {
    return this.login.slot === undefined ? '' : `?slot=${this.login.slot}`;
  }

  /**
   * Exchanges the password for a token.
   *
   * @throws ApiError where the address or the password is wrong
   * @throws ConnectionError
   */
  async signIn(password: string): Promise<void> {
    const { address, slot } = this.login;
    const stay = slot !== undefined && { remember: true };
    this.#keep(await post<Token>(`/mail/token${this.#query}`, { address, password, ...stay }));
    if (slot === undefined) this.#password = password;
  }

  /** A token for the client, which asks when it needs one and when the last one was refused. */
  async token(): Promise<Token> {
    const next = this.#next;
    // It is given once: whoever asks again was refused with it, or it is old.
    this.#next = undefined;
    if (next && next.until > Date.now()) return next;
    const { address } = this.login;
    const password = this.#password;
    const token =
      password === undefined
        ? await post<Token>(`/mail/token/renew${this.#query}`)
        : await post<Token>('/mail/token', { address, password });
    this.#keep(token);
    this.#next = undefined;
    return token;
  }

  /** Ends the login of this browser. Without a network its cookie stays until it expires, unused. */
  async end(): Promise<void> {
    this.#password = undefined;
    this.#next = undefined;
    sessionStorage.removeItem(this.#key);
    if (this.login.slot !== undefined) {
      await post(`/mail/token/forget${this.#query}`).catch(() => undefined);
    }
  }

  #keep(token: Token): void {
    const until = Date.now() + (token.expires_in - SPARE_S) * 1000;
    this.#next = { ...token, until };
    if (this.login.slot === undefined) {
      sessionStorage.setItem(this.#key, JSON.stringify(this.#next));
    }
  }
}
