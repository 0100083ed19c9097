/** What is deleted with a domain or an account. */

import { countOpenDeliveries } from '../../mail/queue/queue.ts';
import { totalsOfAccounts, totalsOfDomains } from '../../mailboxes/mailstore/mailstore.ts';
import type { Database } from '../../platform/database/database.ts';
import { countAccounts } from '../../tenants/accounts/accounts.ts';
import type { ContentsCounter } from '../api/api.ts';

/** The counts of each kind. */
export interface ContentCounts extends Record<string, number> {
  readonly accounts: number;
  readonly messages: number;
  readonly bytes: number;
  /** Those that have not ended. */
  readonly deliveries: number;
}

export class DomainContents implements ContentsCounter {
  readonly #database: Pick<Database, 'read'>;

  constructor(database: Pick<Database, 'read'>) {
    this.#database = database;
  }

  /** Counts the contents of a claim. */
  async ofDomain(domainId: number): Promise<ContentCounts> {
    const { read } = this.#database;
    const [accounts, totals, deliveries] = await Promise.all([
      countAccounts(read, [domainId]),
      totalsOfDomains(read, [domainId]),
      countOpenDeliveries(read, domainId),
    ]);
    return {
      accounts: accounts.get(domainId) ?? 0,
      ...(totals.get(domainId) ?? { messages: 0, bytes: 0 }),
      deliveries,
    };
  }

  /** Counts the contents of an account. */
  async ofAccount(accountId: number): Promise<Record<string, number>> {
    const totals = await totalsOfAccounts(this.#database.read, [accountId]);
    return { ...(totals.get(accountId) ?? { messages: 0, bytes: 0 }) };
  }
}
