import type { Queries } from '../../platform/database/database.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import type { EpochMs } from '../../platform/time/time.ts';
import { type Domain, toDomain } from './claims.ts';
import type { NewDkimKey } from './dns-records.ts';

export interface NewDomain {
  readonly userId: string;
  readonly organizationId?: string | undefined;
  readonly domain: string;
}

/** @throws Refusal domain_exists */
export async function insertClaim(
  tx: Queries,
  input: NewDomain,
  key: NewDkimKey,
  now: EpochMs,
): Promise<Domain> {
  const row = await tx
    .insertInto('domains')
    .values({
      user_id: input.userId,
      organization_id: input.organizationId ?? null,
      name: input.domain,
      status: 'pending',
      dkim_selector: key.selector,
      dkim_private_key: key.privateKey,
      created_at: now,
      next_check_at: now,
      could_send: 0,
      could_send_since: now,
    })
    .onConflict((conflict) => conflict.columns(['user_id', 'name']).doNothing())
    .returningAll()
    .executeTakeFirst();
  if (!row) throw domainExists(input.domain);
  return toDomain(row);
}

export function domainExists(name: string): Refusal {
  return new Refusal('domain_exists', `the user has ${name} already`);
}
