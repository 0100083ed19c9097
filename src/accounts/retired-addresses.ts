/**
 * Addresses whose account was deleted a moment ago.
 *
 * A token names an address and a whole second (`iat`, RFC 7519 section 4.1.6). Where an account is
 * deleted and made anew within one second, that second does not tell which of the two a token
 * meant; the successor then takes tokens from the next second on. After that the `iat` is enough,
 * so a row is kept for a minute only.
 */
import type { Queries } from '../database/database.ts';

const SECOND_MS = 1000;
const KEPT_MS = 60 * SECOND_MS;

/** SQLite takes 32,766 parameters in a statement. */
const ROWS_AT_ONCE = 1000;

/** Remembers addresses that are deleted in this transaction. */
export async function retireAddresses(
  tx: Queries,
  addresses: readonly string[],
  now: number,
): Promise<void> {
  await tx
    .deleteFrom('retired_addresses')
    .where('retired_at', '<', now - KEPT_MS)
    .execute();
  const rows = addresses.map((address) => ({ address, retired_at: now }));
  for (let at = 0; at < rows.length; at += ROWS_AT_ONCE) {
    await tx
      .insertInto('retired_addresses')
      .values(rows.slice(at, at + ROWS_AT_ONCE))
      .onConflict((conflict) => conflict.column('address').doUpdateSet({ retired_at: now }))
      .execute();
  }
}

/** The `tokens_from` of an account that is made now. */
export async function tokensFrom(tx: Queries, address: string, now: number): Promise<number> {
  const second = Math.floor(now / SECOND_MS) * SECOND_MS;
  const retired = await tx
    .selectFrom('retired_addresses')
    .select('retired_at')
    .where('address', '=', address)
    .where('retired_at', '>=', second)
    .executeTakeFirst();
  return retired ? second + SECOND_MS : 0;
}
