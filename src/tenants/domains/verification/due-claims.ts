/** Which claims are due, and when a claim is checked next. */
import type { Database, Queries } from '../../../platform/database/database.ts';
import { Refusal } from '../../../platform/errors/errors.ts';
import { HOUR_MS, MINUTE_MS, SECOND_MS } from '../../../platform/time/time.ts';
import { type DomainStatus, lockClaim } from '../claims.ts';
import type { Whose } from '../owner.ts';

/** The shortest time between two checks by hand. */
const CALL_INTERVAL_MS = 10_000;

/** A claim as it was when its check began. */
export interface ReadClaim extends CheckedClaim {
  readonly id: number;
  readonly userId: string;
  readonly name: string;
  readonly nextCheckAt: number;
}

/** Claims that are read at a time, to choose from. */
const CANDIDATES = 256;

/**
 * The claims whose check is due for the longest time, at most `limit`, without those that are being checked.
 *
 * @param room.ofOne how many more checks of one user may begin
 * @param room.spent users whose share is used up
 * @param room.underWay claims that are being checked
 */
export async function chooseDue(
  queries: Queries,
  now: number,
  limit: number,
  room: {
    readonly ofOne: number;
    readonly spent: readonly string[];
    readonly underWay: readonly number[];
  },
): Promise<number[]> {
  const ids: number[] = [];
  if (limit < 1) return ids;
  const spent = new Set(room.spent);
  for (;;) {
    // It steps over the claims of those who have their share: the index `domains_due` has all that it asks of them.
    const due = await queries
      .selectFrom('domains')
      .select(['id', 'user_id'])
      .where('next_check_at', '<=', now)
      .$if(room.underWay.length > 0, (query) => query.where('id', 'not in', room.underWay))
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

export async function readClaims(queries: Queries, ids: readonly number[]): Promise<ReadClaim[]> {
  if (ids.length === 0) return [];
  return queries
    .selectFrom('domains')
    .select(['id', 'user_id as userId', 'name', 'status', 'next_check_at as nextCheckAt'])
    .select(({ fn }) => fn.coalesce('lapsed_at', 'created_at').as('pendingSince'))
    .where('id', 'in', ids)
    .execute();
}

/**
 * Notes that a check of a claim was started by hand.
 *
 * @returns the claim's id
 * @throws Refusal domain_not_found, rate_limited within 10 s of the last such call
 */
export function noteCall(
  database: Database,
  whose: Whose,
  name: string,
  now: number,
): Promise<number> {
  return database.write(async (tx) => {
    const { id } = await lockClaim(tx, whose, name);
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
    await tx.updateTable('domains').set({ verify_called_at: now }).where('id', '=', id).execute();
    return id;
  });
}

/* When a claim is checked next. Computed from instants in the database, so that a restart does not change it. */

/** The first checks, counted from when the claim became pending. */
const FIRST_CHECKS = [30 * SECOND_MS, MINUTE_MS, 2 * MINUTE_MS, 5 * MINUTE_MS, 10 * MINUTE_MS];
const EARLY_INTERVAL = 30 * MINUTE_MS;
/** How long the owner of a zone has to change it, and old answers to expire, before a record fails. */
export const FAILS_AFTER = 72 * HOUR_MS;
const LATE_INTERVAL = 6 * HOUR_MS;
const ACTIVE_INTERVAL = 24 * HOUR_MS;
/** An active claim for which DNS did not answer is checked again before the next day. */
const ACTIVE_RETRY = HOUR_MS;

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
  return now + early(elapsed < FAILS_AFTER ? EARLY_INTERVAL : LATE_INTERVAL);
}
