/**
 * Authentication: a product backend by its API key, an app by its mailbox token.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import type { FastifyRequest } from 'fastify';
import { enterTurnOf, OF_A_TURN } from '../../mailboxes/mailstore/mailstore.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import { enterTurn, type Party, readBearer } from '../../platform/net/net.ts';
import type { EpochMs } from '../../platform/time/time.ts';
import type { MailAccess, Tokens } from '../../tenants/accounts/accounts.ts';
import type { Key, KeyScope, NamedKeys } from '../../tenants/keys/keys.ts';

/** Who calls /v2, and what the call may do. */
export interface Caller extends KeyScope {
  /** As in the audit log. */
  readonly actor: string;
  /** Of a key that an operator made; undefined for those of the settings. */
  readonly keyId?: number;
}

/** What a key of the settings may do. */
export const OPERATOR_SCOPE: KeyScope = {
  scope: 'operator',
  userId: undefined,
  organizationId: undefined,
  isReadOnly: false,
};

/** A console that was signed in to with an API key. */
export interface ConsoleSession {
  readonly caller: Caller;
  /** The `x-csrf-token` of requests that change something. */
  readonly csrfToken: string;
  readonly expiresAt: EpochMs;
}

/**
 * Finds the session that a request's cookie names.
 *
 * @returns undefined where the request has no such cookie
 * @throws Refusal unauthorized where the session has ended or never existed
 */
export type FindSession = (request: FastifyRequest) => Promise<ConsoleSession | undefined>;

/** Finds the caller with an API key. @throws Refusal unauthorized */
export type Identify = (given: string) => Promise<Caller>;

/**
 * Knows the API keys that open /v2: those of the settings, and those that operators made. A key of the settings has no
 * name: in the audit log it is the first 8 hex digits of its SHA-256.
 */
export function knowKeys(keys: readonly string[], made: Pick<NamedKeys, 'open'>): Identify {
  const digests = keys.map(sha256);
  return async (given) => {
    // Digests have one length, and every key is compared: the time shows nothing about any of them.
    const digest = sha256(given);
    let known = false;
    for (const key of digests) known = timingSafeEqual(key, digest) || known;
    if (known) return { ...OPERATOR_SCOPE, actor: digest.toString('hex', 0, 4) };
    const key = await made.open(given);
    if (!key) throw refuseKey(given);
    return callerOf(key);
  };
}

/** The caller with a key that an operator made. */
export function callerOf({ id, actor, scope, userId, organizationId, isReadOnly }: Key): Caller {
  return { actor, scope, userId, organizationId, isReadOnly, keyId: id };
}

/**
 * Makes the hook that guards /v2: it runs before the body is read, so that a stranger sends none. It accepts requests
 * whose `x-api-key` is one of the keys, and, without that header, those of a signed-in console. A browser sends the
 * cookie by itself: so a change also needs the token that only the console's pages know
 * (https://cheatsheetseries.owasp.org, CSRF, "synchronizer token").
 */
export function requireKey(identify: Identify, findSession: FindSession | undefined) {
  return async (request: FastifyRequest): Promise<void> => {
    const given = request.headers['x-api-key'];
    if (typeof given === 'string' && given !== '') {
      request.caller = await identify(given);
      const waits = enterTurn(partiesOf(request.caller));
      if (waits) await waits;
      return;
    }
    const session = await findSession?.(request);
    if (!session) {
      throw new Refusal('unauthorized', `the header x-api-key is missing${misplaced(request)}`);
    }
    if (!isRead(request)) checkCsrfToken(request.headers['x-csrf-token'], session.csrfToken);
    request.caller = session.caller;
  };
}

/**
 * Whose share of the event loop a call takes: of a key of one user, or of one organization, before the body names a user, and
 * then of both. One organization has one share, however many users it names.
 */
export function partiesOf({
  userId,
  organizationId,
}: Pick<KeyScope, 'userId' | 'organizationId'>): Party[] {
  const most = OF_A_TURN.tenant;
  return [
    ...(userId === undefined ? [] : [{ name: `user ${userId}`, most }]),
    ...(organizationId === undefined ? [] : [{ name: `organization ${organizationId}`, most }]),
  ];
}

/** Methods that change nothing (RFC 9110 section 9.2.1). */
export function isRead({ method }: FastifyRequest): boolean {
  return method === 'GET' || method === 'HEAD';
}

function checkCsrfToken(given: string | string[] | undefined, expected: string): void {
  if (typeof given === 'string' && timingSafeEqual(sha256(given), sha256(expected))) return;
  throw new Refusal(
    'csrf_token_invalid',
    'with the cookie of the console, the header x-csrf-token must be the csrf_token of the session',
  );
}

/** `header.payload.signature` (RFC 7515 section 3.1). */
const JWT_FORM = /^[\w-]+\.[\w-]+\.[\w-]*$/;
const TOKEN_OPENS = "an account's token opens /mail and /ws, as Authorization: Bearer";

/** Checks only the form, so that it does not show whether a credential is valid elsewhere. */
function refuseKey(given: string): Refusal {
  const hint = JWT_FORM.test(given) ? `: ${TOKEN_OPENS}` : '';
  return new Refusal('unauthorized', `the API key is not valid${hint}`);
}

/** The right place for a credential that came as Authorization. */
function misplaced({ headers: { authorization } }: FastifyRequest): string {
  if (authorization === undefined) return '';
  const isToken = JWT_FORM.test(authorization.replace(/^bearer +/i, ''));
  return isToken ? `: ${TOKEN_OPENS}` : ': send the API key there, not as Authorization';
}

function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}

/**
 * Finds the account that the request's token opens, and waits for its turn.
 *
 * @param mailbox name of a mailbox that is to be read with it
 * @throws Refusal unauthorized, account_inactive
 */
export async function authenticateMail(
  tokens: Tokens,
  request: FastifyRequest,
  mailbox?: string,
): Promise<MailAccess> {
  const token = readBearer(request.raw);
  if (token !== undefined) {
    const user = await tokens.authenticate(token, mailbox);
    request.account = user;
    const waits = enterTurnOf(user);
    if (waits) await waits;
    return user;
  }
  const hint = request.headers['x-api-key'] === undefined ? '' : ': an API key opens /v2 alone';
  throw new Refusal(
    'unauthorized',
    `the header Authorization is missing: send the account's token as "Authorization: Bearer <token>"${hint}`,
  );
}
