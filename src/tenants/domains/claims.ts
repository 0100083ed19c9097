/** Claims on a name: reads and locks them, decides which one is active, and writes the consequences. */
import type { Logger } from 'pino';
import {
  countUpTo,
  type IdPage,
  pageById,
  type Queries,
  type Row,
  withoutNulls,
} from '../../platform/database/database.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import { DAY_MS, type EpochMs, HOUR_MS } from '../../platform/time/time.ts';
import { type NewEvent, writeEvents } from '../events/events.ts';
import type { DnsRecordStatus } from './dns-records.ts';
import { checkUserId, normalizeDomainName } from './domain-names.ts';
import { toOwner, type Whose } from './owner.ts';
import { logSendingChanges, noteSending, type SendingChange } from './sending.ts';

/** How often an active claim is checked while another one has its DKIM key published. */
export const CONTESTED_INTERVAL = HOUR_MS;

/** One user's claim on a name. */
export interface Domain {
  readonly id: number;
  readonly userId: string;
  readonly organizationId?: string;
  readonly name: string;
  readonly status: DomainStatus;
  /** As all instants here. */
  readonly createdAt: EpochMs;
  /** When the claim last became active. */
  readonly verifiedAt?: number;
  /** When an active claim became pending again; absent while it is active. */
  readonly lapsedAt?: number;
}

/** Of a claim: {@link withoutNulls} makes a {@link Domain} of them. */
export const claimColumns = [
  'domains.id',
  'domains.user_id as userId',
  'organization_id as organizationId',
  'name',
  'domains.status',
  'domains.created_at as createdAt',
  'verified_at as verifiedAt',
  'lapsed_at as lapsedAt',
] as const;

/** The refusal of a name that the user has no claim on, whatever others have. */
function domainNotFound(): Refusal {
  return new Refusal('domain_not_found', 'the user has no such domain');
}

/** The name in a user's request, as it is stored. @throws Refusal domain_not_found */
function storedName(text: string): string {
  const name = normalizeDomainName(text);
  if (name === undefined) throw domainNotFound();
  return name;
}

/** The user's claim on a name, or undefined. */
export async function findClaim(
  queries: Queries,
  userId: string,
  name: string,
): Promise<Domain | undefined> {
  const row = await queries
    .selectFrom('domains')
    .select(claimColumns)
    .where('user_id', '=', userId)
    .where('name', '=', name)
    .executeTakeFirst();
  return row && withoutNulls(row);
}

/**
 * The owner's claim on a name as the user wrote it.
 *
 * @throws Refusal domain_not_found, also where the claim is another owner's
 */
export async function readClaim(queries: Queries, whose: Whose, text: string): Promise<Domain> {
  const { userId, organizationId } = toOwner(whose);
  const claim = await findClaim(queries, checkUserId(userId), storedName(text));
  if (!claim || isOfAnother(claim, organizationId)) throw domainNotFound();
  return claim;
}

/** Whether the caller may see one organization, and the claim is not of it. */
function isOfAnother(claim: Domain, organizationId: string | undefined): boolean {
  return organizationId !== undefined && claim.organizationId !== organizationId;
}

/** Selects which of an owner's claims are listed, in the order of their ids. */
export interface ClaimPage extends IdPage {
  readonly userId: string;
  readonly organizationId?: string | undefined;
}

/** @throws Refusal invalid_request (`user_id`) */
export async function listClaims(
  queries: Queries,
  { userId, organizationId, ...page }: ClaimPage,
): Promise<Domain[]> {
  const claims = queries
    .selectFrom('domains')
    .select(claimColumns)
    .where('user_id', '=', checkUserId(userId))
    .$if(organizationId !== undefined, (query) =>
      query.where('organization_id', '=', organizationId ?? ''),
    );
  return (await pageById(claims, page).execute()).map(withoutNulls);
}

