/**
 * A listening API on a database of its own, for tests that talk to it over sockets.
 */

import { join } from 'node:path';
import { after } from 'node:test';
import { type Logger, pino } from 'pino';
import { Blocks } from '../../../src/mail/blocks/blocks.ts';
import { Queue } from '../../../src/mail/queue/queue.ts';
import { Suppressions } from '../../../src/mail/sending/sending.ts';
import { Trace } from '../../../src/mail/trace/trace.ts';
import { EventHooks } from '../../../src/mail/webhooks/webhooks.ts';
import { Bodies, BodyFolder } from '../../../src/mailboxes/bodies/bodies.ts';
import { InProcessChanges } from '../../../src/mailboxes/changes/changes.ts';
import { MailserverEvents } from '../../../src/mailboxes/event-hook/event-hook.ts';
import { EmbeddedMailstore } from '../../../src/mailboxes/mailstore/mailstore.ts';
import type { Database, Engine } from '../../../src/platform/database/database.ts';
import { limitInMemory } from '../../../src/platform/net/net.ts';
import type { EpochMs } from '../../../src/platform/time/time.ts';
import { DnsResolver } from '../../../src/protocols/dns/dns.ts';
import { buildOperator } from '../../../src/run/compose/operator.ts';
import {
  type Api,
  type ApiOptions,
  clientSettingsRoutes,
  createApi,
  deliveryRoutes,
  eventHookRoutes,
  mailserverEventRoutes,
  suppressionRoutes,
} from '../../../src/servers/api/api.ts';
import { OpenSessions } from '../../../src/servers/imap/imap.ts';
import type { GaugeValue } from '../../../src/servers/metrics/metrics.ts';
import { findAccounts } from '../../../src/tenants/accounts/account-rows.ts';
import {
  Accounts,
  AnsweredRequests,
  AppPasswords,
  findOwner,
  Tokens,
} from '../../../src/tenants/accounts/accounts.ts';
import { Domains, Verification } from '../../../src/tenants/domains/domains.ts';
import { EventFeed, Events } from '../../../src/tenants/events/events.ts';
import { NamedKeys } from '../../../src/tenants/keys/keys.ts';
import { Traffic } from '../../../src/tenants/usage/usage.ts';
import { atEnd } from '../at-end.ts';
import { openTestDatabase } from '../databases.ts';
import { shareDkimKey } from '../domains/dkim-key.ts';
import { activateDomain } from '../tenants.ts';

export const apiKey = 'test-key-1';
export const secondApiKey = 'test-key-2';
const mailserverSecret = 'a secret of the mail server';

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  // Tests look at members that a wrong answer would not have, and fail on what they find.
  // biome-ignore lint/suspicious/noExplicitAny: whatever JSON came
  readonly body: any;
}

/**
 * Sends one JSON request with the API key.
 *
 * @param headers added to the usual ones, or replacing them; undefined leaves one out
 */
export type Call = (
  method: string,
  path: string,
  body?: unknown,
  headers?: Readonly<Record<string, string | undefined>>,
) => Promise<Answer>;

export interface RunningApi {
  readonly app: Api;
  /** Without a slash at the end. */
  readonly url: string;
  readonly port: number;
  readonly database: Database;
  readonly domains: Domains;
  readonly verification: Verification;
  readonly accounts: Accounts;
  readonly tokens: Tokens;
  readonly keys: NamedKeys;
  readonly mailstore: EmbeddedMailstore;
  readonly changes: InProcessChanges;
  /** Everything that was logged, one parsed line each. */
  readonly logLines: Record<string, unknown>[];
  readonly call: Call;
  /** Claims a domain and marks its records verified, which makes it active. */
  activateDomain(userId: string, domain: string): Promise<void>;
}

