/**
 * Addresses that had an account before, so that a token which named that one never opens another.
 *
 * A token of the operator's names an address and, mostly, the whole second it was issued in (`iat`,
 * RFC 7519 section 4.1.6). An account at an address that never had another takes both kinds. Where
 * there was another, `accounts.tokens_from` says from which instant on tokens are meant for this
 * account, and one that does not say when it was issued is not taken at all.
 *
 * The issuer's clock may be ahead of ours by {@link CLOCK_SKEW_SECONDS}. The last token of the earlier
 * account may therefore have an `iat` that lies so far after the end of that account. The successor
 * takes tokens from the second after that ({@link afterLastToken}): until then, apps with tokens of the
 * operator's have to wait.
 */
import type { Queries } from '../database/database.ts';
import { CLOCK_SKEW_SECONDS } from './token-keys.ts';

const SECOND_MS = 1000;

/** SQLite takes 32,766 parameters in a statement. */
const ROWS_AT_ONCE = 1000;

/** Remembers addresses that are deleted in this transaction, for good. */
export async function retireAddresses(
  tx: Queries,
  addresses: readonly string[],
  now: number,
): Promise<void> {
  const rows = addresses.map((address) => ({ address, retired_at: now }));
  for (let at = 0; at < rows.length; at += ROWS_AT_ONCE) {
    await tx
      .insertInto('retired_addresses')
      .values(rows.slice(at, at + ROWS_AT_ONCE))
      .onConflict((conflict) => conflict.column('address').doUpdateSet({ retired_at: now }))
      .execute();
  }
}

/** The first second that no token of an account names which ended at this instant, in milliseconds. */
export function afterLastToken(endedAt: number): number {
  return (Math.floor(endedAt / SECOND_MS) + CLOCK_SKEW_SECONDS + 1) * SECOND_MS;
}

/** The `tokens_from` of an account that is made now; 0 where the address never had another. */
export async function tokensFrom(
  tx: Queries,
  localPart: string,
  domain: string,
  now: number,
): Promise<number> {
  const second = Math.floor(now / SECOND_MS) * SECOND_MS;
  const retired = await tx
    .selectFrom('retired_addresses')
    .select('retired_at')
    .where('address', '=', `${localPart}@${domain}`)
    .executeTakeFirst();
  const hasRivals = await bindRivals(tx, localPart, domain, now);
  if (await isBeingRetired(tx, localPart, domain)) return afterLastToken(now);
  if (retired) return Math.max(second, afterLastToken(retired.retired_at));
  return hasRivals ? second : 0;
}

/** Whether an account of a deleted domain has the address, and is about to be deleted with it. */
async function isBeingRetired(tx: Queries, localPart: string, domain: string): Promise<boolean> {
  const row = await tx
    .selectFrom('accounts')
    .innerJoin('deleted_domains', 'deleted_domains.id', 'accounts.domain_id')
    .select('accounts.id')
    .where('accounts.domain_name', '=', domain)
    .where('accounts.local_part', '=', localPart)
    .executeTakeFirst();
  return row !== undefined;
}

/**
 * Accounts of the same address on claims that are not active any more: were they to come back, the
 * tokens of the time in between must not open them.
 *
 * @returns whether there are any
 */
async function bindRivals(
  tx: Queries,
  localPart: string,
  domain: string,
  now: number,
): Promise<boolean> {
  const { numUpdatedRows } = await tx
    .updateTable('accounts')
    .set({ tokens_from: afterLastToken(now) })
    .where('domain_name', '=', domain)
    .where('local_part', '=', localPart)
    .executeTakeFirst();
  return numUpdatedRows > 0n;
}
