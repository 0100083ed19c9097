/**
 * The composition root: builds every part from the configuration and passes each what it needs.
 */
import { hostname } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Blocks } from '../../mail/blocks/blocks.ts';
import { Queue, systemClock } from '../../mail/queue/queue.ts';
import { Suppressions } from '../../mail/sending/sending.ts';
import { Trace } from '../../mail/trace/trace.ts';
import { type Changes, InProcessChanges } from '../../mailboxes/changes/changes.ts';
import { MailserverEvents } from '../../mailboxes/event-hook/event-hook.ts';
import {
  type ImapMailstore,
  markShadowsOf,
  purgeShadows,
} from '../../mailboxes/mail-server/mail-server.ts';
import {
  createSearchSource,
  EmbeddedMailstore,
  type MailUser,
  publishChanges,
} from '../../mailboxes/mailstore/mailstore.ts';
import { createSearch, type Search } from '../../mailboxes/search/search.ts';
import type { Database } from '../../platform/database/database.ts';
import { limitInMemory } from '../../platform/net/net.ts';
import { DnsResolver } from '../../protocols/dns/dns.ts';
import {
  type Api,
  clientSettingsRoutes,
  createApi,
  deliveryRoutes,
  eventHookRoutes,
  mailSendRoutes,
  mailserverEventRoutes,
  rawMessageRoute,
  settingsFileRoutes,
  suppressionRoutes,
} from '../../servers/api/api.ts';
import { OpenSessions } from '../../servers/imap/imap.ts';
import { asksForWebSocket, Realtime, type SharedState } from '../../servers/realtime/realtime.ts';
import {
  Accounts,
  AnsweredRequests,
  AppPasswords,
  findAccounts,
  findOwner,
  Tokens,
} from '../../tenants/accounts/accounts.ts';
import { Domains, Verification } from '../../tenants/domains/domains.ts';
import { EventFeed, Events } from '../../tenants/events/events.ts';
import { NamedKeys } from '../../tenants/keys/keys.ts';
import { Traffic, Usage } from '../../tenants/usage/usage.ts';
import { publicUrlOf } from '../config/config.ts';
import type { Common } from './common.ts';
import { buildMailFlow, type MailFlowOptions } from './mail-flow.ts';
import { buildMailServer } from './mail-server.ts';
import { Maintenance } from './maintenance.ts';
import { metricSources } from './metric-sources.ts';
import { keysInForce } from './node-facts.ts';
import { buildOperator } from './operator.ts';
import type { PurgedStore } from './purge.ts';
import { readinessChecks } from './readiness.ts';
import { type Shared, sharedState } from './shared.ts';

export type Parts = ReturnType<typeof buildParts>;

/** How far the start has come, for `/readyz`. */
export interface StartProgress {
  /** Whether every listener accepts connections. */
  listening: boolean;
  /** The port that HTTP is bound to. */
  httpPort: number;
}

type Owners = ReturnType<typeof buildOwners>;

/** The parts that the routes serve. */
interface Served
  extends Owners,
    ReturnType<typeof buildEventsAndSessions>,
    Pick<ReturnType<typeof buildMailFlow>, 'sending' | 'eventHooks'>,
    Pick<MailFlowOptions, 'mailstore' | 'queue' | 'bodies' | 'publicUrl'> {
  readonly imap: ImapMailstore | undefined;
  readonly traffic: Traffic;
  readonly blocks: Blocks;
  readonly namedKeys: NamedKeys;
  readonly progress: StartProgress;
}

/** JSON bodies of the API are small; the mail server's batches have a limit of their own. */
const MAX_JSON_BODY = 1024 * 1024;
/** Questions of verification to DNS at once: as many as its checks can have under way, so that none waits here. */
const VERIFICATION_CONCURRENCY = 512;

/** Where the installation has built the public pages (`docs/.vitepress/build.ts`). */
const SITE_DIRECTORY = fileURLToPath(new URL('../../../site', import.meta.url));

type Given = Omit<Common, 'changes' | 'openLimit'> & {
  /** What several nodes share; undefined for a single node. */
  readonly shared: Shared | undefined;
};