function callerOf(url: string): Call {
  return async (method, path, body, headers = {}) => {
    const usual = {
      'x-api-key': apiKey,
      ...(body !== undefined && { 'content-type': 'application/json' }),
    };
    const given = Object.entries({ ...usual, ...headers }).filter(
      ([, value]) => value !== undefined,
    );
    const response = await fetch(url + path, {
      method,
      headers: given.map(([name, value]) => [name, String(value)] as [string, string]),
      ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    });
    const text = await response.text();
    const isJson = response.headers.get('content-type')?.includes('json');
    return {
      status: response.status,
      headers: response.headers,
      body: isJson && text !== '' ? JSON.parse(text) : text,
    };
  };
}

const running: Api[] = [];

after(async () => {
  for (const app of running.splice(0)) await app.close();
});

/** DNS in a test: nothing answers, and only checks that the test starts are made. */
export interface TestDns {
  readonly servers?: readonly string[];
  readonly now?: () => EpochMs;
}

/** Nothing listens there. */
const NO_DNS_SERVER = '127.0.0.1:9';

function openDomains(
  database: Database,
  log: Logger,
  { servers = [NO_DNS_SERVER], now = Date.now }: TestDns,
): { domains: Domains; verification: Verification } {
  const mailHostname = 'mail.localhost';
  const spfInclude = 'spf.mail.localhost';
  const dns = new DnsResolver({ servers, timeouts: { first: 10_000, later: 10_000 } });
  return {
    domains: new Domains({
      database,
      mailHostname,
      spfInclude,
      log,
      now,
      makeDkimKey: shareDkimKey,
    }),
    verification: new Verification({ database, dns, mailHostname, log, now }),
  };
}

const plainOptions = {
  rateLimitPerMinute: 0,
  openLimit: limitInMemory,
  trustProxy: [],
  connections: { perClient: 250, inAll: 10_000 },
  corsOrigins: [],
  maxBody: 262_144,
  hostname: 'mail.localhost',
  maxMessageBytes: 1_048_576,
  siteDirectory: '/nonexistent',
  webmail: { isOn: true, name: 'Mail', color: undefined },
} satisfies Partial<ApiOptions>;

const plainOperator = {
  openLimit: limitInMemory,
  config: {
    shown: [],
    mailstore: { kind: 'embedded' as const },
    limits: { quotaBytes: 0, backupMaxAgeHours: 0 },
  },
  nodes: { id: 'test', list: async () => [], changeLogLevel: async () => {} },
};

/** The operator's part, empty where no test of the API needs it. */
function openOperator(
  owners: Pick<
    Parameters<typeof buildOperator>[0],
    | 'database'
    | 'queue'
    | 'domains'
    | 'accounts'
    | 'logger'
    | 'now'
    | 'apiKeys'
    | 'keys'
    | 'publicUrl'
    | 'bodies'
    | 'changes'
  >,
) {
  const { database, logger, now } = owners;
  return buildOperator({
    ...owners,
    ...plainOperator,
    traffic: new Traffic({ database, now, log: logger, totals: async () => ({}) }),
    blocks: new Blocks({ database, logger, now, trustedNetworks: [] }),
    metrics: { readGauge },
    imapSessions: new OpenSessions(),
    wire: undefined,
  });
}

/** What the gauges of the service show, for tests of what needs attention; of one that cannot be read, its error. */
export const gauges = new Map<string, readonly GaugeValue[] | Error>();

async function readGauge(name: string): Promise<readonly GaugeValue[]> {
  const found = gauges.get(name) ?? [];
  if (found instanceof Error) throw found;
  return found;
}

function openKeys(database: Database, logger: Logger, now: () => EpochMs): NamedKeys {
  const keys = new NamedKeys({ database, logger, now });
  atEnd(() => keys.stop());
  return keys;
}

