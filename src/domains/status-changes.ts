/** Which status each claim on a name has, given all of them; `claims.ts` reads and writes it. */
import type { Logger } from 'pino';
import type { Row } from '../database/database.ts';
import type { DnsRecordStatus } from './dns-records.ts';

export type DomainStatus = Row<'domains'>['status'];

/** How long DKIM and MX have to have failed, both and without a break, before a claim falls back. */
const FALL_BACK_AFTER_MS = 14 * 24 * 60 * 60 * 1000;

/** What of a record counts for the status of its claim. */
interface RecordStanding {
  readonly purpose: Row<'dns_records'>['purpose'];
  readonly status: DnsRecordStatus;
  /** When the first of the answers in a row came that missed. */
  readonly failingSince: number | null;
}

/** One of the claims on a name. */
export interface ClaimStanding {
  readonly id: number;
  readonly userId: string;
  readonly status: DomainStatus;
  readonly records: readonly RecordStanding[];
}

/** A claim that is not any more what it was; told in the log after the commit. */
export interface StatusChange {
  readonly id: number;
  readonly userId: string;
  readonly domain: string;
  readonly old: DomainStatus;
  readonly new: DomainStatus;
  readonly reason: string;
}

/** Whether a claim may be active: every record is verified, or waived by hand. */
function isComplete({ records }: ClaimStanding): boolean {
  return records.every(({ status }) => status === 'verified' || status === 'disabled');
}

/**
 * Why an active claim falls back to pending, or undefined where it stays.
 *
 * @param rivals the other claims on the name
 */
function reasonToFallBack(
  claim: ClaimStanding,
  rivals: readonly ClaimStanding[],
  now: number,
): string | undefined {
  const longFailed = (purpose: string) =>
    claim.records.some(
      (record) =>
        record.purpose === purpose &&
        record.status === 'failed' &&
        now - (record.failingSince ?? now) >= FALL_BACK_AFTER_MS,
    );
  if (hasDkim(claim, 'failed') && rivals.some((rival) => hasDkim(rival, 'verified'))) {
    return 'its DKIM key is gone and that of another claim is published';
  }
  if (longFailed('dkim') && longFailed('mx')) return 'DKIM and MX have failed for 14 days';
  return undefined;
}

/**
 * The active claim, where another claim has its DKIM key published: whoever controls the zone may
 * have changed, so that the active one is checked soon and often.
 */
export function contestedOf(claims: readonly ClaimStanding[]): ClaimStanding | undefined {
  const active = claims.find(({ status }) => status === 'active');
  const isContested = claims.some((claim) => claim !== active && hasDkim(claim, 'verified'));
  return isContested ? active : undefined;
}

function hasDkim({ records }: ClaimStanding, status: DnsRecordStatus): boolean {
  return records.some((record) => record.purpose === 'dkim' && record.status === status);
}

/**
 * What changes among the claims on a name, oldest first: at most one falls back, at most one
 * becomes active.
 */
export function changesOf(
  domain: string,
  claims: readonly ClaimStanding[],
  now: number,
): StatusChange[] {
  const changes: StatusChange[] = [];
  const active = claims.find(({ status }) => status === 'active');
  if (active) {
    const { id, userId } = active;
    const rivals = claims.filter((claim) => claim !== active);
    const reason = reasonToFallBack(active, rivals, now);
    if (reason === undefined) return [];
    changes.push({ id, userId, domain, old: 'active', new: 'pending', reason });
  }
  // Nobody is active now. Whoever fell back has a record that failed, and is passed over.
  const next = claims.find(isComplete);
  if (next) {
    const { id, userId } = next;
    const reason = 'every record is verified or waived';
    changes.push({ id, userId, domain, old: 'pending', new: 'active', reason });
  }
  return changes;
}

/** One line for each change; called after the commit. */
export function logStatusChanges(log: Logger, changes: readonly StatusChange[]): void {
  for (const { userId, domain, old, new: after, reason } of changes) {
    log.info({ domain, userId, old, new: after, reason }, 'domain.status_changed');
  }
}
