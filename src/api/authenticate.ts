/**
 * Who is calling: a product backend by its API key, an app by its mailbox's token.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import type { FastifyReply, FastifyRequest } from 'fastify';
import type { MailAccess, Tokens } from '../accounts/accounts.ts';
import { Refusal } from '../errors/errors.ts';
import { readBearer } from '../net/net.ts';

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

/**
 * Finds whose mailbox the request's token opens.
 *
 * @throws Refusal unauthorized, account_inactive
 */
export async function authenticateMail(
  tokens: Tokens,
  request: FastifyRequest,
): Promise<MailAccess> {
  const token = readBearer(request.raw);
  if (token !== undefined) return tokens.authenticate(token);
  throw new Refusal('unauthorized', 'the header Authorization is missing');
}
