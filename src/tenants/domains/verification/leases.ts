/**
 * Which claims are due, and which node checks them. A claim that is being checked is leased to one node until
 * `lease_until`; the leases of a dead node run out. Each lease of a claim ends later than the one before, so the
 * instant identifies its owner.
 */
import type { Database, Queries } from '../../../platform/database/database.ts';
import { Refusal } from '../../../platform/errors/errors.ts';
import { type DomainStatus, lockClaim } from '../claims.ts';
import type { Whose } from '../owner.ts';

/** Longer than any check: lookups take 40 s at most, then it waits for the last answers. */
const LEASE_MS = 120_000;
/** The shortest time between two checks by hand. */
const CALL_INTERVAL_MS = 10_000;

/** A claim that is leased to this node. */
export interface LeasedClaim extends CheckedClaim {
  readonly id: number;
  readonly userId: string;
  readonly name: string;
  readonly nextCheckAt: number;
  readonly leaseUntil: number;
}

const columns = [
  'id',
  'user_id',
  'name',
  'status',
  'created_at',
  'lapsed_at',
  'next_check_at',
  'lease_until',
] as const;

/** Claims that are read at a time, to choose from. */
const CANDIDATES = 256;

/**
 * Leases the claims whose check is due for the longest time, at most `limit`.
 *
 * @param room how many more checks of a user may be under way
 */
export async function leaseDueClaims(
  database: Database,
  now: number,
  limit: number,
  room: { readonly ofOne: number; readonly spent: readonly string[] },
): Promise<LeasedClaim[]> {
  if (limit < 1) return [];
  for (;;) {
    const ids = await chooseDue(database.read, now, limit, room);
    // Where nothing is due, nothing is written.
    if (ids.length === 0) return [];
    const leased = await database.write((tx) => lease(tx, ids, now, 'due'));
    // Else another node has leased all of them meanwhile.
    if (leased.length > 0) return leased;
  }
}

async function chooseDue(
  queries: Queries,
  now: number,
  limit: number,
  room: { readonly ofOne: number; readonly spent: readonly string[] },
): Promise<number[]> {
  const ids: number[] = [];
  const spent = new Set(room.spent);
  for (;;) {
    // It steps over the claims of those who have their share: the index `domains_due` has all that it asks of them.
    const due = await queries
      .selectFrom('domains')
      .select(['id', 'user_id'])
      .where('next_check_at', '<=', now)
      .where('lease_until', '<=', now)
      .$if(spent.size > 0, (query) => query.where('user_id', 'not in', [...spent]))
      .orderBy('next_check_at')
      .orderBy('id')
      .limit(CANDIDATES)
      .execute();
    const byUser = Map.groupBy(due, ({ user_id }) => user_id);
    const allowed = new Set([...byUser.values()].flatMap((own) => own.slice(0, room.ofOne)));
    for (const one of due) {
      if (!allowed.has(one)) continue;
      ids.push(one.id);
      if (ids.length === limit) return ids;
    }
    // Where one user has more due than that, those of others come behind his: they are read without him.
    if (due.length < CANDIDATES) return ids;
    for (const userId of byUser.keys()) spent.add(userId);
  }
}

/**
 * Leases one claim of an owner, due or not, for a check that was started by hand.
 *
 * @returns undefined where it is being checked right now
 * @throws Refusal domain_not_found, rate_limited within 10 s of the last such call
 */
export function leaseClaim(
  database: Database,
  whose: Whose,
  name: string,
  now: number,
): Promise<LeasedClaim | undefined> {
  return database.write(async (tx) => {
    const { id } = await lockClaim(tx, database.engine, whose, name);
    const { verify_called_at: called } = await tx
      .selectFrom('domains')
      .select('verify_called_at')
      .where('id', '=', id)
      .executeTakeFirstOrThrow();
    const wait = called === null ? 0 : called + CALL_INTERVAL_MS - now;
    if (wait > 0) {
      throw new Refusal('rate_limited', 'the domain was checked less than 10 seconds ago', {
        // Never longer than the interval, also where the clock was set back.
        retryAfter: Math.ceil(Math.min(wait, CALL_INTERVAL_MS) / 1000),
      });
    }
    const [leased] = await lease(tx, [id], now, 'any');
    if (!leased) return undefined;
    await tx.updateTable('domains').set({ verify_called_at: now }).where('id', '=', id).execute();
    return leased;
  });
}

