/**
 * The HTTP interface: every route of the contract except the WebSocket, with authentication, errors, limits, the API
 * description and the public pages. Stores nothing; a route makes one call of its capability.
 */
import type { FastifyRequest } from 'fastify';
import type { Mailstore } from '../../mailboxes/mailstore/mailstore.ts';
import type { Database } from '../../platform/database/database.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import {
  type Accounts,
  type AnsweredRequests,
  type AppPasswords,
  type KeyOwner,
  scopeOf,
  type Tokens,
} from '../../tenants/accounts/accounts.ts';
import type { Domains, Verification } from '../../tenants/domains/domains.ts';
import type { NamedKeys } from '../../tenants/keys/keys.ts';
import { authenticateMail, type FindSession, knowKeys, requireKey } from './authenticate.ts';
import { compressAnswers } from './compress-answers.ts';
import { describeApi, descriptionRoute } from './describe-api.ts';
import { socketEvents } from './describe-events.ts';
import { openSite } from './docs-files.ts';
import { docsRoutes, notFoundPage, type WebmailOptions, waitForTurn } from './docs-pages.ts';
import { domainRoutes } from './domains.ts';
import { accountRoutes } from './email-accounts.ts';
import { type EventRoutesOptions, eventRoutes } from './events.ts';
import { healthRoutes, type ReadinessCheck } from './health.ts';
import { createServer, type ServerOptions } from './http-server.ts';
import { enforceScopes, judgeAgain } from './key-scope.ts';
import { mailAppendRoute } from './mail-append.ts';
import { mailAttachmentRoutes } from './mail-attachment.ts';
import { mailChangeRoutes } from './mail-changes.ts';
import { mailContentRoutes } from './mail-content.ts';
import { mailMailboxRoutes } from './mail-mailboxes.ts';
import { mailMessageRoutes } from './mail-message.ts';
import { MAIL_BODY_MAX } from './mail-schemas.ts';
import { mailSearchRoutes } from './mail-search.ts';
import { mailSyncRoutes } from './mail-sync.ts';
import { tokenRoutes } from './mail-tokens.ts';
import { keepAnswers } from './repeat-safely.ts';
import { type Api, actorOf, type RouteGroup, type RouteTools } from './route-tools.ts';
import { limitUnreadAnswers } from './unread-answers.ts';

export {
  type Caller,
  type ConsoleSession,
  callerOf,
  type FindSession,
  type Identify,
  knowKeys,
  OPERATOR_SCOPE,
} from './authenticate.ts';
export {
  type ClientSettings,
  clientSettingsRoutes,
  settingsFileRoutes,
} from './client-settings.ts';
export { contentsOfDomain } from './count-contents.ts';
export { DeliveryKind, deliveryRoutes, LastError } from './deliveries.ts';
export { writeDescription } from './describe-api.ts';
export {
  DnsRecordBody,
  ForwardMode,
  Purpose,
  RecordStatus,
  writeRecord,
} from './domain-bodies.ts';
export { AccountBody, writeAccount } from './email-accounts.ts';
export { eventHookRoutes } from './event-hooks.ts';
export { HostCookie } from './host-cookie.ts';
export { mailSendRoutes } from './mail-send.ts';
export { mailserverEventRoutes } from './mailserver-events.ts';
export { rawMessageRoute } from './raw-messages.ts';
export {
  type Api,
  actorOf,
  CONSOLE_COOKIE,
  credentials,
  type Owned,
  type RouteGroup,
} from './route-tools.ts';
export {
  DomainBody,
  DomainName,
  Flag,
  Instant,
  Integer,
  isoTime,
  OneOf,
  present,
  RecordId,
  replaced,
  Text,
  timeBound,
  UserId,
  writeDomain,
  writerOf,
} from './schemas.ts';
export { suppressionRoutes } from './suppressions.ts';
export { version } from './version.ts';

export interface ApiOptions extends Omit<ServerOptions, 'notFoundPage'>, EventRoutesOptions {
  readonly domains: Domains;
  readonly verification: Verification;
  readonly accounts: Accounts;
  readonly appPasswords: AppPasswords;
  readonly tokens: Tokens;
  readonly mailstore: Mailstore;
  /** Our name in Authentication-Results fields. */
  readonly hostname: string;
  /** Bytes of the largest message that a client adds. */
  readonly maxMessageBytes: number;
  /** The URL of the service: with HTTPS, cookies are sent only by HTTPS. */
  readonly publicUrl: () => string;
  /** The answers to requests with an `Idempotency-Key`. */
  readonly answeredRequests: AnsweredRequests;
  /** Keys of the settings, which open all of /v2; at least one. */
  readonly apiKeys: readonly string[];
  /** Those that operators made. */
  readonly keys: Pick<NamedKeys, 'open'>;
  readonly database: Pick<Database, 'read'>;
  /** The sessions of the console; undefined where it has none. */
  readonly console?: ConsoleAccess;
  /** Absolute path of the folder of the public pages. */
  readonly siteDirectory: string;
  readonly webmail: WebmailOptions;
  /** The checks of `/readyz`; without any it is always ready. */
  readonly readiness?: Readonly<Record<string, ReadinessCheck>>;
  /** Groups of routes that come from elsewhere. */
  readonly routes?: readonly RouteGroup[];
  /** The same below /mail: what they POST is repeated by its key, unless they say that it takes none. */
  readonly mailRoutes?: readonly RouteGroup[];
  /** Groups of routes for a user's things below /v2 that come from elsewhere: they need an API key, and an owner (`key-scope.ts`). */
  readonly userRoutes?: readonly RouteGroup[];
  /** The same for the operator, who sees all users. */
  readonly operatorRoutes?: readonly RouteGroup[];
}

