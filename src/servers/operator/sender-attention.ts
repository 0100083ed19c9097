/** What needs an operator about senders and mailboxes: who sends oddly, what bounces, and which mailboxes are full. */
import { findRecentFailures } from '../../mail/queue/queue.ts';
import { many } from '../../platform/errors/errors.ts';
import { DAY_MS } from '../../platform/time/time.ts';
import { findAnyAccount } from '../../tenants/accounts/accounts.ts';
import { findOddSenders, lastGauges, type OddSender, sumOfDay } from '../../tenants/usage/usage.ts';
import { namesBlockList } from './explain-reply.ts';
import type { NodeParts } from './node-attention.ts';

type Parts = Pick<NodeParts, 'database' | 'now'>;

export const SENDER_LIMITS = {
  /** The fewest recipients in an hour, how many times the busiest hour of the week before; then those of a day. */
  odd: { burst: 50, times: 10, day: 50, bounced: 0.1 },
  /** The fewest deliveries of sent and forwarded mail in 24 hours, and the parts of them that were given up. */
  service: { deliveries: 100, many: 0.05, tooMany: 0.1 },
} as const;

const most = ({ burst, bounces }: OddSender) => Math.max(burst?.out ?? 0, bounces?.out ?? 0);

export async function lookAtSenders({ database, now }: Parts) {
  const odd = await findOddSenders(database.read, now(), SENDER_LIMITS.odd);
  const [worst, ...others] = odd.toSorted((one, other) => most(other) - most(one));
  if (!worst) return undefined;
  const account = await findAnyAccount(database.read, worst.accountId);
  // Its mail of before stays counted.
  const address = account?.address ?? 'An account that was deleted';
  const { burst, bounces } = worst;
  const does = [
    burst &&
      `wrote to ${burst.out} recipients in an hour, and to ${burst.busiest} in its busiest hour of the week before`,
    bounces && `had ${bounces.bounced} of ${bounces.out} recipients bounce in 24 hours`,
  ].filter((part) => part !== undefined);
  const more = many(others.length, 'other account sends', 'other accounts send');
  const also = others.length === 0 ? '' : ` ${more} oddly, too.`;
  const hours = odd.flatMap(({ burst }) => burst?.hour ?? []);
  const query = burst ? '-sent_24h' : '-bounced_24h';
  return {
    text: `${address} ${does.join(', and ')}.${also}`,
    count: odd.length,
    ...(hours.length > 0 && { since: Math.min(...hours) }),
    link:
      account && others.length === 0 ? `/accounts/${worst.accountId}` : `/accounts?sort=${query}`,
  };
}

/**
 * @param from the part that was given up, from which on it counts
 * @param below from which on it is another rule's
 */
export async function lookAtBounces({ database, now }: Parts, from: number, below = Infinity) {
  const names = ['send:failed', 'forward:failed', 'send:delivered', 'forward:delivered'];
  const sums = await sumOfDay(database.read, now(), names);
  const sum = (outcome: string) =>
    (sums[`send:${outcome}`] ?? 0) + (sums[`forward:${outcome}`] ?? 0);
  const failed = sum('failed');
  const all = failed + sum('delivered');
  const share = failed / all;
  if (all < SENDER_LIMITS.service.deliveries || share < from || share >= below) return undefined;
  const percent = Math.floor(100 * share);
  return {
    text: `${percent} % of the ${all} deliveries of sent and forwarded mail that ended in 24 hours were given up: receivers may block this service.`,
    count: failed,
    link: '/accounts?sort=-bounced_24h',
  };
}

/** The most undelivered rows that are looked at, of each state. */
const LOOKED_AT = 5_000;

/** One answer is enough: on a block list of a large receiver all mail to its customers is lost. */
export async function lookAtBlockLists({ database, now }: Parts) {
  const failures = await findRecentFailures(database, now() - DAY_MS, LOOKED_AT);
  const listed = failures.filter(({ reason }) => namesBlockList(reason));
  const [newest] = listed;
  if (!newest) return undefined;
  const others = new Set(listed.map(({ destination }) => destination)).size - 1;
  const also = others === 0 ? '' : ` and ${many(others, 'other receiver')}`;
  return {
    text: `${newest.destination}${also} refused mail because of a block list: ${newest.reason}.`,
    count: listed.length,
    since: Math.min(...listed.map(({ createdAt }) => createdAt)),
    link: `/queue?q=is:${newest.status}`,
  };
}

/** As measured every five minutes. @throws where that was not done: then nobody knows */
export async function lookAtMailboxes({ database, now }: Parts) {
  const names = ['mailboxes:full', 'mailboxes:nearly_full'];
  const measured = await lastGauges(database.read, now(), names);
  const { 'mailboxes:full': full, 'mailboxes:nearly_full': nearly } = measured;
  if (full === undefined || nearly === undefined) throw new Error('mailboxes were not measured');
  if (full + nearly === 0) return undefined;
  const parts = [
    full > 0 &&
      `${many(full, 'account')} reached the quota: mail for ${full === 1 ? 'it' : 'them'} is deferred, and bounces later.`,
    nearly > 0 && `${many(nearly, 'account')} used 90 % of the quota.`,
  ].filter((part) => part !== false);
  return { text: parts.join(' '), count: full + nearly, link: '/accounts?sort=-quota_used' };
}
