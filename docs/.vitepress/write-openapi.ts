/**
 * `npm run openapi`: writes `docs/openapi.json`, the golden file that shows in review when the
 * interface changes. Needs no database, since no route is called.
 */
import { writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import { pino } from 'pino';
import { limitInMemory } from '../../src/platform/net/net.ts';
import { buildOperator } from '../../src/run/compose/operator.ts';
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
} from '../../src/servers/api/api.ts';

const docs = fileURLToPath(new URL('../', import.meta.url));

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
  const parts = {
    database: uncalled('database'),
    domains: uncalled('domains'),
    accounts: uncalled('accounts'),
    logger: pino({ level: 'silent' }),
    publicUrl: () => '',
    apiKeys: [],
    keys: uncalled('keys'),
    openLimit: limitInMemory,
    now: Date.now,
  } satisfies Partial<Parameters<typeof buildOperator>[0]>;
  const operator = buildOperator({
    ...parts,
    config: {
      shown: [],
      mailstore: { kind: 'embedded' },
      limits: { quotaBytes: 0, backupMaxAgeHours: 0 },
    },
    traffic: uncalled('traffic'),
    nodes: { id: '', list: uncalled('nodes'), changeLogLevel: uncalled('nodes') },
    queue: uncalled('queue'),
    blocks: uncalled('blocks'),
    bodies: uncalled('bodies'),
    metrics: uncalled('metrics'),
    changes: uncalled('changes'),
    imapSessions: uncalled('imapSessions'),
    wire: undefined,
  });
  const app = createApi({
    ...parts,
    verification: uncalled('verification'),
    appPasswords: uncalled('appPasswords'),
    tokens: uncalled('tokens'),
    mailstore: uncalled('mailstore'),
    answeredRequests: uncalled('answeredRequests'),
    events: uncalled('events'),
    feed: uncalled('feed'),
    rateLimitPerMinute: 0,
    trustProxy: [],
    connections: { perClient: 250, inAll: 10_000 },
    corsOrigins: [],
    maxBody: 1,
    hostname: 'mail.localhost',
    maxMessageBytes: 1,
    siteDirectory: '/nonexistent',
    webmail: { isOn: true, name: 'Mail', color: undefined },
    userRoutes: userRoutesElsewhere,
    operatorRoutes: operator.routes,
    console: operator.console,
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
