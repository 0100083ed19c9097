/** Logins by SASL (RFC 4422), as IMAP and SMTP servers read them: what a client says of itself, which nobody has judged yet. */
import { Buffer } from 'node:buffer';

/** In the order in which they are offered. LOGIN is no standard: Outlook and some phones know nothing else. */
export const MECHANISMS = ['PLAIN', 'LOGIN', 'OAUTHBEARER', 'XOAUTH2'] as const;

export type Mechanism = (typeof MECHANISMS)[number];

/** What a client logs in with; nothing of it was checked. */
export type GivenLogin =
  | { readonly kind: 'password'; readonly address: string; readonly password: string }
  | { readonly kind: 'token'; readonly token: string };

/** The exchange ended without a login. */
export class SaslFault extends Error {
  override readonly name = 'SaslFault';
  readonly reason: 'cancelled' | 'malformed' | 'another account';

  constructor(reason: SaslFault['reason'], text: string) {
    super(text);
    this.reason = reason;
  }
}

/** The most characters of an answer: a token has some 300, and at most 8,192 (RFC 4954 section 4 names this limit). */
export const ANSWER_MAX = 12_288;

export function isMechanism(name: string): name is Mechanism {
  return (MECHANISMS as readonly string[]).includes(name);
}

/**
 * Reads a login. Yields each challenge, in base64; takes the line that the client answers, without its end.
 *
 * @param initial the first answer, where the client sent it with its command (SASL-IR, RFC 4959)
 * @throws SaslFault
 */
export function readLogin(
  mechanism: Mechanism,
  initial: string | undefined,
): Generator<string, GivenLogin, string> {
  if (mechanism === 'PLAIN') return plain(initial);
  return mechanism === 'LOGIN' ? inTwoSteps(initial) : bearer(initial);
}

/**
 * The challenge with the reason why a token was refused, in base64: the client answers it with an empty text, and is
 * refused then (RFC 7628 section 3.2.3).
 */
export function tokenRefusal(mechanism: Mechanism): string | undefined {
  if (mechanism === 'OAUTHBEARER') return toBase64(JSON.stringify({ status: 'invalid_token' }));
  return mechanism === 'XOAUTH2' ? toBase64(JSON.stringify({ status: '401' })) : undefined;
}

/** RFC 4616. */
function* plain(initial: string | undefined): Generator<string, GivenLogin, string> {
  const [authorize, address, password, ...more] = (yield* ask('', initial)).split('\0');
  if (address === undefined || password === undefined || more.length > 0) {
    throw new SaslFault('malformed', 'Expected three texts with NUL between them');
  }
  if (authorize && authorize !== address) {
    throw new SaslFault('another account', 'An account opens its own mailboxes only');
  }
  return { kind: 'password', address, password };
}

function* inTwoSteps(initial: string | undefined): Generator<string, GivenLogin, string> {
  const address = yield* ask('Username:', initial);
  const password = yield* ask('Password:', undefined);
  return { kind: 'password', address, password };
}

/** OAUTHBEARER (RFC 7628), and XOAUTH2, which came before it. */
function* bearer(initial: string | undefined): Generator<string, GivenLogin, string> {
  const text = yield* ask('', initial);
  const token = /\x01auth=Bearer ([^\x01]+)\x01/i.exec(text)?.[1];
  if (token === undefined) throw new SaslFault('malformed', 'Expected auth=Bearer and a token');
  return { kind: 'token', token };
}

function* ask(challenge: string, given: string | undefined): Generator<string, string, string> {
  const text = given ?? (yield toBase64(challenge));
  if (text === '*') throw new SaslFault('cancelled', 'The client cancelled');
  // "=" is an empty first answer (RFC 4954 section 4).
  if (text === '=') return '';
  if (text.length > ANSWER_MAX || !/^[A-Za-z0-9+/]*={0,2}$/.test(text)) {
    throw new SaslFault('malformed', 'Expected base64');
  }
  return Buffer.from(text, 'base64').toString();
}

function toBase64(text: string): string {
  return Buffer.from(text).toString('base64');
}