/** How many claims a user has; `most` stands for as many or more. */
export function countClaims(queries: Queries, userId: string, most: number): Promise<number> {
  const claims = queries.selectFrom('domains').select('id').where('user_id', '=', userId);
  return countUpTo(queries, claims, most);
}

/** Whom a lock keeps off: everybody, or those who would change what is locked. */
export type LockMode = 'everybody' | 'changes';

/**
 * Reads all claims on a name, oldest first, and locks them until the transaction ends.
 *
 * Without the lock two marks that PostgreSQL runs at once would each see the other's record pending (and the claim
 * would stay pending for good), and two claims could both become active. All are locked in the order of their ids, so
 * two transactions cannot deadlock.
 */
export async function lockName(
  tx: Queries,
  name: string,
  keepsOff: LockMode = 'everybody',
): Promise<Domain[]> {
  const query = tx
    .selectFrom('domains')
    .select(claimColumns)
    .where('name', '=', name)
    .orderBy('id');
  const locking = keepsOff === 'everybody' ? query.forUpdate() : query.forShare();
  return (await locking.execute()).map(withoutNulls);
}

/**
 * The owner's claim, with every claim on the name locked until the transaction ends.
 *
 * @throws Refusal domain_not_found
 */
export async function lockClaim(
  tx: Queries,
  whose: Whose,
  text: string,
  keepsOff?: LockMode,
): Promise<Domain> {
  const { userId, organizationId } = toOwner(whose);
  checkUserId(userId);
  const claims = await lockName(tx, storedName(text), keepsOff);
  const claim = claims.find((one) => one.userId === userId);
  if (!claim || isOfAnother(claim, organizationId)) throw domainNotFound();
  return claim;
}

/** What an evaluation changed; logged after the commit. */
export interface ClaimChanges {
  readonly changes: readonly StatusChange[];
  /** Active claims that can no longer send, or can again. */
  readonly sending: readonly SendingChange[];
}

/** The result of the evaluation of a name. */
interface Evaluation extends ClaimChanges {
  /** The claim that is active while another one has its DKIM key published. */
  readonly contestedId?: number | undefined;
}

/**
 * Evaluates every claim on a name, oldest first: one may become pending again, one may become active. An active and
 * contested one is checked within the hour. Before this the caller has locked the name and made its own change.
 */
export async function evaluateName(tx: Queries, name: string, now: number): Promise<Evaluation> {
  const rows = await tx
    .selectFrom('domains')
    .innerJoin('dns_records', 'dns_records.domain_id', 'domains.id')
    .select(['domains.id', 'domains.user_id as userId', 'domains.status', 'could_send'])
    .select(['purpose', 'failing_since as failingSince', 'dns_records.status as recordStatus'])
    .select('detail')
    .where('domains.name', '=', name)
    // A DKIM key that does not sign yet, or no longer, says nothing about who controls the zone.
    .where('key_state', 'is', null)
    .orderBy('domains.id')
    .execute();
  const claims = Map.groupBy(rows, ({ id }) => id);
  const standings = [...claims.values()].flatMap(([first, ...others]) =>
    first === undefined
      ? []
      : [
          {
            ...first,
            records: [first, ...others].map(({ recordStatus, ...record }) => ({
              ...record,
              status: recordStatus,
            })),
          },
        ],
  );
  const changes = changesOf(name, standings, now);
  for (const { id, new: status } of changes) {
    await tx
      .updateTable('domains')
      .set(
        status === 'active'
          ? { status, verified_at: now, lapsed_at: null }
          : { status, lapsed_at: now },
      )
      .where('id', '=', id)
      .execute();
  }
  const sending = await noteSending(
    tx,
    standings.map(({ id, userId, status, could_send: couldSend, records }) => {
      const dkim = records.find(({ purpose }) => purpose === 'dkim');
      const after = changes.find((change) => change.id === id)?.new ?? status;
      return {
        id,
        userId,
        domain: name,
        before: status,
        after: { status: after, dkim: dkim?.status },
        detail: dkim?.detail ?? null,
        couldSend,
      };
    }),
    now,
  );
  await writeEvents(tx, [...changes.map(statusEvent), ...sending.map(sendingEvent)], now);
  const contested = changes.length === 0 ? contestedOf(standings) : undefined;
  if (contested) {
    await tx
      .updateTable('domains')
      .set({ next_check_at: now })
      .where('id', '=', contested.id)
      .where('next_check_at', '>', now + CONTESTED_INTERVAL)
      .execute();
  }
  return { changes, sending, contestedId: contested?.id };
}

