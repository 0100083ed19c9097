/** What a verdict makes of a record's status: the rules that keep a flap of DNS from doing harm. */
import type { DnsRecordStatus } from '../dns-records.ts';
import { type CheckedClaim, PATIENCE } from './schedule.ts';
import type { Verdict } from './verdict.ts';

/** Answers in a row that must miss before a record of an active claim fails. */
const MISSES_MAX = 3;

/** What is kept of a record from check to check. */
export interface RecordState {
  readonly status: DnsRecordStatus;
  /** Answers in a row that missed. */
  readonly misses: number;
  /** When the first of them came. */
  readonly failingSince: number | undefined;
}

/**
 * The state after a check. Only for records that were not marked by hand.
 *
 * - What could not be asked changes nothing.
 * - A pending claim's record is `verified` or not by each answer; what is not verified is `failed`
 *   once the claim has been pending for longer than 72 hours.
 * - An active claim's record fails with the third answer in a row that misses.
 */
export function settleRecord(
  state: RecordState,
  verdict: Verdict,
  claim: CheckedClaim,
  now: number,
): RecordState {
  if (verdict.outcome === 'unknown') return state;
  if (verdict.outcome === 'match')
    return { status: 'verified', misses: 0, failingSince: undefined };
  const misses = state.misses + 1;
  return {
    status: statusAfterMiss(state.status, misses, claim, now),
    misses,
    failingSince: state.failingSince ?? now,
  };
}

function statusAfterMiss(
  status: DnsRecordStatus,
  misses: number,
  claim: CheckedClaim,
  now: number,
): DnsRecordStatus {
  if (claim.status === 'active') return misses >= MISSES_MAX ? 'failed' : status;
  if (now - claim.pendingSince > PATIENCE) return 'failed';
  // What failed before the claim was active, or while it was, stays so until it matches.
  return status === 'failed' ? 'failed' : 'pending';
}
