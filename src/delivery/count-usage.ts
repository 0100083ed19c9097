/** What a message that is accepted counts as, for billing. */
import type { Counted } from '../usage/usage.ts';
import type { DeliveryPlan } from './resolve-recipient.ts';

/**
 * A message counts once for each account it is for, whether its mailbox or its domain's webhook gets it. What no
 * account gets counts for the domain: what is forwarded as coming in and going out.
 *
 * @param bytes octets of its source
 * @param refused accounts that do not get it
 */
export function usageOf(
  { users, webhooks, forwards, returns }: DeliveryPlan,
  bytes: number,
  refused: ReadonlySetLike<number>,
): Counted[] {
  const accounts = new Set(users.keys());
  const domains = new Map<number, { in: number; out: number }>();
  const add = (domainId: number, out: number) => {
    const sum = domains.get(domainId) ?? { in: 0, out: 0 };
    domains.set(domainId, { in: sum.in + 1, out: sum.out + out });
  };
  for (const { domain, users } of webhooks.values()) {
    for (const accountId of users.keys()) accounts.add(accountId);
    if (users.size === 0) add(domain.id, 0);
  }
  for (const { domain } of forwards.values()) add(domain.id, 1);
  for (const domain of returns.values()) add(domain.id, 1);
  return [
    ...[...accounts.difference(refused)].map((accountId) => ({
      accountId,
      messagesIn: 1,
      bytesIn: bytes,
    })),
    ...[...domains].map(([domainId, sum]) => ({
      domainId,
      messagesIn: sum.in,
      bytesIn: sum.in * bytes,
      messagesOut: sum.out,
      bytesOut: sum.out * bytes,
    })),
  ];
}
