/** What senders have waiting, for operators. */
import { sql } from 'kysely';
import type { Queries } from '../../platform/database/database.ts';
import { type DeliveryError, errorFromJson } from './delivery.ts';
import { accountOf, type Owner, senderOf } from './parties.ts';

const WAITING = ['queued', 'held'] as const;
type Waiting = (typeof WAITING)[number];

/**
 * How many deliveries of accounts wait or are held, by account id; those without any are left out.
 *
 * @param owners by default all
 */
export async function waitingOfAccounts(
  queries: Queries,
  kind: string,
  owners?: readonly Owner[],
): Promise<Map<number, number>> {
  const counts = new Map<number, number>();
  if (owners?.length === 0) return counts;
  const senders = owners?.map(senderOf);
  // By the indexes of lanes, and of what is held: the states are literals, since these have them as their conditions.
  for (const state of WAITING) {
    const rows = await queries
      .selectFrom('deliveries')
      .select(({ fn }) => ['sender', fn.countAll<number>().as('count')])
      .where('kind', '=', kind)
      .where('status', '=', sql.lit(state))
      .$if(senders !== undefined, (query) => query.where('sender', 'in', senders ?? []))
      .groupBy('sender')
      .execute();
    for (const { sender, count } of rows) {
      const id = accountOf(sender);
      if (id > 0) counts.set(id, (counts.get(id) ?? 0) + Number(count));
    }
  }
  return counts;
}

/** How many deliveries of some domains wait or are held, of any kind; those without any are left out. */
export async function waitingOfDomains(
  queries: Queries,
  domainIds: readonly number[],
): Promise<Map<number, number>> {
  if (domainIds.length === 0) return new Map();
  const rows = await queries
    .selectFrom('deliveries')
    .select(({ fn }) => ['domain_id', fn.countAll<number>().as('count')])
    .where('domain_id', 'in', domainIds)
    .where('status', 'in', [...WAITING])
    .groupBy('domain_id')
    .execute();
  return new Map(rows.map(({ domain_id: id, count }) => [id, Number(count)]));
}

/** Waiting deliveries of a sender that have the same state, receiver and reason. */
export interface WaitingReason {
  readonly state: Waiting;
  readonly destination: string;
  /** Absent where none was attempted yet. */
  readonly error?: DeliveryError;
  readonly count: number;
  /** When the oldest was queued. */
  readonly oldestAt: number;
}

/** The most deliveries of a state that are read. */
const READ_MAX = 10_000;

/** Why mail of a sender waits, the most frequent reasons first: of up to 10,000 deliveries of each state. */
export async function waitingReasons(
  queries: Queries,
  kind: string,
  owner: Owner,
  limit: number,
): Promise<WaitingReason[]> {
  const sender = senderOf(owner);
  const reasons: WaitingReason[] = [];
  for (const state of WAITING) {
    const { rows } = await sql<Omit<WaitingReason, 'state' | 'error'> & { error: string | null }>`
      select destination, last_error as error, count(*) as count, min(created_at) as "oldestAt"
      from (
        select destination, last_error, created_at from deliveries
        where kind = ${kind} and sender = ${sender} and status = ${sql.lit(state)} limit ${sql.lit(READ_MAX)}
      ) waiting
      group by destination, last_error order by 3 desc, 1 limit ${limit}`.execute(queries);
    for (const { error, count, ...about } of rows) {
      const known = error === null ? {} : { error: errorFromJson(error) };
      reasons.push({ ...about, ...known, state, count: Number(count) });
    }
  }
  return reasons.sort((one, other) => other.count - one.count).slice(0, limit);
}
