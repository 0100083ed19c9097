/**
 * Mailbox tokens (JWT, RFC 7519): who may open which mailbox, decided again at every call.
 *
 * There are two kinds. Our own tokens are signed with the secret and name an account by its id and credential version
 * (`postroom_account`, `postroom_credential`). All others, signed with the operator's key or with the secret but
 * without those claims, name an address. If the address had another account before, only tokens with the time of
 * their issue (`iat`) open it.
 */
import type { JWTPayload } from 'jose';
import { LRUCache } from 'lru-cache';
import type { Logger } from 'pino';
import type { MailboxRow } from '../../mailboxes/mailstore/mailstore.ts';
import type { Database } from '../../platform/database/database.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import { entries } from '../../platform/memory/memory.ts';
import type { OpenLimit } from '../../platform/net/net.ts';
import { type EpochMs, SECOND_MS, startOf } from '../../platform/time/time.ts';
import { type MailAddress, readAddress } from './account-addresses.ts';
import type { MailProtocol } from './app-passwords.ts';
import { type Credentials, CredentialsReader } from './credentials.ts';
import { afterLastToken } from './delete-accounts.ts';
import { type GivenPassword, PasswordLogins } from './password-logins.ts';
import { RememberedLogins, refuseRemembered } from './remembered-logins.ts';
import {
  BELIEVED_MS,
  CLOCK_SKEW_SECONDS,
  refuseToken,
  TokenKeys,
  type TokenKeysOptions,
  type VerifiedToken,
} from './token-keys.ts';

export interface TokensOptions extends TokenKeysOptions {
  readonly database: Database;
  /** Where logins are counted. */
  readonly openLimit: OpenLimit;
  readonly log: Logger;
  /** Called for each login with a password; `limited` is one whose password was not checked. */
  readonly onLogin?: (result: 'succeeded' | 'failed' | 'limited') => void;
  /** The claim with the address in tokens that are not ours; `sub` by default. */
  readonly accountClaim?: string | undefined;
  /** Of our own tokens; an hour by default. */
  readonly lifetimeSeconds?: number | undefined;
  readonly now?: () => EpochMs;
}

export interface IssuedToken {
  readonly token: string;
  /** Seconds. */
  readonly expiresIn: number;
}

/** A token for a browser that remembers the login. */
export interface RememberedToken extends IssuedToken {
  /** Used once to get the next token ({@link Tokens.renew}). */
  readonly remembered: string;
}

/** The mailbox account that a token or a password opens. */
export interface MailAccess {
  readonly accountId: number;
  readonly address: string;
  /** The user whose account it is. */
  readonly userId: string;
  /** The account's version when that was checked; a new password ends connections with an older one. */
  readonly credentialVersion: number;
  /** When the token expires; never where a password was given. */
  readonly expiresAt: EpochMs;
  /** The app password that opened it; absent where something else did. */
  readonly appPasswordId?: number;
  /** The mailbox that was asked for, as it is now; undefined where the account has none of that name. */
  readonly mailbox?: MailboxRow;
}

interface OwnClaims {
  readonly kind: 'account';
  readonly accountId: number;
  /** The address of the same account, to verify the id. */
  readonly address: string;
  readonly credentialVersion: number;
  readonly expiresAt: number;
}

interface AddressClaims {
  readonly kind: 'address';
  readonly address: MailAddress;
  /** Undefined where the token has no `iat`. */
  readonly issuedAt: number | undefined;
  readonly expiresAt: number;
}

type Claims = OwnClaims | AddressClaims;

/** Only our own tokens have claims with these names. */
const ACCOUNT_CLAIM = 'postroom_account';
const CREDENTIAL_CLAIM = 'postroom_credential';

const SKEW_MS = CLOCK_SKEW_SECONDS * SECOND_MS;
const LIFETIME_SECONDS = 3600;
/** Tokens whose signature is not verified again; about 600 bytes each: 6 MB, and 20 MB at most. */
const KNOWN_MAX = 10_000;
/** Our own tokens have some 300 characters; a much longer token is verified each time. */
const KNOWN_LENGTH_MAX = 2_048;
/** The last instant of a Date; `exp` may be any number. */
const TIME_MAX = 8.64e15;

