/** Writes what a check came to, and what follows from it, in one transaction. */
import type { Database, Queries } from '../../database/database.ts';
import { CONTESTED_INTERVAL, evaluateName, lockName, type StatusChange } from '../claims.ts';
import { finishClaim, type LeasedClaim } from './leases.ts';
import { nextCheckAt } from './schedule.ts';
import { settleRecord } from './settle-record.ts';
import type { Verdict } from './verdict.ts';

/**
 * Settles each record that has a verdict and was not marked meanwhile, evaluates the name and sets
 * the next check.
 *
 * @param verdicts by the records' ids
 * @param random from 0 to 1, spreads the checks
 * @returns the changes of status, to be told after the commit; none where the claim was deleted or
 *   its lease has run out, so that somebody else may have checked it since
 */
export function writeVerdicts(
  database: Database,
  leased: LeasedClaim,
  verdicts: ReadonlyMap<number, Verdict>,
  now: number,
  random: number,
): Promise<readonly StatusChange[]> {
  return database.write(async (tx) => {
    const claims = await lockName(tx, database.engine, leased.name);
    const claim = claims.find(({ id }) => id === leased.id);
    if (!claim || !(await isHeld(tx, leased))) return [];
    const pendingSince = claim.lapsedAt ?? claim.createdAt;
    await settleRecords(tx, { status: claim.status, pendingSince }, leased.id, verdicts, now);
    const { changes, contestedId } = await evaluateName(tx, leased.name, now);
    const change = changes.find(({ id }) => id === leased.id);
    const after = {
      status: change?.new ?? claim.status,
      pendingSince: change?.new === 'pending' ? now : pendingSince,
    };
    const answered = [...verdicts.values()].every(({ outcome }) => outcome !== 'unknown');
    const next = contestedId === leased.id ? now + CONTESTED_INTERVAL : undefined;
    await finishClaim(tx, leased, next ?? nextCheckAt(after, now, answered, random));
    return changes;
  });
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
  claim: Parameters<typeof settleRecord>[2],
  domainId: number,
  verdicts: ReadonlyMap<number, Verdict>,
  now: number,
): Promise<void> {
  const rows = await tx
    .selectFrom('dns_records')
    .select(['id', 'status', 'misses', 'failing_since'])
    .where('domain_id', '=', domainId)
    .where('marked', '=', 0)
    .execute();
  for (const { id, status, misses, failing_since } of rows) {
    const verdict = verdicts.get(id);
    if (!verdict) continue;
    const state = { status, misses, failingSince: failing_since ?? undefined };
    const after = settleRecord(state, verdict, claim, now);
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
