/**
 * `POST /mail/token`: a mailbox's address and password for a token.
 */
import { Type } from 'typebox';
import type { IssuedToken, Tokens } from '../accounts/accounts.ts';
import { MAIL_BODY_MAX } from './mail-schemas.ts';
import { credentials, type RouteGroup } from './server.ts';

/** A token and how long it is good; the same in both ways to get one. */
export const TokenBody = Type.Object(
  {
    token: Type.String({
      description: 'JWT, for `Authorization: Bearer`.',
      examples: ['eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbm5AYWNtZS50ZXN0In0.c2lnbmF0dXJl'],
    }),
    expires_in: Type.Integer({ description: 'Seconds.', examples: [3600] }),
  },
  { title: 'Token', description: 'Opens one mailbox account until it expires.' },
);

export function writeToken(issued: IssuedToken): Type.Static<typeof TokenBody> {
  return { token: issued.token, expires_in: issued.expiresIn };
}

/** An address and a password have at most this many characters; longer ones are not looked at. */
const CREDENTIAL_MAX = 1024;

export function tokenRoutes(tokens: Tokens): RouteGroup {
  return (app) => {
    app.post(
      '/mail/token',
      {
        bodyLimit: MAIL_BODY_MAX,
        config: { refusals: ['unauthorized', 'account_inactive'], compress: false },
        schema: {
          tags: ['Mail'],
          summary: 'Log in to a mailbox',
          description:
            'The address and password of an account for a token. After 10 failures from one client, ' +
            'or 100 from clients that never logged in to the account, it answers 429 for a while.',
          operationId: 'login',
          security: credentials.none,
          body: Type.Object({
            address: Type.String({
              minLength: 1,
              maxLength: CREDENTIAL_MAX,
              examples: ['ann@acme.test'],
            }),
            password: Type.String({
              minLength: 1,
              maxLength: CREDENTIAL_MAX,
              examples: ['correct horse battery'],
            }),
          }),
          response: { 200: TokenBody },
        },
      },
      async ({ body, ip }) => writeToken(await tokens.login(body.address, body.password, ip)),
    );
  };
}
