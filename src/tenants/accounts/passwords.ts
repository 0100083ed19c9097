/** Passwords of mailbox accounts: argon2id in PHC string format, which Dovecot reads as well. */
import { Buffer } from 'node:buffer';
import { randomInt } from 'node:crypto';
import { type Algorithm, hash, verify } from '@node-rs/argon2';
import { invalidField, Refusal } from '../../platform/errors/errors.ts';
import { networkKey, StrangerShares } from '../../platform/net/net.ts';
import { toOwner, type Whose } from '../domains/domains.ts';

const PASSWORD_MIN = 8;
const PASSWORD_MAX_BYTES = 1024;

/** Letters and digits that look different in every typeface: no 0 O o, 1 l I. */
const ALPHABET = 'abcdefghijkmnpqrstuvwxyzABCDEFGHJKLMNPQRSTUVWXYZ23456789';
/** 116 bits. */
const GENERATED_LENGTH = 20;

/** The library's `const enum` does not exist at run time. */
const ARGON2ID: Algorithm.Argon2id = 2;

/** OWASP's minimum for argon2id, which RFC 9106 section 4 leaves to the memory at hand. */
const COST = { algorithm: ARGON2ID, memoryCost: 19_456, timeCost: 2, parallelism: 1 };

/**
 * A run takes 19 MiB, some 30 ms, and one of the four threads that file access needs as well: three runs at once leave
 * one for files. Logins have a queue of their own, so that guesses of passwords never prevent an operator from setting
 * one.
 */
const LOGINS_AT_ONCE = 2;
const SETTINGS_AT_ONCE = 1;

/** Under way or waiting: the last login of a full line waits about 4 s, and a password change twice as long. */
const IN_LINE = 256;
/** Of one client that signs in, or one user that sets passwords. A network has as many as it leaves free, 128 alone. */
const OF_ONE = 96;

/**
 * Runs that wait for their turn. Networks and users go one after the other: whoever has a hundred runs in line does not let
 * others wait for all of them, and has his own in the order in which they came.
 */
class Line {
  readonly #shares = new StrangerShares(IN_LINE);
  readonly #atOnce: number;
  #running = 0;
  /** By network or user; the first one is next. */
  readonly #waiting = new Map<string, (() => void)[]>();

  constructor(atOnce: number) {
    this.#atOnce = atOnce;
  }

  /** @throws Refusal unavailable where too many wait already, of this party or of all */
  async run<T>(party: string, work: () => Promise<T>): Promise<T> {
    const giveBack = this.#shares.hold(party, OF_ONE);
    if (!giveBack) {
      throw new Refusal('unavailable', 'too many passwords are being checked', { retryAfter: 5 });
    }
    await this.#turnOf(networkKey(party));
    try {
      return await work();
    } finally {
      this.#passOn();
      giveBack();
    }
  }

  #turnOf(network: string): Promise<void> | undefined {
    if (this.#running < this.#atOnce) {
      this.#running++;
      return undefined;
    }
    const { promise, resolve } = Promise.withResolvers<void>();
    const waiting = this.#waiting.get(network) ?? [];
    waiting.push(resolve);
    this.#waiting.set(network, waiting);
    return promise;
  }

  #passOn(): void {
    const [first] = this.#waiting;
    if (!first) {
      this.#running--;
      return;
    }
    const [network, [next, ...others]] = first;
    this.#waiting.delete(network);
    if (others.length > 0) this.#waiting.set(network, others);
    next?.();
  }
}

const logins = new Line(LOGINS_AT_ONCE);
const settings = new Line(SETTINGS_AT_ONCE);

/** Checks a new password. @throws Refusal invalid_request for `password` */
export function checkPassword(password: string): void {
  if (Buffer.byteLength(password) > PASSWORD_MAX_BYTES) {
    throw invalidField('password', `must have at most ${PASSWORD_MAX_BYTES} bytes`);
  }
  // An accent that a keyboard wrote by itself is none.
  if ([...prepare(password)].length < PASSWORD_MIN) {
    throw invalidField('password', `must have at least ${PASSWORD_MIN} characters`);
  }
  // IMAP and SASL PLAIN end a password at NUL (RFC 4616 section 2).
  if (!password.isWellFormed() || password.includes('\0')) {
    throw invalidField('password', 'must be Unicode text without NUL');
  }
}

/**
 * A password as it is hashed (RFC 8265 section 4.2.2): the same text of another keyboard or system is the same
 * password. Vietnamese keyboards of Windows write an accent as a character of its own, others do not.
 */
function prepare(password: string): string {
  return password.replace(/\p{Zs}/gu, ' ').normalize('NFC');
}

/** A password that cannot be guessed, and is easy to read out and to type. */
export function generatePassword(): string {
  // randomInt has no modulo bias.
  return Array.from({ length: GENERATED_LENGTH }, () => ALPHABET[randomInt(ALPHABET.length)]).join(
    '',
  );
}

/**
 * The hash of a password that is set.
 *
 * @param by who sets it: an organization has one share, however many users its API key names
 * @throws Refusal unavailable under too much load
 */
export function hashPassword(password: string, by: Whose): Promise<string> {
  const { userId, organizationId } = toOwner(by);
  const party = organizationId === undefined ? userId : `organization ${organizationId}`;
  return settings.run(party, () => hash(prepare(password), COST));
}

let nobody: Promise<string> | undefined;

/** A hash that belongs to no account; made again where that failed. */
function hashOfNobody(): Promise<string> {
  nobody ??= hash(generatePassword(), COST).catch((error: unknown) => {
    nobody = undefined;
    throw error;
  });
  return nobody;
}

/** A password to check. */
interface Guess {
  /** Undefined where there is no such account: that takes as long, so that the time of an answer does not show which
   * addresses exist. */
  readonly hash: string | undefined;
  readonly password: string;
  /** Who signs in, as `clientKey` names it. */
  readonly client: string;
}

/**
 * Whether the password of a login matches the hash.
 *
 * @param begin called when it is its turn, just before the check; may throw to refuse it
 * @throws Refusal unavailable under too much load
 */
export function verifyPassword(
  { hash: passwordHash, password, client }: Guess,
  begin: () => Promise<void>,
): Promise<boolean> {
  return logins.run(client, async () => {
    await begin();
    const decoy = await hashOfNobody();
    const tooLong = Buffer.byteLength(password) > PASSWORD_MAX_BYTES;
    const given = tooLong ? '' : password;
    const prepared = prepare(given);
    const matches =
      (await verify(passwordHash ?? decoy, prepared)) ||
      // It may have been set before passwords were prepared.
      (prepared !== given && (await verify(passwordHash ?? decoy, given)));
    return matches && passwordHash !== undefined && !tooLong;
  });
}
