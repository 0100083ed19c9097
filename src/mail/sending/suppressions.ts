/** Addresses that bounced for good: a domain's accounts can no longer write to them, to keep its reputation. */

import {
  countUpTo,
  type Database,
  type IdPage,
  type InTransaction,
  pageById,
  type Queries,
  type Row,
} from '../../platform/database/database.ts';
import type { EpochMs } from '../../platform/time/time.ts';
import { parseAddress } from '../../protocols/message/message.ts';
import { type Actor, recordAudit } from '../../tenants/audit/audit.ts';
import type { SendError } from '../outbound/outbound.ts';

export interface Suppression {
  readonly address: string;
  /** For people: why. */
  readonly detail: string;
  readonly createdAt: EpochMs;
}

/**
 * Whether the far end said that there is no such address (RFC 3463 section 3.2): only in its answer to RCPT, since
 * other answers are about the sender or the message. 5.1.7 and 5.1.8 are about the sender's address.
 */
export function isAddressGone({ enhancedStatus, answers }: SendError): boolean {
  return answers === 'recipient' && /^5\.1\.(?![78]$)\d{1,3}$/.test(enhancedStatus);
}

/** The one form for comparing addresses: far ends may be case-sensitive, but hardly any is. */
export function comparableAddress(text: string): string {
  const address = parseAddress(text);
  return address ? `${address.local.toLowerCase()}@${address.domain}` : text.toLowerCase();
}

/**
 * Adds an address to the list of a domain, in the transaction of a delivery of it: those of a deleted domain are removed
 * before its list. An existing entry does not change.
 */
export async function suppress(
  tx: Queries,
  domainId: number,
  { address, detail, createdAt }: Suppression,
): Promise<void> {
  await tx
    .insertInto('suppressions')
    .values({
      domain_id: domainId,
      address: comparableAddress(address),
      detail,
      created_at: createdAt,
    })
    .onConflict((conflict) => conflict.columns(['domain_id', 'address']).doNothing())
    .execute();
}

/** Addresses that are removed in one transaction. */
const REMOVED_AT_A_TIME = 500;

/** Removes some addresses of the list of a deleted domain. @returns how many were found */
export async function removeSuppressionsOf(tx: Queries, domainId: number): Promise<number> {
  const found = tx.selectFrom('suppressions').select('id').where('domain_id', '=', domainId);
  const ids = (await found.limit(REMOVED_AT_A_TIME).execute()).map(({ id }) => id);
  // Another node may remove the same ones first: then there may be more.
  if (ids.length > 0) await tx.deleteFrom('suppressions').where('id', 'in', ids).execute();
  return ids.length;
}

/** Those of the addresses that are on the list of a domain, by address as it was given. */
export async function findSuppressed(
  queries: Queries,
  domainId: number,
  addresses: readonly string[],
): Promise<Map<string, Suppression>> {
  const forms = new Map(addresses.map((address) => [address, comparableAddress(address)]));
  const rows = await queries
    .selectFrom('suppressions')
    .selectAll()
    .where('domain_id', '=', domainId)
    .where('address', 'in', [...new Set(forms.values())])
    .execute();
  const listed = new Map(rows.map((row) => [row.address, toSuppression(row)]));
  const found = new Map<string, Suppression>();
  for (const [address, form] of forms) {
    const suppression = listed.get(form);
    if (suppression) found.set(address, suppression);
  }
  return found;
}

function toSuppression(row: Row<'suppressions'>): Suppression {
  return { address: row.address, detail: row.detail, createdAt: row.created_at };
}

interface ListedSuppression extends Suppression {
  readonly id: number;
}

/** The lists of all domains, for operators. */
export class Suppressions {
  readonly #database: Database;
  readonly #now: () => number;

  /** @param now the same on all nodes */
  constructor(database: Database, now: () => EpochMs) {
    this.#database = database;
    this.#now = now;
  }

  /** Addresses in the order in which they were added. */
  async list(domainId: number, page: IdPage): Promise<ListedSuppression[]> {
    const rows = await pageById(this.#of(domainId).selectAll(), page).execute();
    return rows.map((row) => ({ id: row.id, ...toSuppression(row) }));
  }

  /** How many addresses the list of a domain has; `most` stands for as many or more. */
  count(domainId: number, most: number): Promise<number> {
    return countUpTo(this.#database.read, this.#of(domainId).select('address'), most);
  }

  #of(domainId: number) {
    return this.#database.read.selectFrom('suppressions').where('domain_id', '=', domainId);
  }

  /**
   * Removes an address from the list.
   *
   * @param by who is named in the audit log
   * @param within runs in the transaction
   * @returns the address as it was on the list; undefined where it was not
   */
  remove(
    domain: { readonly id: number; readonly name: string },
    address: string,
    by: Actor,
    within?: InTransaction<string>,
  ): Promise<string | undefined> {
    return this.#database.write(async (tx) => {
      const row = await tx
        .deleteFrom('suppressions')
        .where('domain_id', '=', domain.id)
        .where('address', '=', comparableAddress(address))
        .returning('address')
        .executeTakeFirst();
      if (!row) return undefined;
      const target = `${row.address} of ${domain.name}`;
      await recordAudit(tx, by, { action: 'suppression.delete', target, at: this.#now() });
      await within?.(tx, row.address);
      return row.address;
    });
  }
}
