/**
 * A new DKIM key for a claim, without a gap. The claim's row has the key that signs. During a rotation a second DKIM
 * record has the next key (`key_state` is `next`). The transaction that finds this record verified exchanges the two
 * keys: the new one signs from then on. The record of the former key (`old`) stays listed for a week, because
 * receivers of mail that is still on its way look it up. After that the record and the key are deleted.
 */
import type { Queries } from '../../platform/database/database.ts';
import { checkNow, dkimHost, KEEP_OLD_KEY_MS, type NewDkimKey } from './dns-records.ts';

/** Whether a next key of a claim waits for its DNS record. */
export async function hasNextKey(queries: Queries, domainId: number): Promise<boolean> {
  const row = await queries
    .selectFrom('dns_records')
    .select('id')
    .where('domain_id', '=', domainId)
    .where('key_state', '=', 'next')
    .executeTakeFirst();
  return row !== undefined;
}

/** Gives a claim its next key, whose record is checked at once. The caller has locked the claim, which has none yet. */
export async function addNextKey(
  tx: Queries,
  domainId: number,
  key: NewDkimKey,
  now: number,
): Promise<void> {
  await tx
    .insertInto('dns_records')
    .values({
      domain_id: domainId,
      purpose: 'dkim',
      record_type: 'TXT',
      host: dkimHost(key.selector),
      expected_value: key.txtValue,
      status: 'pending',
      marked: 0,
      key_state: 'next',
      key_since: now,
      dkim_private_key: key.privateKey,
    })
    .execute();
  await checkNow(tx, domainId, now);
}

/**
 * Lets the next key sign once its record is verified, and deletes old keys whose time is over. The caller has locked
 * the claim and updated its records.
 *
 * @returns the selector that signs from now on, or undefined where nothing changed
 */
export async function exchangeKeys(
  tx: Queries,
  domainId: number,
  now: number,
): Promise<string | undefined> {
  await tx
    .deleteFrom('dns_records')
    .where('domain_id', '=', domainId)
    .where('key_state', '=', 'old')
    .where('key_since', '<=', now - KEEP_OLD_KEY_MS)
    .execute();
  const next = await tx
    .selectFrom('dns_records')
    .select(['id', 'host', 'dkim_private_key'])
    .where('domain_id', '=', domainId)
    .where('key_state', '=', 'next')
    .where('status', '=', 'verified')
    .executeTakeFirst();
  if (!next?.dkim_private_key) return undefined;
  const former = await tx
    .selectFrom('domains')
    .select(['dkim_selector', 'dkim_private_key'])
    .where('id', '=', domainId)
    .executeTakeFirstOrThrow();
  const [selector = ''] = next.host.split('.');
  await tx
    .updateTable('dns_records')
    .set({ key_state: 'old', key_since: now, dkim_private_key: former.dkim_private_key })
    .where('domain_id', '=', domainId)
    .where('host', '=', dkimHost(former.dkim_selector))
    .execute();
  await tx
    .updateTable('dns_records')
    .set({ key_state: null, key_since: null, dkim_private_key: null })
    .where('id', '=', next.id)
    .execute();
  await tx
    .updateTable('domains')
    .set({ dkim_selector: selector, dkim_private_key: next.dkim_private_key })
    .where('id', '=', domainId)
    .execute();
  return selector;
}

/** When the next step of a claim's rotation is due. */
export interface RotationDue {
  /** Since when a next key waits for its record. */
  readonly waitsSince?: number;
  /** When an old key is deleted. */
  readonly deleteAt?: number;
}

export async function findRotationDue(queries: Queries, domainId: number): Promise<RotationDue> {
  const rows = await queries
    .selectFrom('dns_records')
    .select(['key_state', 'key_since'])
    .where('domain_id', '=', domainId)
    .where('key_state', 'is not', null)
    .orderBy('key_since')
    .execute();
  const since = (state: 'next' | 'old') =>
    rows.find(({ key_state }) => key_state === state)?.key_since ?? undefined;
  const [waitsSince, oldSince] = [since('next'), since('old')];
  return {
    ...(waitsSince !== undefined && { waitsSince }),
    ...(oldSince !== undefined && { deleteAt: oldSince + KEEP_OLD_KEY_MS }),
  };
}
