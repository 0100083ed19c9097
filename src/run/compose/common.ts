import type { Logger } from 'pino';
import type { Bodies } from '../../mailboxes/bodies/bodies.ts';
import type { Changes } from '../../mailboxes/changes/changes.ts';
import type { Database } from '../../platform/database/database.ts';
import type { OpenLimit } from '../../platform/net/net.ts';
import type { Nodes } from '../../platform/nodes/nodes.ts';
import type { EpochMs } from '../../platform/time/time.ts';
import type { Metrics } from '../../servers/metrics/metrics.ts';
import type { Config, Secrets } from '../config/config.ts';
import type { Keys } from './node-facts.ts';

/** What every part is built with. */
export interface Common {
  readonly config: Config;
  readonly secrets: Secrets;
  readonly keys: Keys;
  readonly database: Database;
  readonly bodies: Bodies;
  readonly changes: Changes;
  /** Where requests and logins are counted. */
  readonly openLimit: OpenLimit;
  readonly metrics: Metrics;
  readonly logger: Logger;
  readonly nodes: Nodes;
  /** The same on all nodes. */
  readonly now: () => EpochMs;
}