function readOwnClaims(payload: JWTPayload, expiresAt: number): OwnClaims {
  const { [ACCOUNT_CLAIM]: accountId, [CREDENTIAL_CLAIM]: credentialVersion } = payload;
  if (typeof accountId !== 'number' || typeof credentialVersion !== 'number') {
    throw refuseToken('names its account in a form that is not ours');
  }
  if (!Number.isSafeInteger(accountId)) throw refuseToken('names no account');
  if (typeof payload.sub !== 'string') throw refuseToken('names no address');
  return { kind: 'account', accountId, address: payload.sub, credentialVersion, expiresAt };
}

/** Issues mailbox tokens, and tells whom a token lets in. */
export class Tokens {
  readonly #credentials: CredentialsReader;
  readonly #keys: TokenKeys;
  readonly #accountClaim: string;
  readonly #lifetimeSeconds: number;
  readonly #passwords: PasswordLogins;
  readonly #logins: RememberedLogins;
  readonly #now: () => number;
  /** Tokens whose verified signature is trusted for some minutes. */
  readonly #verified = new LRUCache<string, { claims: Claims; until: number }>(entries(KNOWN_MAX));

  constructor(options: TokensOptions) {
    this.#credentials = new CredentialsReader(options.database);
    this.#keys = new TokenKeys(options);
    this.#accountClaim = options.accountClaim ?? 'sub';
    this.#lifetimeSeconds = options.lifetimeSeconds ?? LIFETIME_SECONDS;
    this.#now = options.now ?? Date.now;
    const { database, secret, log, openLimit, onLogin = () => {} } = options;
    const now = this.#now;
    const credentials = this.#credentials;
    this.#passwords = new PasswordLogins({ database, credentials, openLimit, log, onLogin, now });
    this.#logins = new RememberedLogins({ database, secret, log, now });
  }

  /** A token for an account. @throws Refusal account_not_found, account_inactive */
  async issue({ id }: { readonly id: number }): Promise<IssuedToken> {
    const credentials = await this.#credentials.ofAccount(id);
    if (!credentials) throw new Refusal('account_not_found', `there is no account ${id}`);
    return this.#sign(credentials);
  }

  /**
   * A token in exchange for the account's password (`password-logins.ts`).
   *
   * @param ip address of the client
   * @throws Refusal unauthorized, account_inactive where the password is right, rate_limited,
   *   unavailable
   */
  async login(address: string, password: string, ip: string): Promise<IssuedToken> {
    return this.#sign(await this.#passwords.identify({ address, password, ip }));
  }

