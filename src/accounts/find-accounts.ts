import { sql } from 'kysely';
import type { Database, Queries } from '../database/database.ts';
import { readAddress } from './local-parts.ts';

/**
 * Finds the accounts of many addresses in one query: those on claims that are active now, suspended
 * accounts too. Case does not count, a `+tag` does.
 *
 * @returns account ids by address as it was given; without those that are nobody's
 */
export async function findAccounts(
  { engine, read }: Pick<Database, 'engine' | 'read'>,
  addresses: readonly string[],
): Promise<Map<string, number>> {
  const given: string[] = [];
  const pairs: [localPart: string, domain: string][] = [];
  for (const address of addresses) {
    const parts = readAddress(address);
    if (!parts) continue;
    given.push(address);
    pairs.push([parts.localPart, parts.domain]);
  }
  const found = new Map<string, number>();
  if (pairs.length === 0) return found;
  for (const { position, id } of await selectIds(read, engine, JSON.stringify(pairs))) {
    const address = given[position];
    if (address !== undefined) found.set(address, id);
  }
  return found;
}

/** The one place where the engines unpack an array in their own way; positions count from 0. */
async function selectIds(queries: Queries, engine: Database['engine'], pairs: string) {
  const wanted =
    engine === 'sqlite'
      ? sql`select key as position, value ->> 0 as local_part, value ->> 1 as domain
            from json_each(${pairs})`
      : sql`select position - 1 as position, pair ->> 0 as local_part, pair ->> 1 as domain
            from jsonb_array_elements(${pairs}::jsonb) with ordinality as pairs (pair, position)`;
  const { rows } = await sql<{ position: number; id: number }>`
    select wanted.position, accounts.id
    from (${wanted}) as wanted
    join domains on domains.name = wanted.domain and domains.status = 'active'
    join accounts
      on accounts.domain_id = domains.id and accounts.local_part = wanted.local_part
  `.execute(queries);
  return rows;
}
