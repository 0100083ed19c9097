/** Builds the operator's part: the routes below /v2/operator, and the sessions of the console. */
import type { Logger } from 'pino';
import type { Accounts } from '../accounts/accounts.ts';
import type { ApiOptions, RouteGroup } from '../api/api.ts';
import type { Blocks } from '../blocks/blocks.ts';
import type { Config } from '../config/config.ts';
import type { Database } from '../database/database.ts';
import type { Domains } from '../domains/domains.ts';
import type { OpenLimit } from '../net/net.ts';
import type { Nodes } from '../nodes/nodes.ts';
import {
  auditRoutes,
  blockRoutes,
  ConsoleSessions,
  consoleCookie,
  DomainContents,
  logLevelRoute,
  operatorAccountRoutes,
  operatorChangeRoutes,
  operatorDomainRoutes,
  overviewRoutes,
  queueRoutes,
  serviceRoutes,
  sessionFinder,
  sessionRoutes,
  signInRoute,
  traceRoutes,
  usageRoutes,
} from '../operator/operator.ts';
import type { Queue } from '../queue/queue.ts';
import type { Traffic } from '../usage/usage.ts';

interface OperatorParts {
  readonly database: Database;
  readonly apiKeys: readonly string[];
  readonly openLimit: OpenLimit;
  readonly now: () => number;
  readonly publicUrl: () => string;
  readonly config: Pick<Config, 'shown' | 'mailstore' | 'limits'>;
  readonly domains: Domains;
  readonly traffic: Traffic;
  readonly accounts: Accounts;
  readonly nodes: Pick<Nodes, 'list' | 'changeLogLevel'>;
  readonly queue: Queue;
  readonly blocks: Blocks;
  readonly logger: Logger;
}

interface OperatorAccess {
  readonly contents: DomainContents;
  readonly console: NonNullable<ApiOptions['console']>;
  readonly routes: readonly RouteGroup[];
}

export function buildOperator(parts: OperatorParts): OperatorAccess {
  const sessions = new ConsoleSessions(parts);
  const cookie = consoleCookie(parts.publicUrl);
  const { config, database, nodes } = parts;
  const contents = new DomainContents(database);
  const { quotaBytes } = config.limits;
  const countsMail = config.mailstore.kind === 'embedded';
  const counted = { ...parts, contents, countsMail, quotaBytes };
  return {
    contents,
    console: {
      findSession: sessionFinder(sessions, cookie),
      signIn: signInRoute(sessions, cookie),
    },
    routes: [
      sessionRoutes(sessions, cookie),
      auditRoutes(database),
      operatorDomainRoutes(counted),
      operatorAccountRoutes(counted),
      operatorChangeRoutes(counted),
      serviceRoutes(nodes, config.shown),
      logLevelRoute(parts),
      usageRoutes(database, parts.now),
      overviewRoutes(parts.traffic),
      traceRoutes(parts),
      queueRoutes(parts),
      blockRoutes(parts.blocks),
    ],
  };
}