interface ConsoleAccess {
  readonly findSession: FindSession;
  /** The one route below /v2 that opens without a credential. */
  readonly signIn: RouteGroup;
}

/** Of a plugin without it, Fastify looks for the name among all modules that are loaded. */
const DISPLAY_NAME = Symbol.for('fastify.display-name');

/** Builds the server; `app.listen` starts it, `app.close` stops it. */
export function createApi(options: ApiOptions): Api {
  const site = openSite(options.siteDirectory);
  const { app, limits } = createServer({ ...options, notFoundPage: notFoundPage(site) });
  const tools: RouteTools = {
    limits,
    authenticateMail: (request, mailbox) => authenticateMail(options.tokens, request, mailbox),
  };
  const repeatSafely = keepAnswers(app, options.answeredRequests);
  // Registered after the hooks that exempt answers from it.
  limitUnreadAnswers(app);
  compressAnswers(app);
  describeApi(app);
  app.addHook('onRoute', (route) => {
    if (route.url.startsWith('/mail/')) route.bodyLimit ??= MAIL_BODY_MAX;
  });
  const add = (parent: Api, group: RouteGroup) => {
    // A group that throws ends the start, as one that is asynchronous.
    const plugin = async (scope: Api) => group(scope, tools);
    parent.register(Object.assign(plugin, { [DISPLAY_NAME]: 'routes' }));
  };
  add(app, (scope) => {
    const identify = knowKeys(options.apiKeys, options.keys);
    const login = requireKey(identify, options.console?.findSession);
    scope.addHook('onRequest', login);
    enforceScopes(scope);
    add(scope, (ofUser) => {
      repeatSafely(ofUser, ownerBelowV2);
      add(ofUser, domainRoutes(options));
      add(ofUser, accountRoutes(options));
      const authorizeAgain = async (request: FastifyRequest) => {
        await login(request);
        judgeAgain(request);
      };
      add(ofUser, eventRoutes(options, authorizeAgain));
      for (const group of options.userRoutes ?? []) add(ofUser, group);
    });
    for (const group of options.operatorRoutes ?? []) add(scope, group);
  });
  if (options.console) add(app, options.console.signIn);
  add(app, tokenRoutes(options.tokens, options.publicUrl));
  add(app, mailSyncRoutes(options.mailstore));
  add(app, mailMessageRoutes(options.mailstore));
  add(app, (scope) => {
    repeatSafely(scope, async (request) => {
      const { accountId } = await tools.authenticateMail(request);
      return { accountId };
    });
    add(scope, mailMailboxRoutes(options.mailstore));
    add(scope, mailChangeRoutes(options.mailstore));
    add(scope, mailAppendRoute(options.mailstore, options.maxMessageBytes));
    for (const group of options.mailRoutes ?? []) add(scope, group);
  });
  add(app, mailContentRoutes(options.mailstore, options.hostname));
  add(app, mailSearchRoutes(options.mailstore));
  add(app, mailAttachmentRoutes(options.mailstore));
  for (const group of options.routes ?? []) {
    add(app, (scope, lent) => {
      scope.addHook('onRoute', refuseUnguarded);
      group(scope, lent);
    });
  }
  add(app, webSocketRoute);
  add(app, healthRoutes(options.readiness ?? {}, options.logger));
  add(app, (pages) => {
    pages.addHook('onRequest', waitForTurn);
    add(pages, descriptionRoute);
    add(pages, docsRoutes(site, options.webmail));
  });
  return app;
}

/** A key is one user's, and that of the API key with which a product uses it: so two products never see answers of each other. */
function ownerBelowV2(request: FastifyRequest): KeyOwner {
  const { user_id: userId } = request.body as { readonly user_id: string };
  return scopeOf(actorOf(request).actor, userId);
}

/** A group that needs no key must not be below /v2. */
function refuseUnguarded({ url }: { readonly url: string }): void {
  if (url.startsWith('/v2/')) throw new Error(`${url} would be open without an API key`);
}

/**
 * `GET /ws` without an upgrade. A WebSocket request never comes here: `realtime/` takes it from the server's `upgrade`
 * event.
 */
function webSocketRoute(app: Api): void {
  app.get('/ws', {
    config: { refusals: ['invalid_request', 'upgrade_required', 'too_many_connections'] },
    schema: {
      summary: 'Get mailbox changes at once',
      description:
        'A WebSocket (RFC 6455). Browsers, which cannot set Authorization, offer the subprotocols `postroom` and `bearer.<JWT>`. The first message is `hello`, with the state of every mailbox; then comes one `mailbox_changed` for each change. An event is a hint: sync with the token of your own last sync.',
      operationId: 'connect',
      response: { 101: { description: 'The connection speaks WebSocket.', type: 'null' } },
      'x-events': socketEvents,
    },
    handler: (_request, reply) => {
      // RFC 9110 section 15.5.22: the answer names the protocol to upgrade to.
      reply.header('upgrade', 'websocket').header('sec-websocket-version', '13');
      throw new Refusal('upgrade_required', 'this path speaks WebSocket only');
    },
  });
}