/** Groups that are no part of the API's own folder. */
function userGroups(parts: Parameters<typeof openOperator>[0] & { readonly bodies: Bodies }) {
  const { database, domains, accounts, queue, now, publicUrl } = parts;
  const events = new Events(database);
  const ports = { imaps: 993, imap: 0, submissions: 465, submission: 0 };
  return [
    deliveryRoutes(domains, queue),
    suppressionRoutes(domains, new Suppressions(database, now)),
    eventHookRoutes(new EventHooks({ ...parts, events, onSet: () => {} })),
    clientSettingsRoutes(domains, accounts, { hostname: 'mail.localhost', ports, publicUrl }),
  ];
}

function openQueue({ database, logger: log, now }: QueueParts): Queue {
  const trace = new Trace({ database, keptDays: 30, node: 'test', log, now });
  return new Queue({ database, log, trace });
}

interface QueueParts {
  readonly database: Database;
  readonly logger: Logger;
  readonly now: () => number;
}

function followEvents(database: Database, changes: InProcessChanges) {
  database.notices.listen((userId) => changes.publish({ kind: 'events', userId }));
  const events = new Events(database);
  const findOwnerOf = (accountId: number) => findOwner(database.read, accountId);
  return { events, feed: new EventFeed({ events, changes, findOwner: findOwnerOf }) };
}

/** Starts the API; it is closed when the test file ends. */
export async function startApi(
  engine: Engine,
  options: Partial<ApiOptions> = {},
  dns: TestDns = {},
): Promise<RunningApi> {
  const { database, directory } = await openTestDatabase(engine);
  const logLines: Record<string, unknown>[] = [];
  const logger = pino({ level: 'info' }, { write: (line) => logLines.push(JSON.parse(line)) });
  const { domains, verification } = openDomains(database, logger, dns);
  const changes = new InProcessChanges();
  const { now = Date.now } = dns;
  const accounts = new Accounts({ database, domains, changes, now });
  const tokens = new Tokens({
    database,
    openLimit: limitInMemory,
    log: logger,
    secret: ['a secret of thirty-two bytes, or more'],
  });
  const bodies = new Bodies({ database, store: new BodyFolder(join(directory, 'bodies')) });
  const mailstore = new EmbeddedMailstore({ database, bodies, idSecret: 'secret' });
  const mailserverEvents = new MailserverEvents({
    secrets: [mailserverSecret],
    database,
    changes,
    findAccounts: (addresses) => findAccounts(database, addresses),
  });
  const apiKeys = options.apiKeys ?? [apiKey, secondApiKey];
  const publicUrl = options.publicUrl ?? (() => 'http://127.0.0.1:8080');
  const keys = openKeys(database, logger, now);
  const queue = openQueue({ database, logger, now });
  const parts = { database, queue, domains, accounts, logger, now, changes };
  const owners = { ...parts, apiKeys, keys, publicUrl, bodies };
  const operator = openOperator(owners);
  const app = createApi({
    ...followEvents(database, changes),
    domains,
    verification,
    accounts,
    appPasswords: new AppPasswords({ database, changes, now }),
    tokens,
    mailstore,
    answeredRequests: new AnsweredRequests({
      database,
      isAlone: true,
      secret: ['secret'],
      now: Date.now,
    }),
    logger,
    publicUrl,
    apiKeys,
    keys,
    console: operator.console,
    database,
    ...plainOptions,
    ...options,
    userRoutes: [...userGroups(owners), ...(options.userRoutes ?? [])],
    operatorRoutes: operator.routes,
    routes: [mailserverEventRoutes(mailserverEvents), ...(options.routes ?? [])],
  });
  await app.listen({ host: '127.0.0.1', port: 0 });
  running.push(app);
  return {
    app,
    url: app.listeningOrigin,
    port: Number(new URL(app.listeningOrigin).port),
    ...owners,
    verification,
    tokens,
    mailstore,
    changes,
    logLines,
    call: callerOf(app.listeningOrigin),
    activateDomain: async (userId, domain) => void (await activateDomain(domains, userId, domain)),
  };
}
