/**
 * Whether the mail of a claim may be sent: receivers treat it as forged where the key that signs it is not published. One
 * rule for sending itself, for what the API says, for its filter, for the metric and for the log.
 */
import { sql } from 'kysely';
import type { Logger } from 'pino';
import { PreparedQuery, type Queries, type Row } from '../../platform/database/database.ts';
import type { EpochMs } from '../../platform/time/time.ts';

/** What decides whether a claim may send. */
interface SendingState {
  readonly status: Row<'domains'>['status'];
  /** Of the record of the key that signs; undefined where the claim has none. */
  readonly dkim: Row<'dns_records'>['status'] | undefined;
}

/** @returns the end of "<domain> ...", or undefined where mail of the claim may be sent */
function obstacleOf({ status, dkim }: SendingState): string | undefined {
  if (status !== 'active') return 'is not active';
  return dkim === 'verified' ? undefined : 'has no verified DKIM record';
}

export const canSend = (state: SendingState): boolean => obstacleOf(state) === undefined;

const sendingState = new PreparedQuery(({ domainId }: { domainId: number }, queries) =>
  queries
    .selectFrom('domains')
    .innerJoin('dns_records', 'dns_records.domain_id', 'domains.id')
    .select(['domains.status', 'dns_records.status as dkim'])
    .where('domains.id', '=', domainId)
    .where('dns_records.purpose', '=', 'dkim')
    .where('key_state', 'is', null),
);

/** Why mail of a claim must not be sent. @returns the end of "<domain> ...", or undefined where its mail may be sent */
export async function findSendingObstacle(
  queries: Queries,
  domainId: number,
): Promise<string | undefined> {
  const state = await sendingState.first(queries, { domainId });
  // A claim that was deleted is not active.
  return obstacleOf(state ?? { status: 'pending', dkim: undefined });
}

/**
 * The claims whose mail nobody could trust, active or not: each claim has one record of the key that signs, and theirs is
 * not verified. The index `dns_records_unsigned` has just these.
 */
export function selectUnsigned(queries: Queries) {
  return queries
    .selectFrom('dns_records')
    .select('domain_id')
    .where('purpose', '=', sql.lit('dkim'))
    .where('key_state', 'is', null)
    .where('status', '!=', sql.lit('verified'));
}

/** How many active claims cannot send. Those that an operator suspended are left out: he knows. */
export async function countUnableToSend(queries: Queries): Promise<number> {
  const { count } = await queries
    .selectFrom('domains')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .where('status', '=', sql.lit('active'))
    .where('suspended_at', 'is', null)
    .where('id', 'in', selectUnsigned(queries))
    .executeTakeFirstOrThrow();
  return Number(count);
}

/** A claim after an evaluation of its name, and what the evaluation before found. */
interface EvaluatedClaim {
  readonly id: number;
  readonly userId: string;
  readonly domain: string;
  readonly before: Row<'domains'>['status'];
  readonly after: SendingState;
  /** What the last check of its DKIM record found. */
  readonly detail: string | null;
  readonly couldSend: number | null;
}

/** An active claim can no longer send, or can again; logged after the commit. */
export interface SendingChange {
  readonly id: number;
  readonly userId: string;
  readonly domain: string;
  readonly canSend: boolean;
  readonly detail?: string;
}

/**
 * Notes which claims can send from now on, or no longer.
 *
 * @returns the changes of active claims; for those that become active or pending, the change of status says it
 */
export async function noteSending(
  tx: Queries,
  claims: readonly EvaluatedClaim[],
  now: EpochMs,
): Promise<SendingChange[]> {
  const changes: SendingChange[] = [];
  for (const { id, userId, domain, before, after, detail, couldSend } of claims) {
    const can = canSend(after);
    if (couldSend !== Number(can)) {
      await tx
        .updateTable('domains')
        .set({ could_send: Number(can), could_send_since: couldSend === null ? null : now })
        .where('id', '=', id)
        .execute();
    }
    const wasUnable = before === 'active' && couldSend === 0;
    const isUnable = after.status === 'active' && !can;
    const isNews = wasUnable ? can : isUnable;
    if (isNews)
      changes.push({ id, userId, domain, canSend: can, ...(detail !== null && { detail }) });
  }
  return changes;
}

/** Logs each change on one line; called after the commit. */
export function logSendingChanges(log: Logger, changes: readonly SendingChange[]): void {
  for (const { id: _, canSend: can, ...change } of changes) {
    if (can) log.info(change, 'an active domain can send again: its DKIM record is verified');
    else {
      log.warn(
        change,
        'an active domain cannot send: what its accounts send is refused or waits until its DKIM record is verified',
      );
    }
  }
}
