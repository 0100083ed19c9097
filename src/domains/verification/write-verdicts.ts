/** Writes what a check came to, and what follows from it, in one transaction. */
import type { Database, Queries } from '../../database/database.ts';
import {
  CONTESTED_INTERVAL,
  type Domain,
  evaluateName,
  lockName,
  type StatusChange,
} from '../claims.ts';
import { exchangeKeys, findRotationDue } from '../dkim-rotation.ts';
import type { DnsRecordStatus } from '../dns-records.ts';
import type { Verdict } from './judge-records.ts';
import {
  type CheckedClaim,
  finishClaim,
  type LeasedClaim,
  nextCheckAt,
  PATIENCE,
} from './leases.ts';

/** What a check came to; to be told after the commit. */
interface Written {
  readonly changes: readonly StatusChange[];
  /** Whose mail is signed with the key of another selector from now on. */
  readonly exchanged?: { readonly claim: Domain; readonly selector: string };
}

/**
 * Settles each record that has a verdict and was not marked meanwhile, evaluates the name and sets
 * the next check.
 *
 * @param verdicts by the records' ids
 * @param random from 0 to 1, spreads the checks
 * @returns nothing that changed where the claim was deleted or its lease has run out, so that somebody
 *   else may have checked it since
 */
export function writeVerdicts(
  database: Database,
  leased: LeasedClaim,
  verdicts: ReadonlyMap<number, Verdict>,
  now: number,
  random: number,
): Promise<Written> {
  return database.write(async (tx) => {
    const claims = await lockName(tx, database.engine, leased.name);
    const claim = claims.find(({ id }) => id === leased.id);
    if (!claim || !(await isHeld(tx, leased))) return { changes: [] };
    const pendingSince = claim.lapsedAt ?? claim.createdAt;
    await settleRecords(tx, { status: claim.status, pendingSince }, leased.id, verdicts, now);
    const selector = await exchangeKeys(tx, leased.id, now);
    const { changes, contestedId } = await evaluateName(tx, leased.name, now);
    const change = changes.find(({ id }) => id === leased.id);
    const after = {
      status: change?.new ?? claim.status,
      pendingSince: change?.new === 'pending' ? now : pendingSince,
    };
    const answered = [...verdicts.values()].every(({ outcome }) => outcome !== 'unknown');
    const contested = contestedId === leased.id ? now + CONTESTED_INTERVAL : undefined;
    const { waitsSince, deleteAt } = await findRotationDue(tx, leased.id);
    const next = [
      contested ?? nextCheckAt(after, now, answered, random),
      ...(waitsSince === undefined
        ? []
        : [nextCheckAt(waiting(waitsSince), now, answered, random)]),
      ...(deleteAt === undefined ? [] : [deleteAt]),
    ];
    await finishClaim(tx, leased, Math.min(...next));
    return { changes, ...(selector !== undefined && { exchanged: { claim, selector } }) };
  });
}

/** A next DKIM key is waited for as the records of a new claim are. */
function waiting(since: number): CheckedClaim {
  return { status: 'pending', pendingSince: since };
}

async function isHeld(tx: Queries, leased: LeasedClaim): Promise<boolean> {
  const { lease_until } = await tx
    .selectFrom('domains')
    .select('lease_until')
    .where('id', '=', leased.id)
    .executeTakeFirstOrThrow();
  return lease_until === leased.leaseUntil;
}

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
        detail: verdict.detail,
        last_checked_at: now,
        ...(verdict.outcome === 'unknown' ? {} : { observed_value: verdict.observed }),
      })
      .where('id', '=', id)
      .execute();
  }
}

/* What a verdict makes of a record's status: the rules that keep a flap of DNS from doing harm. */

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
