/**
 * Logins with a password: the account's own one, which HTTP takes, and for mail programs the app passwords too. An
 * unknown address takes as long as a wrong password, and is refused as soon after too many failures
 * (`login-limits.ts`). A password that was right lately is known.
 */

import { createHmac, randomBytes } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import type { Logger } from 'pino';
import type { Database } from '../../platform/database/database.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import { entries } from '../../platform/memory/memory.ts';
import { clientKey, type OpenLimit } from '../../platform/net/net.ts';
import type { EpochMs } from '../../platform/time/time.ts';
import { readAddress } from './account-addresses.ts';
import { findAppPassword, type MailProtocol } from './app-passwords.ts';
import type { Credentials, CredentialsReader } from './credentials.ts';
import { LoginLimits } from './login-limits.ts';
import { verifyPassword } from './passwords.ts';

/** What a client gave. */
export interface GivenPassword {
  readonly address: string;
  readonly password: string;
  /** Address of the client. */
  readonly ip: string;
}

/** An account that a mail program opened. */
interface OpenedByProgram {
  readonly credentials: Credentials;
  /** Undefined where it gave the account's own password. */
  readonly appPasswordId: number | undefined;
}

export interface PasswordLoginsOptions {
  readonly database: Database;
  readonly credentials: CredentialsReader;
  /** Where logins are counted. */
  readonly openLimit: OpenLimit;
  readonly log: Pick<Logger, 'warn' | 'error'>;
  /** Called for each login; `limited` is one whose password was not checked. */
  readonly onLogin: (result: 'succeeded' | 'failed' | 'limited') => void;
  readonly now: () => EpochMs;
}

/** Characters of a text that is not an address, used as the key of its failures. */
const UNREADABLE_MAX = 64;

export class PasswordLogins {
  readonly #options: PasswordLoginsOptions;
  readonly #limits: LoginLimits;
  readonly #known: KnownPasswords;

  constructor(options: PasswordLoginsOptions) {
    this.#options = options;
    this.#limits = new LoginLimits(options.database, options.openLimit, options.now);
    this.#known = new KnownPasswords(options.now);
  }

  /** The account of an address and its own password. @throws Refusal unauthorized, rate_limited, unavailable */
  identify(given: GivenPassword): Promise<Credentials> {
    return this.#counted(async () => this.#verify(given, await this.#find(given.address), 'http'));
  }

  /** The same for a mail program, which may give an app password. */
  identifyProgram(given: GivenPassword, protocol: MailProtocol): Promise<OpenedByProgram> {
    return this.#counted(async () => {
      const found = await this.#find(given.address);
      // Not limited: nobody guesses one, and a program that is set up wrongly must not lock the others out.
      const appPasswordId = await this.#openByApp(found, given.password, protocol);
      if (found && appPasswordId !== undefined) return { credentials: found, appPasswordId };
      return { credentials: await this.#verify(given, found, protocol), appPasswordId };
    });
  }

  async #counted<Opened>(open: () => Promise<Opened>): Promise<Opened> {
    const { onLogin } = this.#options;
    try {
      const opened = await open();
      onLogin('succeeded');
      return opened;
    } catch (error) {
      const code = error instanceof Refusal ? error.code : undefined;
      if (code === 'unauthorized') onLogin('failed');
      if (code === 'rate_limited') onLogin('limited');
      throw error;
    }
  }

  async #find(text: string): Promise<Credentials | undefined> {
    const read = readAddress(text);
    return read && this.#options.credentials.ofAddress(read);
  }

  /** @returns the id of the app password that was given, or undefined where it is none */
  async #openByApp(
    account: Credentials | undefined,
    password: string,
    protocol: MailProtocol,
  ): Promise<number | undefined> {
    const { database, log, now } = this.#options;
    // Also looked for at unknown addresses, so that these take as long.
    const found = await findAppPassword(database, account?.accountId ?? 0, password, now());
    await found?.noteUse(protocol).catch((error: unknown) => {
      log.error(
        { err: error, address: account?.address },
        'the last use of an app password could not be written: it works, but shows an older one',
      );
    });
    return found?.id;
  }

  async #verify(
    { address: text, password, ip }: GivenPassword,
    found: Credentials | undefined,
    protocol: MailProtocol | 'http',
  ): Promise<Credentials> {
    const { log } = this.#options;
    const read = readAddress(text);
    const address = read && `${read.localPart}@${read.domain}`;
    const name = address ?? text.slice(0, UNREADABLE_MAX);
    const client = clientKey(ip);
    const attempt = await this.#limits.admit({ name, accountId: found?.accountId, ip });
    const isKnown = found && this.#known.has({ account: found, password, client });
    if (isKnown) await attempt.begin();
    const matches =
      isKnown ||
      (await verifyPassword({ hash: found?.passwordHash, password, client }, () =>
        attempt.begin(),
      ));
    if (!found || !matches) {
      // A text that is not an address is not logged: it may be a password in the wrong field.
      log.warn({ address, ip, protocol }, 'login failed: address or password is wrong');
      throw new Refusal('unauthorized', 'address or password is wrong');
    }
    if (!isKnown) this.#known.add({ account: found, password, client });
    await attempt.succeed().catch((error: unknown) => {
      log.error(
        { err: error, address },
        'a login succeeded, but its client could not be remembered: the limit on failed logins still applies to the client',
      );
    });
    return found;
  }
}

const KNOWN_MS = 10 * 60 * 1000;
/** Some 200 bytes each. Only right passwords get in, after their argon2: whoever fills it slows down others by that. */
const KNOWN_MAX = 10_000;

/** A login whose password is right, or is to be checked. */
interface Login {
  readonly account: Pick<Credentials, 'accountId' | 'credentialVersion'>;
  readonly password: string;
  /** As `clientKey` names it. */
  readonly client: string;
}

/**
 * Passwords that were right lately: a mail program that connects again, and an app that signs in again, cost no argon2.
 *
 * In memory there is only an HMAC of each, with a key that ends with the process. It covers the version of the account's
 * credentials, so that a new password ends it, and the client: a guess is compared only with what its own client gave
 * before, and all others are counted before they are checked.
 */
class KnownPasswords {
  readonly #now: () => EpochMs;
  readonly #key = randomBytes(32);
  /** Until when each is known. */
  readonly #until = new LRUCache<string, EpochMs>(entries(KNOWN_MAX));

  constructor(now: () => EpochMs) {
    this.#now = now;
  }

  has(login: Login): boolean {
    return this.#now() < (this.#until.get(this.#nameOf(login)) ?? 0);
  }

  add(login: Login): void {
    this.#until.set(this.#nameOf(login), this.#now() + KNOWN_MS);
  }

  #nameOf({ account: { accountId, credentialVersion }, password, client }: Login): string {
    const text = JSON.stringify([accountId, credentialVersion, client, password]);
    return createHmac('sha256', this.#key).update(text).digest('base64');
  }
}
