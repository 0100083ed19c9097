/** When a claim is checked next. Computed from instants in the database, so that it survives a restart. */
import type { DomainStatus } from '../claims.ts';

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;

/** The first checks, counted from when the claim became pending. */
const FIRST_CHECKS = [30 * SECOND, MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE];
const EARLY_INTERVAL = 30 * MINUTE;
/** How long zones have to be changed and their old answers to expire before a record fails. */
export const PATIENCE = 72 * HOUR;
const LATE_INTERVAL = 6 * HOUR;
const ACTIVE_INTERVAL = 24 * HOUR;
/** An active claim that DNS could not be asked about has not had its daily check yet. */
const ACTIVE_RETRY = HOUR;

/** Share of the long intervals by which checks come early, so that they spread over time. */
const SPREAD = 0.05;

export interface CheckedClaim {
  readonly status: DomainStatus;
  /** When the claim was made, or fell back to pending. */
  readonly pendingSince: number;
}

/**
 * The instant of the check after the one that ended at `now`.
 *
 * @param answered whether DNS answered every question
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
