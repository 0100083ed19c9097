/** Passwords of mailbox accounts: argon2id in PHC string format, which Dovecot reads as well. */
import { Buffer } from 'node:buffer';
import { randomInt } from 'node:crypto';
import { type Algorithm, hash, verify } from '@node-rs/argon2';
import pLimit, { type LimitFunction } from 'p-limit';
import { invalidField, Refusal } from '../errors/errors.ts';

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
const logins = pLimit(2);
const settings = pLimit(1);

/** With a full queue the last login waits about 4 s, and a password change twice as long. */
const WAITING_MAX = 256;

/** @throws Refusal unavailable where too many wait already */
async function inTurn<T>(queue: LimitFunction, run: () => Promise<T>): Promise<T> {
  if (queue.pendingCount >= WAITING_MAX) {
    throw new Refusal('unavailable', 'too many passwords are being checked', { retryAfter: 5 });
  }
  return queue(run);
}

/**
 * Checks a new password.
 *
 * @throws Refusal invalid_request for `password`
 */
export function checkPassword(password: string): void {
  if (Buffer.byteLength(password) > PASSWORD_MAX_BYTES) {
    throw invalidField('password', `must have at most ${PASSWORD_MAX_BYTES} bytes`);
  }
  if ([...password].length < PASSWORD_MIN) {
    throw invalidField('password', `must have at least ${PASSWORD_MIN} characters`);
  }
  // IMAP and SASL PLAIN end a password at NUL (RFC 4616 section 2).
  if (!password.isWellFormed() || password.includes('\0')) {
    throw invalidField('password', 'must be Unicode text without NUL');
  }
}

/** A password that cannot be guessed, and is easy to read out and to type. */
export function generatePassword(): string {
  // randomInt has no modulo bias.
  return Array.from({ length: GENERATED_LENGTH }, () => ALPHABET[randomInt(ALPHABET.length)]).join(
    '',
  );
}

/** The hash of a password that is set. @throws Refusal unavailable under too much load */
export function hashPassword(password: string): Promise<string> {
  return inTurn(settings, () => hash(password, COST));
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

/**
 * Whether the password of a login matches the hash.
 *
 * @param passwordHash undefined where there is no such account: that takes as long, so that the time of an answer does
 *   not show which addresses exist
 * @param begin called when it is its turn, just before the check; may throw to refuse it
 * @throws Refusal unavailable under too much load
 */
export function verifyPassword(
  passwordHash: string | undefined,
  password: string,
  begin: () => Promise<void>,
): Promise<boolean> {
  return inTurn(logins, async () => {
    await begin();
    const decoy = await hashOfNobody();
    const tooLong = Buffer.byteLength(password) > PASSWORD_MAX_BYTES;
    const matches = await verify(passwordHash ?? decoy, tooLong ? '' : password);
    return matches && passwordHash !== undefined && !tooLong;
  });
}
