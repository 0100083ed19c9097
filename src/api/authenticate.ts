/**
 * Who is calling: a product backend by its API key, an app by its mailbox's token.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { MailAccess, Tokens } from '../accounts/accounts.ts';
import { Refusal } from '../errors/errors.ts';

/** The hook that guards /v2: it runs before the body is read, so that a stranger sends none. */
type Guard = (request: FastifyRequest, reply: FastifyReply, done: (error?: Error) => void) => void;

/** Lets requests pass whose `x-api-key` is one of the keys. */
export function requireApiKey(keys: readonly string[]): Guard {
  const digests = keys.map(sha256);
  return (request, _reply, done) => {
    const given = request.headers['x-api-key'];
    if (typeof given !== 'string' || given === '') {
      done(new Refusal('unauthorized', 'the header x-api-key is missing'));
      return;
    }
    // Digests have one length, and every key is compared: the time tells nothing of any of them.
    const digest = sha256(given);
    let known = false;
    for (const key of digests) known = timingSafeEqual(key, digest) || known;
    done(known ? undefined : new Refusal('unauthorized', 'the API key is not valid'));
  };
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}

/** `Bearer <b64token>`; the scheme in any case (RFC 9110 section 11.1, RFC 6750 section 2.1). */
const bearer = /^bearer +([A-Za-z0-9._~+/-]+=*) *$/i;

/**
 * Finds whose mailbox the request's token opens.
 *
 * @throws Refusal unauthorized, account_inactive
 */
export async function authenticateMail(
  tokens: Tokens,
  request: FastifyRequest,
): Promise<MailAccess> {
  const field = request.headers.authorization;
  if (field === undefined) {
    throw new Refusal('unauthorized', 'the header Authorization is missing');
  }
  const token = bearer.exec(field)?.[1];
  if (token === undefined) {
    throw new Refusal('unauthorized', 'the header Authorization is not "Bearer <token>"');
  }
  return tokens.authenticate(token);
}
