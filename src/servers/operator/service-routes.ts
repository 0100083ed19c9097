/** The running nodes and their settings: `/v2/operator/nodes`, `/v2/operator/settings` and `/v2/operator/log-level`. */
import type { Logger } from 'pino';
import { Type } from 'typebox';
import type { Database } from '../../platform/database/database.ts';
import { changeLevel, LOG_LEVELS } from '../../platform/log/log.ts';
import type { Nodes } from '../../platform/nodes/nodes.ts';
import type { EpochMs } from '../../platform/time/time.ts';
import { recordAudit } from '../../tenants/audit/audit.ts';
import { actorOf, Flag, Instant, OneOf, type RouteGroup, Text, writerOf } from '../api/api.ts';
import { listEcho } from './lists.ts';

const NodeBody = Type.Object(
  {
    id: Type.String({ description: 'Id of this run of the process.' }),
    host: Type.String({ examples: ['mail-1'] }),
    pid: Type.Integer({ examples: [4711] }),
    version: Type.String({ examples: ['0.3.0'] }),
    started_at: Instant(),
    seen_at: Instant('The last heartbeat.'),
    running: Flag('False if it was killed, or lost the database.'),
  },
  { title: 'Node', description: 'A process of the service.' },
);

const SettingBody = Type.Object(
  {
    key: Type.String({ examples: ['SMTP_PORT'] }),
    value: Type.Optional(Text('Absent if it is hidden, or has no value.', '2525')),
    set: Flag('Whether it was set; else its default holds.'),
    hidden: Flag('Whether it is secret, or may hold a secret.'),
  },
  { title: 'Setting', description: 'A key of the configuration, with the value in force.' },
);

const writeNode = writerOf(NodeBody);
const writeSetting = writerOf(SettingBody);

interface ShownSetting {
  readonly key: string;
  readonly isSet: boolean;
  readonly isHidden: boolean;
  readonly value?: string | undefined;
}

/** @param settings of the node that answers: without any secret value */
export function serviceRoutes(
  nodes: Pick<Nodes, 'list'>,
  settings: readonly ShownSetting[],
): RouteGroup {
  return (app) => {
    app.get('/v2/operator/nodes', {
      schema: {
        summary: 'List the nodes',
        description: 'Nodes of the last day that did not stop normally; the newest first.',
        operationId: 'listNodes',
        response: { 200: Type.Object({ items: Type.Array(NodeBody), limit: listEcho.limit }) },
      },
      handler: async () => {
        const found = await nodes.list();
        const items = found.map((node) => writeNode({ ...node, running: node.isRunning }));
        return { items, limit: items.length };
      },
    });
    app.get('/v2/operator/settings', {
      schema: {
        summary: 'List the settings in force',
        description:
          'The settings of the node that answers, in the order of the documentation. For a secret, and for a setting that may hold one, it only says whether it is set.',
        operationId: 'listSettings',
        response: { 200: Type.Object({ items: Type.Array(SettingBody), limit: listEcho.limit }) },
      },
      handler: async () => {
        const items = settings.map((one) =>
          writeSetting({ ...one, set: one.isSet, hidden: one.isHidden }),
        );
        return { items, limit: items.length };
      },
    });
  };
}

const Level = OneOf(
  LOG_LEVELS,
  'As LOG_LEVEL: lines of this level and more severe ones are written.',
  'debug',
);

interface LogLevelParts {
  readonly database: Pick<Database, 'write'>;
  readonly nodes: Pick<Nodes, 'changeLogLevel'>;
  /** Of this process. */
  readonly logger: Logger;
  /** The same on all nodes. */
  readonly now: () => EpochMs;
}

export function logLevelRoute({ database, nodes, logger, now }: LogLevelParts): RouteGroup {
  return (app) => {
    app.post('/v2/operator/log-level', {
      schema: {
        summary: 'Change the level of the log',
        description:
          'At once on the node that answers, within 5 seconds on the others. Each process keeps it until it ends; the next start uses LOG_LEVEL again.',
        operationId: 'changeLogLevel',
        body: Type.Object({ level: Level }),
        response: { 200: Type.Object({ level: Level }) },
      },
      handler: async (request) => {
        const { level } = request.body;
        const entry = { action: 'log_level.change', target: level, at: now() };
        await database.write(async (tx) => {
          await nodes.changeLogLevel(tx, level);
          await recordAudit(tx, actorOf(request), entry);
        });
        changeLevel(logger, level);
        return { level };
      },
    });
  };
}
