import type { Bodies } from '../../mailboxes/bodies/bodies.ts';
import type { Nodes } from '../../platform/nodes/nodes.ts';

/** Milliseconds for which the answer about the other nodes holds: each question writes, and anybody may ask `/readyz`. */
const ANSWER_MS = 1_000;

/**
 * A node whose disk is full sends mail to the others, where one has room. Alone, or where all are full, it still serves
 * what needs no disk: a balancer without a node serves nothing at all.
 */
export function diskReadiness(
  bodies: Pick<Bodies, 'isDiskFull'>,
  nodes: Pick<Nodes, 'othersHave'>,
): () => Promise<boolean | 'degraded'> {
  let asked = { at: Number.NEGATIVE_INFINITY, answer: Promise.resolve(false) };
  return async () => {
    if (!(await bodies.isDiskFull())) return true;
    const now = performance.now();
    if (now - asked.at >= ANSWER_MS) asked = { at: now, answer: nodes.othersHave('disk') };
    return (await asked.answer) ? false : 'degraded';
  };
}
