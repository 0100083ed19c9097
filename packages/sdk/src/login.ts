/**
 * `@postroom/sdk/login`: signing in from a page, without a backend between. A login that stays has a cookie of the server
 * that no script reads; one of the tab alone has its token in the tab's storage, which a reload keeps. The password is never
 * stored.
 */
export { ApiError, ConnectionError } from './errors.ts';
export { type MailToken, SessionEnded, type TokenSource } from './mail/server.ts';

import type { Token } from './api-types.ts';
import { clientHeaders } from './client-name.ts';
import { type MailToken, SessionEnded, type TokenSource } from './mail/server.ts';
import { readBaseUrl, Transport } from './transport.ts';

/** At which server the logins are. */
export interface LoginOptions {
  /** Address of the server: `https://mail.example`. */
  readonly baseUrl: string;
  /** Name and version of your program, for the server's log: `crm/2.1`. */
  readonly app?: string;
  /** In place of the global one. */
  readonly fetch?: typeof fetch;
}

/** Who signs in, and for how long. */
export interface SignInOptions extends LoginOptions {
  readonly address: string;
  readonly password: string;
  /**
   * The browser stays signed in, until the login was not used for 30 days. Only for pages of the server's own origin. Of
   * ten accounts at most: the next one is signed in for its tab alone.
   */
  readonly remember?: boolean;
}

/** A login of this browser, or of this tab alone. */
export interface MailLogin {
  readonly address: string;
  /** Other tabs have it, too, and the next start of the browser. */
  readonly remembered: boolean;
  /** The `auth` of `openMail`. */
  readonly token: TokenSource;
  /** After `signOut()` of the client. Without a network the cookie stays until it expires, unused. */
  end(): Promise<void>;
}

/**
 * Exchanges the password of an account for a login.
 *
 * @throws ApiError where the address or the password is wrong
 * @throws ConnectionError
 * @throws TypeError for `remember` in a page of another origin: browsers keep no cookie there
 */
export async function signIn(options: SignInOptions): Promise<MailLogin> {
  const { baseUrl, password, remember = false } = options;
  const { location } = globalThis as { location?: { readonly origin: string } };
  if (remember && location && location.origin !== new URL(baseUrl).origin) {
    throw new TypeError('remember is for pages of the server’s own origin');
  }
  const logins = new Logins(options);
  const address = options.address.trim().toLowerCase();
  const slot = remember ? logins.slotFor(address) : undefined;
  const login = new StoredLogin(logins, { address, slot });
  await login.start(password);
  return login;
}

/** Logins that were not ended, of this browser and of this tab: a page opens the mail of each. */
export function keptLogins(options: LoginOptions): MailLogin[] {
  const logins = new Logins(options);
  return logins.kept.map((kept) => new StoredLogin(logins, kept));
}

/** As it is stored. */
interface KeptLogin {
  readonly address: string;
  /** Which of the browser's cookies it has; none where it is one of this tab. */
  readonly slot?: number | undefined;
  /** Of this tab. */
  readonly next?: KeptToken;
}

interface KeptToken {
  readonly token: string;
  /** Milliseconds since 1970. */
  readonly until: number;
}

/** As many logins as the server remembers for one browser. */
const SLOTS = 10;
/** Seconds before its end in which a token is not used any more: a request may take that long. */
const SPARE_S = 60;

/** What this browser and this tab have of the logins at one server. */
class Logins {
  readonly #key: string;
  readonly #transport: Transport;
  readonly #storages: readonly Storage[];

  constructor({ baseUrl, app, fetch }: LoginOptions) {
    const { localStorage, sessionStorage } = globalThis as Partial<typeof globalThis>;
    this.#key = `postroom-logins ${new URL(baseUrl).origin}`;
    this.#storages = [localStorage, sessionStorage].filter((one) => one !== undefined);
    const headers = clientHeaders(app);
    this.#transport = new Transport({ baseUrl: readBaseUrl(baseUrl), headers, fetch });
  }

  get kept(): KeptLogin[] {
    return this.#storages.flatMap((storage) => this.#read(storage));
  }

