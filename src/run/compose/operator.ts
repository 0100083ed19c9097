/** Builds the operator's part: the routes below /v2/operator, and the sessions of the console. */
import type { Blocks } from '../../mail/blocks/blocks.ts';
import type { Queue } from '../../mail/queue/queue.ts';
import type { Bodies } from '../../mailboxes/bodies/bodies.ts';
import type { Nodes } from '../../platform/nodes/nodes.ts';
import { HOUR_MS } from '../../platform/time/time.ts';
import type { ApiOptions, RouteGroup } from '../../servers/api/api.ts';
import { type NodeWire, type OpenSessions, SessionsOfNodes } from '../../servers/imap/imap.ts';
import type { Metrics } from '../../servers/metrics/metrics.ts';
import {
  attentionRoutes,
  auditRoutes,
  blockRoutes,
  ConsoleSessions,
  consoleCookie,
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
  sessionFinder,
  sessionRoutes,
  signInRoute,
  traceRoutes,
  usageRoutes,
} from '../../servers/operator/operator.ts';
import type { Accounts } from '../../tenants/accounts/accounts.ts';
import type { Domains } from '../../tenants/domains/domains.ts';
import type { NamedKeys } from '../../tenants/keys/keys.ts';
import type { Traffic } from '../../tenants/usage/usage.ts';
import type { Config } from '../config/config.ts';
import type { Common } from './common.ts';

interface OperatorParts
  extends Pick<Common, 'database' | 'openLimit' | 'now' | 'logger' | 'changes'> {
  readonly apiKeys: readonly string[];
  readonly keys: NamedKeys;
  readonly publicUrl: () => string;
  readonly config: {
    readonly shown: Config['shown'];
    readonly mailstore: Pick<Config['mailstore'], 'kind'>;
    readonly limits: Pick<Config['limits'], 'quotaBytes' | 'backupMaxAgeHours'>;
  };
  readonly domains: Domains;
  readonly traffic: Traffic;
  readonly accounts: Accounts;
  readonly nodes: Pick<Nodes, 'id' | 'list' | 'changeLogLevel'>;
  readonly queue: Queue;
  readonly blocks: Blocks;
  readonly bodies: Pick<Bodies, 'lastBackupAt'>;
  readonly metrics: Pick<Metrics, 'readGauge'>;
  readonly imapSessions: OpenSessions;
  /** Where nodes ask each other; undefined for a single one. */
  readonly wire: NodeWire | undefined;
}

interface OperatorAccess {
  readonly console: NonNullable<ApiOptions['console']>;
  readonly routes: readonly RouteGroup[];
}

export function buildOperator(parts: OperatorParts): OperatorAccess {
  const sessions = new ConsoleSessions(parts);
  const cookie = consoleCookie(parts.publicUrl);
  const { config, database, nodes } = parts;
  const { quotaBytes } = config.limits;
  const countsMail = config.mailstore.kind === 'embedded';
  const backups = {
    maxAgeMs: config.limits.backupMaxAgeHours * HOUR_MS,
    lastAt: () => parts.bodies.lastBackupAt(),
  };
  const counted = { ...parts, countsMail, quotaBytes };
  return {
    console: {
      findSession: sessionFinder(sessions, cookie),
      signIn: signInRoute(sessions, cookie),
    },
    routes: [
      operatorDomainRoutes(counted),
      operatorAccountRoutes(counted),
      operatorChangeRoutes(counted),
      serviceRoutes(nodes, config.shown),
      logLevelRoute(parts),
      sessionRoutes(sessions, cookie),
      auditRoutes(database),
      usageRoutes(database, parts.now),
      overviewRoutes(parts),
      attentionRoutes({
        ...parts,
        backups,
        readGauge: (name) => parts.metrics.readGauge(name),
      }),
      messageRoutes(parts),
      traceRoutes(parts),
      queueRoutes(parts),
      blockRoutes(parts.blocks),
      keyRoutes(parts.keys, parts.now),
      imapSessionRoutes({ ...parts, sessions: sessionsOfNodes(parts) }),
    ],
  };
}

function sessionsOfNodes({ imapSessions: here, nodes, wire }: OperatorParts): SessionsOfNodes {
  const listNodes = async () => {
    const all = await nodes.list();
    return all.flatMap(({ id, isRunning }) => (isRunning ? [id] : []));
  };
  return new SessionsOfNodes({ here, node: nodes.id, listNodes, wire });
}
