/** Whether database and bodies belong together, before any mail is accepted. */
import { setTimeout as pause } from 'node:timers/promises';
import type { Bodies } from '../../mailboxes/bodies/bodies.ts';
import type { Nodes } from '../../platform/nodes/nodes.ts';
import { ConfigError } from '../config/config.ts';

/** How long a node that starts beside others waits until the first one has marked the new bucket. */
const MARK_WITHIN_MS = 10_000;
const LOOK_MS = 500;

/**
 * Compares the ids of database and bodies. A node that runs alone starts in any case, and accepts no mail where the
 * ids differ. One that starts beside others gives the first of them time to mark a new bucket, and only then says what
 * is wrong.
 *
 * @param isNew whether nothing was set up in the database yet: then the first node marks an empty store
 * @throws ConfigError where other nodes have another bucket
 */
export async function checkBodies(
  bodies: Pick<Bodies, 'checkStore'>,
  { isAlone }: Pick<Nodes, 'isAlone'>,
  isNew: boolean,
): Promise<void> {
  let mismatch = await bodies.checkStore(isNew && isAlone, !isAlone);
  for (let waited = 0; mismatch && !isAlone; waited += LOOK_MS) {
    if (waited >= MARK_WITHIN_MS) {
      throw new ConfigError([`S3_URL: expected one bucket for all nodes; ${mismatch}`]);
    }
    await pause(LOOK_MS);
    mismatch = await bodies.checkStore(false, true);
  }
}
