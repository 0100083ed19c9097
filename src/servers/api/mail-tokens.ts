/**
 * `POST /mail/token`: exchanges a mailbox's address and password for a token; a browser that remembers the login gets
 * the next token by its cookie.
 */
import type { FastifyReply, FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { type ErrorCode, Refusal } from '../../platform/errors/errors.ts';
import {
  type IssuedToken,
  REMEMBERED_SECONDS,
  type RememberedToken,
  type Tokens,
} from '../../tenants/accounts/accounts.ts';
import { HostCookie } from './host-cookie.ts';
import { type Api, credentials, LOGIN_COOKIE, type RouteGroup } from './route-tools.ts';
import { Flag, Integer, Text } from './schemas.ts';

/** A token and its lifetime; the same in both ways to get one. */
export const TokenBody = Type.Object(
  {
    token: Text(
      'JWT, for `Authorization: Bearer`.',
      'eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhZGFAYWNtZS50ZXN0In0.c2lnbmF0dXJl',
    ),
    expires_in: Integer('Seconds.', 3600),
  },
  { title: 'Token', description: 'Opens one mailbox account until it expires.' },
);

export function writeToken(issued: IssuedToken): Type.Static<typeof TokenBody> {
  return { token: issued.token, expires_in: issued.expiresIn };
}

/** Which of the logins that one browser remembers; a browser has ten, so that several accounts are open in it. */
const SLOTS = 10;
const SlotQuery = Type.Object({
  slot: Type.Optional(
    Type.Integer({
      minimum: 0,
      maximum: SLOTS - 1,
      description: 'Which of the ten logins that a browser remembers; 0 when left out.',
    }),
  ),
});

/** An address and a password have at most this many characters; longer ones are not read. */
const CREDENTIAL_MAX = 1024;

/** @param publicUrl of the service: with HTTPS, cookies are sent only by HTTPS */
export function tokenRoutes(tokens: Tokens, publicUrl: () => string): RouteGroup {
  return (app) => {
    const slots = Array.from({ length: SLOTS }, (_, slot) => new LoginCookies(publicUrl, slot));
    // The schema of the query has made sure of the number.
    const cookiesOf = ({ slot = 0 }: { slot?: number }) => slots[slot] as LoginCookies;
    app.post('/mail/token', {
      config: { refusals: ['unauthorized', 'account_inactive'], compress: false },
      schema: {
        summary: 'Log in to a mailbox',
        description:
          'Exchanges the address and password of an account for a token. After 10 failures from one client, or 100 from clients that never logged in to the account, it answers 429 for a while. With `remember: true` a browser gets a cookie for POST /mail/token/renew.',
        operationId: 'login',
        security: credentials.none,
        querystring: SlotQuery,
        body: Type.Object({
          address: Type.String({
            minLength: 1,
            maxLength: CREDENTIAL_MAX,
            examples: ['ada@acme.test'],
          }),
          password: Type.String({
            minLength: 1,
            maxLength: CREDENTIAL_MAX,
            examples: ['correct horse'],
          }),
          remember: Type.Optional(
            Flag('Sets a cookie. It expires when it was not used for 30 days.'),
          ),
        }),
        response: { 200: TokenBody },
      },
      handler: async (request, reply) => {
        const { address, password, remember } = request.body;
        if (!remember)
          return writeToken(await tokens.login(address, password, request.clientAddress));
        const issued = await tokens.loginRemembered(address, password, request.clientAddress);
        return cookiesOf(request.query).answer(issued, request, reply);
      },
    });
    addRenewAndForget(app, tokens, cookiesOf);
  };
}

/** Refusals that end a remembered login. */
const isOver: ReadonlySet<ErrorCode> = new Set(['unauthorized', 'account_inactive']);

type CookiesOf = (query: { slot?: number }) => LoginCookies;

function addRenewAndForget(app: Api, tokens: Tokens, cookiesOf: CookiesOf): void {
  app.post('/mail/token/renew', {
    config: { refusals: ['account_inactive'], compress: false },
    schema: {
      summary: 'Renew a token without the password',
      description:
        'Needs the cookie of POST /mail/token, and sets the next one. Each cookie is accepted once. Using one that was replaced more than a minute ago ends the login. A password reset, a suspension, and 30 days without a renewal end it too.',
      operationId: 'renewToken',
      security: credentials.cookie,
      querystring: SlotQuery,
      response: { 200: TokenBody },
    },
    handler: async (request, reply) => {
      const cookies = cookiesOf(request.query);
      const remembered = cookies.read(request);
      const renewed = await renewAny(tokens, remembered).catch((error: unknown) => {
        // The browser drops an ended login; a database that does not answer ends nothing.
        const dropped = remembered.length > 0 && endsLogin(error);
        if (dropped) cookies.set('', request, reply);
        throw error;
      });
      return cookies.answer(renewed, request, reply);
    },
  });
  app.post('/mail/token/forget', {
    schema: {
      summary: 'Forget a login',
      description:
        'Ends the login of the cookie, and removes the cookie. Tokens stay valid until they expire.',
      operationId: 'forgetLogin',
      security: credentials.none,
      querystring: SlotQuery,
      response: { 200: Type.Object({ ok: Type.Literal(true) }) },
    },
    handler: async (request, reply) => {
      const cookies = cookiesOf(request.query);
      for (const remembered of cookies.read(request)) await tokens.forget(remembered);
      cookies.set('', request, reply);
      return { ok: true as const };
    },
  });
}

function endsLogin(error: unknown): error is Refusal {
  return error instanceof Refusal && isOver.has(error.code);
}

/** Renews by the first valid cookie: another host of the domain may have set one of the same name. */
async function renewAny(tokens: Tokens, remembered: readonly string[]): Promise<RememberedToken> {
  let refusal = new Refusal('unauthorized', `there is no cookie ${LOGIN_COOKIE}: sign in`);
  for (const [index, text] of remembered.entries()) {
    try {
      return await tokens.renew(text);
    } catch (error) {
      if (!endsLogin(error)) throw error;
      if (index === 0) refusal = error;
    }
  }
  throw refusal;
}

/** The cookie by which a browser remembers a login. */
class LoginCookies extends HostCookie {
  constructor(publicUrl: () => string, slot: number) {
    const path = '/mail/token';
    const name = slot === 0 ? LOGIN_COOKIE : `${LOGIN_COOKIE}_${slot}`;
    super({ name, path, maxAgeSeconds: REMEMBERED_SECONDS, publicUrl });
  }

  answer(issued: RememberedToken, request: FastifyRequest, reply: FastifyReply) {
    this.set(issued.remembered, request, reply);
    return writeToken(issued);
  }
}
