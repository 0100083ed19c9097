/** AUTH (RFC 4954), as far as it needs no connection: the exchange of a login, and its replies. */
import { many, type Refusal } from '../../platform/errors/errors.ts';
import {
  type GivenLogin,
  isMechanism,
  MECHANISMS,
  type Mechanism,
  readLogin,
  SaslFault,
  tokenRefusal,
} from '../../protocols/sasl/sasl.ts';
import type { Reply } from '../../protocols/smtp-client/smtp-client.ts';
import { refusalReply, reply } from './commands.ts';

/** Refused logins that end a connection. */
export const FAILED_LOGINS_MAX = 5;

/** The line of EHLO. */
export const AUTH_OFFER = `AUTH ${MECHANISMS.join(' ')}`;

/** What the client is told next. */
export type AuthAnswer =
  /** In base64; the next line of the client answers it. */
  | { readonly kind: 'challenge'; readonly text: string }
  | { readonly kind: 'ended'; readonly reply: Reply };

/** A login is judged by the owner: then {@link AuthExchange.refuse}, or the exchange is over. */
export type AuthStep = AuthAnswer | { readonly kind: 'login'; readonly given: GivenLogin };

/** One AUTH command, and the lines that follow it. */
export class AuthExchange {
  readonly #mechanism: Mechanism;
  readonly #reading: Generator<string, GivenLogin, string>;
  /** Set while the client is to answer the reason why its token was refused. */
  #refusal: Reply | undefined;

  private constructor(mechanism: Mechanism, initial: string | undefined) {
    this.#mechanism = mechanism;
    this.#reading = readLogin(mechanism, initial);
  }

  /** @param argument of AUTH */
  static begin(argument: string): AuthExchange | Reply {
    const [name = '', initial, ...more] = argument.split(' ');
    if (name === '' || more.length > 0) return reply(501, '5.5.4', 'Syntax: AUTH mechanism');
    const mechanism = name.toUpperCase();
    return isMechanism(mechanism)
      ? new AuthExchange(mechanism, initial)
      : reply(504, '5.5.4', `The mechanism is not known: ${MECHANISMS.join(', ')}`);
  }

  /** @param line of the client; left out for the first step */
  next(line = ''): AuthStep {
    if (this.#refusal) return { kind: 'ended', reply: this.#refusal };
    try {
      const step = this.#reading.next(line);
      return step.done
        ? { kind: 'login', given: step.value }
        : { kind: 'challenge', text: step.value };
    } catch (error) {
      if (!(error instanceof SaslFault)) throw error;
      return { kind: 'ended', reply: replyToFault(error) };
    }
  }

  /** What follows where the login was refused. */
  refuse(refusal: Reply): AuthAnswer {
    const text = tokenRefusal(this.#mechanism);
    if (text === undefined) return { kind: 'ended', reply: refusal };
    this.#refusal = refusal;
    return { kind: 'challenge', text };
  }
}

/** RFC 4954 section 4. */
function replyToFault({ reason, message }: SaslFault): Reply {
  if (reason === 'cancelled') return reply(501, '5.7.0', message);
  if (reason === 'malformed') return reply(501, '5.5.2', message);
  return reply(535, '5.7.8', message);
}

/** The reply to a login that was refused (RFC 4954 section 6): 535 where the same one can never succeed. */
export function loginReply(refusal: Refusal): Reply {
  const { code, retryAfter } = refusal;
  if (code === 'unauthorized') return reply(535, '5.7.8', 'Address or password is wrong');
  const { text } = refusalReply(refusal);
  // RFC 5248: a disabled account.
  if (code === 'account_inactive') return reply(535, '5.7.13', text);
  if (code !== 'rate_limited') return reply(454, '4.7.0', text);
  return reply(
    454,
    '4.7.0',
    `Too many failed logins: try again in ${many(retryAfter ?? 60, 'second')}`,
  );
}