/** @param which `due`: without those that another node has checked since they were read */
async function lease(
  tx: Queries,
  ids: readonly number[],
  now: number,
  which: 'due' | 'any',
): Promise<LeasedClaim[]> {
  const rows = await tx
    .updateTable('domains')
    .set({ lease_until: now + LEASE_MS })
    .where('id', 'in', ids)
    .where('lease_until', '<=', now)
    .$if(which === 'due', (query) => query.where('next_check_at', '<=', now))
    .returning(columns)
    .execute();
  return rows.map((row) => ({
    id: row.id,
    userId: row.user_id,
    name: row.name,
    status: row.status,
    pendingSince: row.lapsed_at ?? row.created_at,
    nextCheckAt: row.next_check_at,
    leaseUntil: row.lease_until,
  }));
}

/** Releases a claim unchanged, so that it is due as before. */
export async function releaseClaim(database: Database, claim: LeasedClaim): Promise<void> {
  await database.write((tx) =>
    tx
      .updateTable('domains')
      .set({ lease_until: 0 })
      .where('id', '=', claim.id)
      .where('lease_until', '=', claim.leaseUntil)
      .execute(),
  );
}

/**
 * Ends a lease and sets the next check, unless the claim became due meanwhile (a record was returned to the checks):
 * then it stays due.
 */
export async function finishClaim(
  tx: Queries,
  claim: LeasedClaim,
  nextCheckAt: number,
): Promise<void> {
  await tx
    .updateTable('domains')
    .set(({ eb }) => ({
      lease_until: 0,
      next_check_at: eb
        .case()
        .when('next_check_at', '=', claim.nextCheckAt)
        .then(nextCheckAt)
        .else(eb.ref('next_check_at'))
        .end(),
    }))
    .where('id', '=', claim.id)
    .execute();
}

/* When a claim is checked next. Computed from instants in the database, so that a restart does not change it. */

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;

/** The first checks, counted from when the claim became pending. */
const FIRST_CHECKS = [30 * SECOND, MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE];
const EARLY_INTERVAL = 30 * MINUTE;
/** How long the owner of a zone has to change it, and old answers to expire, before a record fails. */
export const PATIENCE = 72 * HOUR;
const LATE_INTERVAL = 6 * HOUR;
const ACTIVE_INTERVAL = 24 * HOUR;
/** An active claim for which DNS did not answer is checked again before the next day. */
const ACTIVE_RETRY = HOUR;

/** Share of the long intervals by which checks come early, so that they spread over time. */
const SPREAD = 0.05;

export interface CheckedClaim {
  readonly status: DomainStatus;
  /** When the claim was made, or became pending again. */
  readonly pendingSince: number;
}

/**
 * The instant of the check after the one that ended at `now`.
 *
 * @param answered whether DNS answered every lookup
 * @param random from 0 to 1
 */
export function nextCheckAt(
  { status, pendingSince }: CheckedClaim,
  now: number,
  answered: boolean,
  random: number,
): number {
  const early = (interval: number) => Math.round(interval * (1 - SPREAD * random));
  if (status === 'active') return now + early(answered ? ACTIVE_INTERVAL : ACTIVE_RETRY);
  const elapsed = now - pendingSince;
  const first = FIRST_CHECKS.find((offset) => offset > elapsed);
  if (first !== undefined) return pendingSince + first;
  return now + early(elapsed < PATIENCE ? EARLY_INTERVAL : LATE_INTERVAL);
}
