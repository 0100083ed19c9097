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
      done(new Refusal('unauthorized', `the header x-api-key is missing${misplaced(request)}`));
      return;
    }
    // Digests have one length, and every key is compared: the time tells nothing of any of them.
    const digest = sha256(given);
    let known = false;
    for (const key of digests) known = timingSafeEqual(key, digest) || known;
    done(known ? undefined : refuseKey(given));
  };
}

/** `header.payload.signature` (RFC 7515 section 3.1). */
const JWT_FORM = /^[\w-]+\.[\w-]+\.[\w-]*$/;
const TOKEN_OPENS = "an account's token opens /mail and /ws, as Authorization: Bearer";

/** Judges by the form alone, so that it tells nothing of whether a credential is good elsewhere. */
function refuseKey(given: string): Refusal {
  const hint = JWT_FORM.test(given) ? `: ${TOKEN_OPENS}` : '';
  return new Refusal('unauthorized', `the API key is not valid${hint}`);
}

/** Where the credential belongs that came as Authorization. */
function misplaced({ headers: { authorization } }: FastifyRequest): string {
  if (authorization === undefined) return '';
  const isToken = JWT_FORM.test(authorization.replace(/^bearer +/i, ''));
  return isToken ? `: ${TOKEN_OPENS}` : ': send the API key there, not as Authorization';
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
  const hint = request.headers['x-api-key'] === undefined ? '' : ': an API key opens /v2 alone';
  throw new Refusal(
    'unauthorized',
    `the header Authorization is missing: send the account's token as "Authorization: Bearer <token>"${hint}`,
  );
}