  /** The one that the account has, or a free one; undefined where all are taken. */
  slotFor(address: string): number | undefined {
    const { kept } = this;
    const taken = new Set(kept.map(({ slot }) => slot));
    const own = kept.find((one) => one.address === address && one.slot !== undefined);
    return own?.slot ?? Array.from({ length: SLOTS }, (_, at) => at).find((at) => !taken.has(at));
  }

  /** In the place that it has in the list; where it was kept otherwise, it is not any more. */
  keep(login: KeptLogin): void {
    this.#replace(login.address, login, this.#storages.at(login.slot === undefined ? -1 : 0));
  }

  drop({ address }: KeptLogin): void {
    this.#replace(address);
  }

  #replace(address: string, login?: KeptLogin, place?: Storage): void {
    for (const storage of this.#storages) {
      const before = this.#read(storage);
      const at = before.findIndex((one) => one.address === address);
      const kept = before.filter((one) => one.address !== address);
      if (login && storage === place) kept.splice(at < 0 ? kept.length : at, 0, login);
      if (kept.length === 0) storage.removeItem(this.#key);
      else storage.setItem(this.#key, JSON.stringify(kept));
    }
  }

  /** Its cookie, where it has one. */
  async forget(login: KeptLogin): Promise<void> {
    if (login.slot === undefined) return;
    await this.post('/mail/token/forget', login).catch(() => undefined);
  }

  async post<Answer>(path: string, { slot }: KeptLogin, body?: object): Promise<Answer> {
    const query = slot === undefined ? '' : `?slot=${slot}`;
    const request = { method: 'POST', path: path + query, body, takesKey: false, repeatable: true };
    return (await this.#transport.send<Answer>(request)).data;
  }

  #read(storage: Storage): KeptLogin[] {
    return JSON.parse(storage.getItem(this.#key) ?? '[]') as KeptLogin[];
  }
}

class StoredLogin implements MailLogin {
  readonly address: string;
  readonly remembered: boolean;
  readonly #logins: Logins;
  readonly #kept: KeptLogin;
  #password: string | undefined;
  #isOver = false;
  #next: KeptToken | undefined;

  constructor(logins: Logins, kept: KeptLogin) {
    this.#logins = logins;
    this.#kept = kept;
    this.#next = kept.next;
    this.address = kept.address;
    this.remembered = kept.slot !== undefined;
  }

  async start(password: string): Promise<void> {
    const before = this.#logins.kept.find(({ address }) => address === this.address);
    this.#next = await this.#ask(password);
    if (this.remembered) this.#logins.keep(this.#kept);
    else this.#password = password;
    // Who signs in for the tab alone is not remembered any more.
    if (before && !this.remembered) await this.#logins.forget(before);
  }

  readonly token = async (): Promise<MailToken> => {
    // It is given once: whoever asks again was refused with it, or it is old.
    const next = this.#next && this.#next.until > Date.now() ? this.#next : await this.#ask();
    this.#next = undefined;
    return { token: next.token, expires_in: Math.floor((next.until - Date.now()) / 1000) };
  };

  async end(): Promise<void> {
    this.#isOver = true;
    this.#password = undefined;
    this.#next = undefined;
    this.#logins.drop(this.#kept);
    await this.#logins.forget(this.#kept);
  }

  /** A token by the password, or by the cookie. */
  async #ask(password = this.#password): Promise<KeptToken> {
    const { address, slot } = this.#kept;
    if (password === undefined && slot === undefined) {
      throw new SessionEnded('the login of this tab is over');
    }
    const { token, expires_in } =
      password === undefined
        ? await this.#logins.post<Token>('/mail/token/renew', this.#kept)
        : await this.#logins.post<Token>('/mail/token', this.#kept, {
            address,
            password,
            remember: slot === undefined ? undefined : true,
          });
    const next = { token, until: Date.now() + (expires_in - SPARE_S) * 1000 };
    // It may have ended while the answer was on its way.
    if (slot === undefined && !this.#isOver) this.#logins.keep({ address, next });
    return next;
  }
}