function statusEvent({ id: domainId, domain, new: status, reason }: StatusChange): NewEvent {
  return { type: `domain.${status}`, domainId, data: { domain, detail: reason } };
}

function sendingEvent({ id: domainId, domain, canSend, detail }: SendingChange): NewEvent {
  const type = canSend ? 'domain.active' : 'domain.failing';
  return { type, domainId, data: { domain, detail } };
}

/** Whether another user's claim on the name of this one is active. */
export async function hasActiveRival(queries: Queries, { id, name }: Domain): Promise<boolean> {
  const rival = await queries
    .selectFrom('domains')
    .select('id')
    .where('name', '=', name)
    .where('status', '=', 'active')
    .where('id', '!=', id)
    .executeTakeFirst();
  return rival !== undefined;
}

/* The status of each claim on a name, from the state of all of them; `claims.ts` reads and writes it. */

export type DomainStatus = Row<'domains'>['status'];

/** How long both DKIM and MX must have failed without a break before an active claim becomes pending again. */
const FALL_BACK_AFTER_MS = 14 * DAY_MS;

/** The part of a record that decides the status of its claim. */
interface RecordStanding {
  readonly purpose: Row<'dns_records'>['purpose'];
  readonly status: DnsRecordStatus;
  /** When the first of the failing answers in a row came. */
  readonly failingSince: number | null;
}

export interface ClaimStanding {
  readonly id: number;
  readonly userId: string;
  readonly status: DomainStatus;
  readonly records: readonly RecordStanding[];
}

/** A change of a claim's status; logged after the commit. */
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
 * Why an active claim becomes pending again, or undefined where it stays active.
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
 * The active claim, where another claim has its DKIM key published: the owner of the zone may have changed, so the
 * active one is checked soon and often.
 */
function contestedOf(claims: readonly ClaimStanding[]): ClaimStanding | undefined {
  const active = claims.find(({ status }) => status === 'active');
  const isContested = claims.some((claim) => claim !== active && hasDkim(claim, 'verified'));
  return isContested ? active : undefined;
}

function hasDkim({ records }: ClaimStanding, status: DnsRecordStatus): boolean {
  return records.some((record) => record.purpose === 'dkim' && record.status === status);
}

/**
 * The status changes among the claims on a name, oldest first: at most one becomes pending, at most one becomes
 * active.
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
  // No claim is active now. One that just became pending has a failed record, so it is skipped.
  const next = claims.find(isComplete);
  if (next) {
    const { id, userId } = next;
    const reason = 'every record is verified or waived';
    changes.push({ id, userId, domain, old: 'pending', new: 'active', reason });
  }
  return changes;
}

/** Logs that a claim's next DKIM key signs from now on; called after the commit. */
export function logKeyExchange(
  log: Logger,
  { name, userId }: Pick<Domain, 'name' | 'userId'>,
  selector: string,
): void {
  log.info({ domain: name, userId, selector }, 'the new DKIM key signs the mail of the domain');
}

/** Logs each change on one line; called after the commit. */
export function logClaimChanges(log: Logger, { changes, sending }: ClaimChanges): void {
  for (const { userId, domain, old, new: after, reason } of changes) {
    log.info({ domain, userId, old, new: after, reason }, 'the status of a domain changed');
  }
  logSendingChanges(log, sending);
}
