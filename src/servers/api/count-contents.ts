/** What is deleted with a domain or an account. */
import { countOpenDeliveries } from '../../mail/queue/queue.ts';
import { totalsOfAccounts, totalsOfDomains } from '../../mailboxes/mailstore/mailstore.ts';
import type { Queries } from '../../platform/database/database.ts';
import { countAccounts } from '../../tenants/accounts/accounts.ts';

/** Counts the contents of a claim; its deliveries are those that have not ended. */
export async function contentsOfDomain(queries: Queries, domainId: number) {
  const [accounts, totals, deliveries] = await Promise.all([
    countAccounts(queries, [domainId]),
    totalsOfDomains(queries, [domainId]),
    countOpenDeliveries(queries, domainId),
  ]);
  return {
    accounts: accounts.get(domainId) ?? 0,
    ...(totals.get(domainId) ?? { messages: 0, bytes: 0 }),
    deliveries,
  };
}

/** Counts the contents of an account. */
export async function contentsOfAccount(queries: Queries, accountId: number) {
  const totals = await totalsOfAccounts(queries, [accountId]);
  return { ...(totals.get(accountId) ?? { messages: 0, bytes: 0 }) };
}