/** Builds all parts; none of them listens or runs yet. */
export function buildParts(given: Given) {
  const { config, secrets, database, bodies, metrics, logger, now, shared } = given;
  const changes = shared?.changes ?? new InProcessChanges();
  const search = buildSearch(given, changes);
  const idSecret = secrets.idSecret[0];
  const { quotaBytes } = config.limits;
  const embedded = new EmbeddedMailstore({ database, bodies, idSecret, search, quotaBytes, now });
  const trace = buildTrace(given);
  const queue = buildQueue(given, trace);
  const usage = new Usage({ database, now });
  const traffic = new Traffic({ database, now, log: logger, totals: () => metrics.totals() });
  const recorded = { queue, usage, traffic, trace };
  const blocks = new Blocks({ ...given, trustedNetworks: config.smtp.trustedNetworks });
  const namedKeys = new NamedKeys(given);
  const openLimit = shared?.openLimit ?? limitInMemory;
  const common: Common = { ...given, changes, openLimit };
  const owners = buildOwners(common, embedded, () => maintenance.purgeSoon());
  const isCurrent = async ({ accountId, address }: MailUser) =>
    (await owners.accounts.findForMail(address))?.id === accountId;
  const { imap, mailServer } = buildMailServer({ ...common, bodies, isCurrent }) ?? {};
  const maintenance = new Maintenance({
    ...common,
    ...owners,
    ...recorded,
    // Both, since an operator may have changed from one to the other.
    stores: [embedded, shadowsOf(database)],
    ...config.limits,
    expireTrash: (keptMs, after) => embedded.expireTrash(keptMs, after),
    pruneTombstones: (keptMs, signal) => (imap ?? embedded).pruneTombstones(keptMs, signal),
  });
  const mailstore = publishChanges(imap ?? embedded, (change) => changes.publish(change));
  const progress: StartProgress = { listening: false, httpPort: config.http.port };
  const { http } = config;
  const publicUrl = () =>
    http.publicUrlGiven ? http.publicUrl : publicUrlOf(http.host, progress.httpPort);
  const stored = { ...recorded, bodies, embedded, mailstore, mailServer };
  const eventsAndSessions = buildEventsAndSessions(database, changes, shared);
  const stores = { ...stored, ...eventsAndSessions, metrics, publicUrl, blocks, namedKeys };
  const flow = buildMailFlow({ ...common, ...owners, ...stores });
  const api = buildApi(common, { ...owners, ...stores, ...flow, mailstore, imap, progress });
  const state = sharedState(database, embedded, imap);
  const realtime = buildRealtime(common, { ...owners, mailstore, api, state, shared });
  const connections = () => realtime.connections;
  metrics.watch(metricSources({ ...common, connections, imap, search, shared }));
  return {
    ...owners,
    ...stored,
    database,
    changes,
    /** The operator's mail server, where mail is on one. */
    imap,
    /** A mail server searches itself. */
    search: imap ? undefined : search,
    flow,
    api,
    realtime,
    metrics,
    progress,
    blocks,
    namedKeys,
    ...eventsAndSessions,
    maintenance,
    now,
  };
}

function buildQueue(given: Given, trace: Trace): Queue {
  const { database, metrics, shared, logger: log, nodes, now } = given;
  return new Queue({
    database,
    trace,
    log,
    owner: nodes.id,
    mayTakeOver: () => nodes.isSteady,
    clock: { ...systemClock, now },
    onAttempt: (report) => metrics.countAttempt(report),
    slots: shared?.slots,
  });
}

function buildTrace({ config, database, logger: log, now }: Given) {
  const { days: keptDays, subjects: keepsSubjects } = config.trace;
  return new Trace({ database, keptDays, keepsSubjects, node: hostname(), log, now });
}

function shadowsOf(database: Database): PurgedStore {
  return { markForPurge: markShadowsOf, purge: () => purgeShadows(database) };
}

function buildSearch(
  { config, database, bodies, logger: log, now }: Given,
  changes: Changes,
): Search {
  const path = join(config.dataDir, 'search.db');
  const source = createSearchSource(database);
  return createSearch({ database, changes, bodies, source, log, path, now });
}

/**
 * Users' events and the open IMAP sessions, which somebody on another node may ask for: by `wire`, which a single node
 * lacks, as it lacks shared `slots`.
 */
function buildEventsAndSessions(database: Database, changes: Changes, shared: Shared | undefined) {
  const { slots, wire } = shared ?? {};
  // What a transaction tells is whose events it has written.
  database.notices.listen((userId) => changes.publish({ kind: 'events', userId }));
  const events = new Events(database);
  const findOwnerOf = (accountId: number) => findOwner(database.read, accountId);
  const feed = new EventFeed({ events, changes, findOwner: findOwnerOf });
  return { events, feed, imapSessions: new OpenSessions(), slots, wire };
}