  /** Like {@link login}, and remembered for 30 days (`remembered-logins.ts`). */
  async loginRemembered(address: string, password: string, ip: string): Promise<RememberedToken> {
    const credentials = await this.#passwords.identify({ address, password, ip });
    const issued = await this.#sign(credentials);
    return { ...issued, remembered: await this.#logins.begin(credentials) };
  }

  /**
   * A token in exchange for a remembered login, and the text that replaces it.
   *
   * @throws Refusal unauthorized where the login has ended, account_inactive
   */
  async renew(remembered: string): Promise<RememberedToken> {
    const { accountId, credentialVersion, next } = await this.#logins.renew(remembered);
    const credentials = await this.#credentials.ofAccount(accountId);
    if (credentials?.credentialVersion !== credentialVersion) {
      await this.#logins.forget(next);
      throw refuseRemembered();
    }
    return { ...(await this.#sign(credentials)), remembered: next };
  }

  /** Ends a remembered login; does nothing where there is none. */
  forget(remembered: string): Promise<void> {
    return this.#logins.forget(remembered);
  }

  /** Removes remembered logins that have ended; returns how many. */
  forgetOldLogins(): Promise<number> {
    return this.#logins.forgetOld();
  }

  /**
   * Opens an account to a mail program, by the account's password or an app password: IMAP and submission log in here.
   *
   * @throws Refusal unauthorized, account_inactive where the password is right, rate_limited,
   *   unavailable
   */
  async checkMailPassword(given: GivenPassword, protocol: MailProtocol): Promise<MailAccess> {
    const { credentials, appPasswordId } = await this.#passwords.identifyProgram(given, protocol);
    const opened = accessOf(credentials, Number.POSITIVE_INFINITY);
    return { ...opened, ...(appPasswordId !== undefined && { appPasswordId }) };
  }

  /**
   * Opens the account that a token names, in its current state.
   *
   * @param name of a mailbox that the caller is to read next: it comes with the account
   * @throws Refusal unauthorized, account_inactive, unavailable
   */
  async authenticate(token: string, name?: string): Promise<MailAccess> {
    const claims = this.#known(token) ?? (await this.#read(token));
    const credentials =
      claims.kind === 'account'
        ? checkOwn(claims, await this.#credentials.ofAccount(claims.accountId, name))
        : this.#checkAddress(claims, await this.#credentials.ofAddress(claims.address, name));
    const { mailbox } = credentials;
    return { ...accessOf(credentials, claims.expiresAt), ...(mailbox && { mailbox }) };
  }

  /** Claims of a token whose signature was verified lately. */
  #known(token: string): Claims | undefined {
    const now = this.#now();
    const known = this.#verified.get(token);
    if (!known || now >= known.until) return undefined;
    if (now < known.claims.expiresAt + SKEW_MS) return known.claims;
    throw refuseToken('is expired');
  }

  /** Claims of a token whose signature and times are valid. */
  async #read(token: string): Promise<Claims> {
    const now = this.#now();
    const claims = this.#interpret(await this.#keys.verify(token, now), now);
    if (token.length <= KNOWN_LENGTH_MAX) {
      this.#verified.set(token, { claims, until: now + BELIEVED_MS });
    }
    return claims;
  }

  #interpret({ bySecret, payload }: VerifiedToken, now: number): Claims {
    const expiresAt = Math.min((payload.exp ?? 0) * SECOND_MS, TIME_MAX);
    if (bySecret && (ACCOUNT_CLAIM in payload || CREDENTIAL_CLAIM in payload)) {
      return readOwnClaims(payload, expiresAt);
    }
    const named = payload[this.#accountClaim];
    const address = typeof named === 'string' ? readAddress(named) : undefined;
    if (!address) throw refuseToken(`has no address in its ${this.#accountClaim} claim`);
    const issuedAt = payload.iat === undefined ? undefined : payload.iat * SECOND_MS;
    // A token from the future could be valid after its account ended, in the time of the next account.
    if (issuedAt !== undefined && issuedAt > now + SKEW_MS)
      throw refuseToken('was issued in the future');
    return { kind: 'address', address, issuedAt, expiresAt };
  }

  #checkAddress({ issuedAt }: AddressClaims, credentials: Credentials | undefined): Credentials {
    if (!credentials) throw refuseToken('names no account of ours');
    if (issuedAt === undefined) {
      // The address never had another account, so the token can only mean this one.
      if (credentials.tokensFrom === 0) return credentials;
      throw refuseToken('has no iat claim, and the address had another account before');
    }
    // No tolerance for clocks here, in either direction: it would open a new account to tokens from the last seconds of
    // the earlier one.
    const { tokensFrom, activeSince } = credentials;
    if (tokensFrom > 0 && issuedAt > this.#now()) {
      throw refuseToken('was issued in the future, and the address had another account before');
    }
    // Where another claim had the address until this one became active, its last tokens count as well.
    const claimFrom =
      tokensFrom > 0 ? afterLastToken(activeSince) : startOf(SECOND_MS, activeSince);
    const from = Math.max(startOf(SECOND_MS, credentials.createdAt), tokensFrom, claimFrom);
    if (issuedAt < from) throw refuseToken('was issued before the account was there');
    return credentials;
  }

  async #sign(credentials: Credentials): Promise<IssuedToken> {
    refuseSuspended(credentials);
    const { accountId, address, credentialVersion } = credentials;
    const token = await this.#keys.sign(
      {
        sub: address,
        [ACCOUNT_CLAIM]: accountId,
        [CREDENTIAL_CLAIM]: credentialVersion,
      },
      this.#now(),
      this.#lifetimeSeconds,
    );
    return { token, expiresIn: this.#lifetimeSeconds };
  }
}

function checkOwn(
  { address, credentialVersion }: OwnClaims,
  credentials: Credentials | undefined,
): Credentials {
  if (!credentials) throw refuseToken('names an account that was deleted');
  if (credentials.address !== address) throw refuseToken('names two different accounts');
  if (credentials.credentialVersion !== credentialVersion) {
    throw refuseToken('was issued before the password was reset');
  }
  return credentials;
}

/** @throws Refusal account_inactive */
function accessOf(credentials: Credentials, expiresAt: EpochMs): MailAccess {
  refuseSuspended(credentials);
  const { accountId, address, userId, credentialVersion } = credentials;
  return { accountId, address, userId, credentialVersion, expiresAt };
}

function refuseSuspended({ status }: Credentials): void {
  if (status === 'suspended') throw new Refusal('account_inactive', 'the account is suspended');
}
