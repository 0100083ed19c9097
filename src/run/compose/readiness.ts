/** What `/readyz` looks at. */
import type { Bodies } from '../../mailboxes/bodies/bodies.ts';
import type { ImapMailstore } from '../../mailboxes/mail-server/mail-server.ts';
import type { Database } from '../../platform/database/database.ts';
import type { Nodes } from '../../platform/nodes/nodes.ts';
import { diskReadiness } from './disk-readiness.ts';

/** The checks by name. */
export function readinessChecks(
  { database, nodes }: { readonly database: Database; readonly nodes: Nodes },
  served: {
    readonly bodies: Bodies;
    readonly imap: ImapMailstore | undefined;
    readonly progress: { readonly listening: boolean };
  },
) {
  return {
    database: () => answers(database),
    listeners: async () => served.progress.listening,
    bodies: () => served.bodies.readiness(),
    disk: diskReadiness(served.bodies, nodes),
    'mail server': async () => served.imap?.answers() ?? true,
  };
}

/** Whether the database answers a query and none has found damage; throws where it does not answer. */
async function answers(database: Database): Promise<boolean> {
  await database.read.selectFrom('settings').select('name').limit(1).execute();
  return !database.isDamaged;
}
