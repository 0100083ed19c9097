/** Which nodes may run beside each other: those whose settings agree. */
import type { Row } from '../database/database.ts';

/** A node that was silent for longer than this, in milliseconds, is taken for gone. */
export const GONE_MS = 20_000;

/** What a node reports about itself. */
export interface NodeFacts {
  /** Version of the program. */
  readonly version: string;
  /** Whether it receives the changes that other nodes make. */
  readonly hasEvents: boolean;
  /** Whether it has its bodies where other nodes read them. */
  readonly sharesBodies: boolean;
  /**
   * The settings that must be equal on all nodes, by key. A secret is a digest that begins with `#`. Where it has
   * several values, the first signs: each node has to know that of the others, so that keys can be changed one node
   * after the other.
   */
  readonly settings: Readonly<Record<string, readonly string[]>>;
  /** Those of them that may have several values. */
  readonly lists: readonly string[];
  /** Those of these that sign nothing here: one value in common is enough. */
  readonly accepted: readonly string[];
}

function knowEachFirst(
  [our = '', ...ours]: readonly string[],
  [their = '', ...theirs]: readonly string[],
): boolean {
  return our === their || (ours.includes(their) && theirs.includes(our));
}

/* How a key is changed one node after the other. */
const ACCEPTED = 'give this node both values ("new,old"), or ';
const SIGNING = 'give each node "old,new" and then each "new,old", or ';

/** Several may run on one machine. */
export const nameNode = ({ host, pid }: Pick<Row<'nodes'>, 'host' | 'pid'>) =>
  `the node that runs on ${host} (process ${pid})`;

/** Why a node may not run beside another one; undefined where it may. */
export function judge(facts: NodeFacts, other: Row<'nodes'>): string | undefined {
  const where = nameNode(other);
  // Of another version, perhaps: it may not know each key.
  const theirs: Readonly<Record<string, readonly string[] | undefined>> = JSON.parse(
    other.settings,
  );
  for (const [key, values] of Object.entries(facts.settings)) {
    const held = theirs[key];
    const isAccepted = facts.accepted.includes(key);
    if (!held) continue;
    const agrees = isAccepted
      ? held.some((value) => values.includes(value))
      : knowEachFirst(values, held);
    if (agrees) continue;
    const steps = !facts.lists.includes(key) ? '' : isAccepted ? ACCEPTED : SIGNING;
    const isSecret = values.some((value) => value.startsWith('#'));
    const [expected, got] = isSecret
      ? [steps === SIGNING ? 'the first value' : 'the value', 'another one']
      : [held, values].map((list) => list.map((value) => JSON.stringify(value)).join(','));
    return `${key}: expected ${expected} that ${where} has, got ${got}; to change it, ${steps}stop all nodes first (a node that was killed still counts as running for ${GONE_MS / 1000} s)`;
  }
  const expected = 'REDIS_URL: expected one Redis for all nodes that share a database';
  if (!facts.hasEvents) return `${expected}, got nothing here while ${where} runs`;
  if (other.has_events === 0) return `${expected}, got nothing on ${where}: stop that one`;
  // The other has none either: S3_URL is one of the settings.
  if (!facts.sharesBodies) {
    return `S3_URL: expected one bucket for all nodes that share a database, got nothing while ${where} runs`;
  }
  return undefined;
}
