/** The checks of `/readyz`. */
import type { Bodies } from '../../mailboxes/bodies/bodies.ts';
import type { ImapMailstore } from '../../mailboxes/mail-server/mail-server.ts';
import type { Database } from '../../platform/database/database.ts';
import type { Nodes } from '../../platform/nodes/nodes.ts';

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
    disk: diskReadiness(served.bodies, nodes, database),
    'mail server': async () => served.imap?.answers() ?? true,
  };
}

/** Whether the database answers a query, and none has found damage or a disk that fails; throws where it does not answer. */
async function answers(database: Database): Promise<boolean> {
  await database.read.selectFrom('settings').select('name').limit(1).execute();
  return !(database.isDamaged || database.isFailing);
}

/** Milliseconds for which the answer about the other nodes holds: each question writes, and anybody may ask `/readyz`. */
const ANSWER_MS = 1_000;

/**
 * A node whose disk is full sends mail to the others, where one has room. Alone, or where all are full, it still serves
 * what needs no disk: a balancer without a node serves nothing at all. The disk of PostgreSQL is the same for all.
 */
export function diskReadiness(
  bodies: Pick<Bodies, 'isDiskFull'>,
  nodes: Pick<Nodes, 'othersHave'>,
  database: Pick<Database, 'isDiskFull'>,
): () => Promise<boolean | 'degraded'> {
  let asked = { at: Number.NEGATIVE_INFINITY, answer: Promise.resolve(false) };
  return async () => {
    if (!(await bodies.isDiskFull())) return database.isDiskFull ? 'degraded' : true;
    const now = performance.now();
    if (now - asked.at >= ANSWER_MS) asked = { at: now, answer: nodes.othersHave('disk') };
    return (await asked.answer) ? false : 'degraded';
  };
}
