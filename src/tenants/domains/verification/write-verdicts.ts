/** Writes the results of a check, and what follows from them, in one transaction. */
import type { Database, Queries } from '../../../platform/database/database.ts';
import {
  type ClaimChanges,
  CONTESTED_INTERVAL,
  type Domain,
  evaluateName,
  lockName,
} from '../claims.ts';
import { exchangeKeys, findRotationDue } from '../dkim-rotation.ts';
import { type DnsRecordStatus, type LastCheck, MISSES_MAX } from '../dns-records.ts';
import { type CheckedClaim, FAILS_AFTER, nextCheckAt, type ReadClaim } from './due-claims.ts';
import { limitText, type Verdict } from './judge-records.ts';

/** What a check has changed; logged after the commit. */
interface Written extends ClaimChanges {
  /** The claim whose mail is signed with the key of another selector from now on. */
  readonly exchanged?: { readonly claim: Domain; readonly selector: string };
}

/**
 * Updates each record that has a verdict and was not marked meanwhile, evaluates the name and sets the next check.
 *
 * @param verdicts by the records' ids
 * @param random from 0 to 1, spreads the checks
 * @returns undefined, with nothing written, where another check of the claim ended meanwhile, or the claim was returned
 *   to the checks or deleted: then the time of its next check is another one
 */
export function writeVerdicts(
  database: Database,
  { id, name, nextCheckAt: wasDueAt }: ReadClaim,
  verdicts: ReadonlyMap<number, Verdict>,
  now: number,
  random: number,
): Promise<Written | undefined> {
  return database.write(async (tx) => {
    const claims = await lockName(tx, name);
    const claim = claims.find((one) => one.id === id);
    if (!claim || !(await isDueAt(tx, id, wasDueAt))) return undefined;
    const pendingSince = claim.lapsedAt ?? claim.createdAt;
    await settleRecords(tx, { status: claim.status, pendingSince }, id, verdicts, now);
    const selector = await exchangeKeys(tx, id, now);
    const { changes, sending, contestedId } = await evaluateName(tx, name, now);
    const change = changes.find((one) => one.id === id);
    const after = {
      status: change?.new ?? claim.status,
      pendingSince: change?.new === 'pending' ? now : pendingSince,
    };
    const answered = [...verdicts.values()].every(({ outcome }) => outcome !== 'unknown');
    const contested = contestedId === id ? now + CONTESTED_INTERVAL : undefined;
    const { waitsSince, deleteAt } = await findRotationDue(tx, id);
    const next = [
      contested ?? nextCheckAt(after, now, answered, random),
      ...(waitsSince === undefined
        ? []
        : [nextCheckAt(waiting(waitsSince), now, answered, random)]),
      ...(deleteAt === undefined ? [] : [deleteAt]),
    ];
    const next_check_at = Math.min(...next);
    await tx.updateTable('domains').set({ next_check_at }).where('id', '=', id).execute();
    return { changes, sending, ...(selector !== undefined && { exchanged: { claim, selector } }) };
  });
}

/** A next DKIM key is treated like the records of a new claim. */
function waiting(since: number): CheckedClaim {
  return { status: 'pending', pendingSince: since };
}

async function isDueAt(tx: Queries, id: number, time: number): Promise<boolean> {
  const { next_check_at } = await tx
    .selectFrom('domains')
    .select('next_check_at')
    .where('id', '=', id)
    .executeTakeFirstOrThrow();
  return next_check_at === time;
}

const LAST_CHECKS: Readonly<Record<Verdict['outcome'], LastCheck>> = {
  match: 'ok',
  mismatch: 'missed',
  absent: 'missed',
  unknown: 'unanswered',
};

async function settleRecords(
  tx: Queries,
  claim: CheckedClaim,
  domainId: number,
  verdicts: ReadonlyMap<number, Verdict>,
  now: number,
): Promise<void> {
  const rows = await tx
    .selectFrom('dns_records')
    .select(['id', 'status', 'misses', 'failing_since', 'key_state', 'key_since'])
    .where('domain_id', '=', domainId)
    .where('marked', '=', 0)
    .execute();
  for (const { id, status, misses, failing_since, key_state, key_since } of rows) {
    const verdict = verdicts.get(id);
    if (!verdict) continue;
    const state = { status, misses, failingSince: failing_since ?? undefined };
    const judged = key_state === 'next' ? waiting(key_since ?? now) : claim;
    const after = settleRecord(state, verdict, judged, now);
    await tx
      .updateTable('dns_records')
      .set({
        status: after.status,
        misses: after.misses,
        failing_since: after.failingSince ?? null,
        detail: limitText(verdict.detail),
        last_checked_at: now,
        last_check: LAST_CHECKS[verdict.outcome],
        ...(verdict.outcome === 'unknown' ? {} : { observed_value: verdict.observed }),
      })
      .where('id', '=', id)
      .execute();
  }
}

/* How a verdict changes a record's status: these rules keep a short failure of DNS from doing harm. */

/** The state of a record between two checks. */
export interface RecordState {
  readonly status: DnsRecordStatus;
  /** Failing answers in a row. */
  readonly misses: number;
  /** When the first of them came. */
  readonly failingSince: number | undefined;
}

/**
 * The state after a check. Only for records that were not marked by hand.
 *
 * - A record without an answer does not change.
 * - A pending claim's record is `verified` or not by each answer; a record that is not verified is `failed` after the
 *   claim has been pending for longer than 72 hours.
 * - An active claim's record fails with the third failing answer in a row.
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
  if (now - claim.pendingSince > FAILS_AFTER) return 'failed';
  // A record that failed, before the claim was active or later, stays failed until it matches.
  return status === 'failed' ? 'failed' : 'pending';
}
