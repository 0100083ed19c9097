/**
 * `npm run openapi`: writes `docs/openapi.json`, the golden file that shows in review when the
 * interface changes. Needs no database, since no route is called.
 */
import { writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { pino } from 'pino';
import type { Queue } from '../../mail/queue/queue.ts';
import type { Database } from '../../platform/database/database.ts';
import { limitInMemory } from '../../platform/net/net.ts';
import {
  clientSettingsRoutes,
  createApi,
  deliveryRoutes,
  eventHookRoutes,
  mailSendRoutes,
  mailserverEventRoutes,
  rawMessageRoute,
  suppressionRoutes,
  writeDescription,
} from '../../servers/api/api.ts';
import {
  attentionRoutes,
  auditRoutes,
  blockRoutes,
  type DomainContents,
  imapSessionRoutes,
  keyRoutes,
  logLevelRoute,
  messageRoutes,
  operatorAccountRoutes,
  operatorChangeRoutes,
  operatorDomainRoutes,
  overviewRoutes,
  queueRoutes,
  serviceRoutes,
  sessionRoutes,
  signInRoute,
  traceRoutes,
  usageRoutes,
} from '../../servers/operator/operator.ts';
import type { Accounts } from '../../tenants/accounts/accounts.ts';
import type { Domains } from '../../tenants/domains/domains.ts';

const docs = fileURLToPath(new URL('../../../docs/', import.meta.url));

/** Stands for a capability that is never called. */
function uncalled<T extends object>(name: string): T {
  const refuse = () => {
    throw new Error(`${name} was called while the API was only described`);
  };
  // Any type will do, since any access to a member is a bug.
  return new Proxy({}, { get: refuse }) as T;
}

/** Groups below /v2 that `startApi` of the tests has as well, described only. */
const userRoutesElsewhere = [
  deliveryRoutes(uncalled('domains'), uncalled('queue')),
  suppressionRoutes(uncalled('domains'), uncalled('suppressions')),
  eventHookRoutes(uncalled('eventHooks')),
  clientSettingsRoutes(uncalled('domains'), uncalled('accounts'), {
    hostname: '',
    ports: { imaps: 0, imap: 0, submissions: 0, submission: 0 },
    publicUrl: () => '',
  }),
];

const counted = {
  database: uncalled<Database>('database'),
  domains: uncalled<Domains>('domains'),
  contents: uncalled<DomainContents>('contents'),
  countsMail: true,
  quotaBytes: 0,
  accounts: uncalled<Accounts>('accounts'),
  queue: uncalled<Queue>('queue'),
  now: Date.now,
};

const searched = { ...counted, queue: uncalled<Queue>('queue'), now: () => 0 };

/** More of them. */
const operatorRoutes = [
  operatorDomainRoutes(counted),
  operatorAccountRoutes(counted),
  operatorChangeRoutes(counted),
  serviceRoutes(uncalled('nodes'), []),
  logLevelRoute({
    database: uncalled('database'),
    nodes: uncalled('nodes'),
    logger: uncalled('logger'),
    now: () => 0,
  }),
  sessionRoutes(uncalled('sessions'), uncalled('cookie')),
  auditRoutes(uncalled('database')),
  usageRoutes(uncalled('database'), () => 0),
  overviewRoutes(uncalled('overview')),
  attentionRoutes(uncalled('attention')),
  messageRoutes(searched),
  traceRoutes(searched),
  queueRoutes(searched),
  blockRoutes(uncalled('blocks')),
  keyRoutes(uncalled('keys'), () => 0),
  imapSessionRoutes(uncalled('imapSessions')),
];

/** Its other groups, described only. */
export const routesElsewhere = [
  mailSendRoutes(uncalled('sending'), 1),
  rawMessageRoute({
    bodies: uncalled('bodies'),
    database: uncalled('database'),
    linkSecret: [''],
    now: Date.now,
  }),
];

/** The description of the API with all its routes. */
export async function describeWholeApi(): Promise<string> {
  const logger = pino({ level: 'silent' });
  const app = createApi({
    domains: uncalled('domains'),
    verification: uncalled('verification'),
    accounts: uncalled('accounts'),
    appPasswords: uncalled('appPasswords'),
    tokens: uncalled('tokens'),
    mailstore: uncalled('mailstore'),
    answeredRequests: uncalled('answeredRequests'),
    events: uncalled('events'),
    feed: uncalled('feed'),
    logger,
    publicUrl: () => '',
    apiKeys: [],
    keys: uncalled('keys'),
    rateLimitPerMinute: 0,
    openLimit: limitInMemory,
    trustProxy: [],
    connections: { perClient: 250, inAll: 10_000 },
    corsOrigins: [],
    maxBody: 1,
    hostname: 'mail.localhost',
    maxMessageBytes: 1,
    siteDirectory: '/nonexistent',
    webmail: { isOn: true, name: 'Mail', color: undefined },
    userRoutes: userRoutesElsewhere,
    operatorRoutes,
    console: {
      findSession: uncalled('findSession'),
      signIn: signInRoute(uncalled('sessions'), uncalled('cookie')),
    },
    routes: [...routesElsewhere, mailserverEventRoutes(uncalled('mailserverEvents'))],
  });
  await app.ready();
  const text = writeDescription(app);
  await app.close();
  return text;
}

if (import.meta.main) {
  await writeFile(`${docs}openapi.json`, await describeWholeApi());
  console.log('wrote docs/openapi.json');
}
