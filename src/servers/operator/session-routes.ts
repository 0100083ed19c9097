/** `/v2/operator/console/session`: sign-in and sign-out of the console, and its current session. */
import type { FastifyRequest } from 'fastify';
import { Type } from 'typebox';
import { Refusal } from '../../platform/errors/errors.ts';
import {
  CONSOLE_COOKIE,
  type ConsoleSession,
  credentials,
  type FindSession,
  HostCookie,
  Instant,
  type RouteGroup,
  Text,
  writerOf,
} from '../api/api.ts';
import { type ConsoleSessions, SESSION_SECONDS } from './sessions.ts';

const PATH = '/v2/operator/console/session';
const API_KEY_MAX = 1024;
const BODY_MAX = 8 * 1024;

const SessionBody = Type.Object(
  {
    csrf_token: Text(
      'For the header `x-csrf-token` of requests that change something.',
      'qf0tX7r2Yk1mS0Zz0o7l8m3n2p1q4r5s6t7u8v9w0x1',
    ),
    expires_at: Instant(),
  },
  { title: 'ConsoleSession', description: 'A console where somebody is signed in.' },
);

const writeSession = writerOf(SessionBody);

/** @param publicUrl of the service: with HTTPS, the cookie is sent only by HTTPS */
export function consoleCookie(publicUrl: () => string): HostCookie {
  return new HostCookie({
    name: CONSOLE_COOKIE,
    path: '/v2',
    maxAgeSeconds: SESSION_SECONDS,
    publicUrl,
  });
}

/** Finds the session of a request's cookie, for the guard of /v2. */
export function sessionFinder(sessions: ConsoleSessions, cookie: HostCookie): FindSession {
  return async (request) => {
    const secrets = cookie.read(request);
    for (const secret of secrets) {
      const session = await sessions.find(secret);
      if (session) return session;
    }
    if (secrets.length === 0) return undefined;
    throw new Refusal('unauthorized', 'the session of the console is over: sign in again');
  };
}

/** The route that needs no credential, since it asks for the key itself. */
export function signInRoute(sessions: ConsoleSessions, cookie: HostCookie): RouteGroup {
  return (app) => {
    app.post(PATH, {
      bodyLimit: BODY_MAX,
      config: { refusals: ['unauthorized', 'key_restricted'], compress: false },
      schema: {
        summary: 'Sign in to the console',
        description:
          'Exchanges the API key of an operator for a cookie that opens /v2 for 12 hours, as far as the key does. After 10 wrong keys from one client in an hour it answers 429.',
        operationId: 'openConsoleSession',
        security: credentials.none,
        body: Type.Object({
          api_key: Type.String({
            minLength: 1,
            maxLength: API_KEY_MAX,
            examples: ['pk_live_3f9c2d'],
          }),
        }),
        response: { 200: SessionBody },
      },
      handler: async (request, reply) => {
        const { secret, ...session } = await sessions.open({
          apiKey: request.body.api_key,
          ip: request.clientAddress,
          requestId: request.id,
        });
        // A browser that signs in again must not leave a session behind.
        for (const earlier of cookie.read(request)) await sessions.end(earlier);
        cookie.set(secret, request, reply);
        return writeSession(session);
      },
    });
  };
}

/** The routes of a console that is signed in. */
export function sessionRoutes(sessions: ConsoleSessions, cookie: HostCookie): RouteGroup {
  const find = sessionFinder(sessions, cookie);
  return (app) => {
    app.get(PATH, {
      config: { compress: false },
      schema: {
        summary: "Read the console's session",
        description:
          'For a page that was reloaded: the cookie is enough to get the CSRF token again.',
        operationId: 'getConsoleSession',
        security: credentials.console,
        response: { 200: SessionBody },
      },
      handler: async (request) => writeSession(await requireSession(find, request)),
    });
    app.delete(PATH, {
      config: { isForReadOnly: true },
      schema: {
        summary: 'Sign out of the console',
        description: 'Ends the session on all nodes: its cookie opens nothing any more.',
        operationId: 'endConsoleSession',
        security: credentials.console,
        response: { 200: Type.Object({ ok: Type.Boolean() }) },
      },
      handler: async (request, reply) => {
        for (const secret of cookie.read(request)) await sessions.end(secret);
        cookie.set('', request, reply);
        return { ok: true };
      },
    });
  };
}

/** An API key opens the route too, but has no session. */
async function requireSession(find: FindSession, request: FastifyRequest): Promise<ConsoleSession> {
  const session = await find(request);
  if (session) return session;
  throw new Refusal('unauthorized', `there is no cookie ${CONSOLE_COOKIE}: sign in`);
}
