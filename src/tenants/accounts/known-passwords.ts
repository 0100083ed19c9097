/**
 * Passwords that were right lately: a mail program that connects again, and an app that signs in again, cost no argon2.
 *
 * In memory there is only an HMAC of each, with a key that ends with the process. It covers the version of the account's
 * credentials, so that a new password ends it, and the client: a guess is compared only with what its own client gave
 * before, and all others are counted before they are checked.
 */
import { createHmac, randomBytes } from 'node:crypto';
import { LRUCache } from 'lru-cache';
import { entries } from '../../platform/memory/memory.ts';
import type { EpochMs } from '../../platform/time/time.ts';
import type { Credentials } from './credentials.ts';

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

export class KnownPasswords {
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