/** Domains, accounts and their access. */
function buildOwners(common: Common, embedded: EmbeddedMailstore, onDeleted: () => void) {
  const { config, keys, database, changes, openLimit, metrics, logger, now } = common;
  const { mailHostname, spfInclude, jwt } = config;
  const domains = new Domains({ database, mailHostname, spfInclude, log: logger, now });
  const dns = new DnsResolver({
    servers: config.dns.servers,
    concurrency: VERIFICATION_CONCURRENCY,
    onAsked: metrics.dnsQuestions('verification'),
  });
  const verification = new Verification({ database, dns, mailHostname, log: logger, now });
  const accounts = new Accounts({
    database,
    domains,
    changes,
    now,
    ...(config.mailstore.kind === 'embedded' && {
      makeMailboxes: (...made) => embedded.makeMailboxes(...made),
    }),
    onDeleted,
  });
  const appPasswords = new AppPasswords({ database, changes, now });
  const tokens = new Tokens({
    database,
    onLogin: (result) => metrics.countLogin(result),
    openLimit,
    now,
    log: logger,
    secret: keys.tokens,
    publicKeyPem: jwt.publicKey,
    jwksUrl: jwt.jwksUrl,
    issuer: jwt.issuer,
    audience: jwt.audience,
    accountClaim: jwt.accountClaim,
  });
  return { domains, verification, accounts, appPasswords, tokens };
}

function buildApi(common: Common, served: Served): Api {
  const { config, keys, database, changes, logger, now } = common;
  const { http, limits } = config;
  const { API_KEYS, MAILSERVER_WEBHOOK_SECRET } = keysInForce(config, common.secrets);
  const operator = buildOperator({
    ...common,
    ...served,
    apiKeys: API_KEYS,
    keys: served.namedKeys,
  });
  const { mailHostname: hostname, imap, submission } = config;
  const isAlone = database.engine === 'sqlite' || config.redis === undefined;
  const settings = {
    hostname,
    // What programs are told to type in: the ports as they are set.
    ports: {
      imaps: imap.tlsPort,
      imap: imap.port,
      submissions: submission.tlsPort,
      submission: submission.port,
    },
    publicUrl: served.publicUrl,
  };
  return createApi({
    ...served,
    answeredRequests: new AnsweredRequests({ database, isAlone, now, secret: keys.tokens }),
    onAnswered: (answered) => common.metrics.countRequest(answered),
    logger,
    apiKeys: API_KEYS,
    keys: served.namedKeys,
    console: operator.console,
    database,
    rateLimitPerMinute: limits.ratePerMinute,
    openLimit: common.openLimit,
    trustProxy: http.trustProxy,
    connections: { perClient: http.maxPerIp, inAll: http.maxConnections },
    corsOrigins: http.corsOrigins,
    maxBody: MAX_JSON_BODY,
    maxMessageBytes: limits.maxMessageBytes,
    hostname,
    upgrades: asksForWebSocket,
    siteDirectory: SITE_DIRECTORY,
    webmail: config.webmail,
    userRoutes: [
      deliveryRoutes(served.domains, served.queue),
      suppressionRoutes(served.domains, new Suppressions(database, now)),
      eventHookRoutes(served.eventHooks),
      clientSettingsRoutes(served.domains, served.accounts, settings),
    ],
    operatorRoutes: operator.routes,
    mailRoutes: [mailSendRoutes(served.sending, limits.maxMessageBytes)],
    routes: [
      settingsFileRoutes(settings),
      rawMessageRoute({ ...served, database, linkSecret: keys.links, now }),
      mailserverEventRoutes(
        new MailserverEvents({
          secrets: MAILSERVER_WEBHOOK_SECRET,
          database,
          changes,
          now,
          findAccounts: (addresses) => findAccounts(database, addresses),
        }),
      ),
    ],
    readiness: readinessChecks(common, served),
  });
}

function buildRealtime(
  { changes, logger, now }: Common,
  parts: Pick<Served, 'tokens' | 'mailstore'> &
    Pick<Given, 'shared'> & { readonly api: Api; readonly state: SharedState },
): Realtime {
  const { tokens, mailstore, api, state, shared } = parts;
  return new Realtime({
    authenticate: (token) => tokens.authenticate(token),
    listMailboxes: (user) => mailstore.listMailboxes(user),
    changes,
    admit: (request) => api.admitUpgrade(request),
    shared: shared && { state, slots: shared.slots },
    now,
    logger,
  });
}
