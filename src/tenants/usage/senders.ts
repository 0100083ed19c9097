/** What accounts and domains sent and received in the last hours, for operators: from `usage_hours`. */
import { type RawBuilder, sql } from 'kysely';
import type { Queries } from '../../platform/database/database.ts';
import { HOUR_MS, startOf } from '../../platform/time/time.ts';

const DAY_HOURS = 24;
/** A week beside the last day. */
const HOURS_KEPT = 8 * DAY_HOURS;

/** Mail of some hours: recipients of outgoing mail are counted one by one. */
export interface HourSums {
  readonly in: number;
  readonly out: number;
  /** Recipients of sent and forwarded mail who did not get it. */
  readonly bounced: number;
  /** Recipients that requests to send named beyond the limit of the account. */
  readonly refused: number;
}

export const noMail: HourSums = { in: 0, out: 0, bounced: 0, refused: 0 };

const sum = (column: string) => sql`cast(sum(${sql.ref(column)}) as bigint)`;
const sums = sql`${sum('messages_in')} as "in", ${sum('messages_out')} as "out",
  ${sum('bounced')} as bounced, ${sum('refused')} as refused`;

/** The beginnings of the last hours, with the one that has begun. Each is one step in the index. */
export function lastHours(now: number, count: number): number[] {
  const last = startOf(HOUR_MS, now);
  return Array.from({ length: count }, (_, before) => last - before * HOUR_MS);
}

/** The last 24 hours of all accounts, by account id; those without any mail are left out. */
export function dayOfAllAccounts(queries: Queries, now: number): Promise<Map<number, HourSums>> {
  const first = lastHours(now, DAY_HOURS).at(-1);
  return sumsBy(queries, 'account_id', sql`hour >= ${first} and account_id > 0`);
}

/** The last 24 hours of some accounts, by account id; those without any mail are left out. */
export async function dayOfAccounts(
  queries: Queries,
  now: number,
  accounts: readonly { readonly id: number; readonly domainId: number }[],
): Promise<Map<number, HourSums>> {
  if (accounts.length === 0) return new Map();
  const pairs = accounts.map(({ id, domainId }) => sql`(${sql.lit(domainId)}, ${sql.lit(id)})`);
  const hours = sql.join(lastHours(now, DAY_HOURS));
  return sumsBy(
    queries,
    'account_id',
    sql`hour in (${hours}) and (domain_id, account_id) in (values ${sql.join(pairs)})`,
  );
}

/** The last 24 hours of some domains, by domain id, with the mail of their accounts. */
export async function dayOfDomains(
  queries: Queries,
  now: number,
  ids: readonly number[],
): Promise<Map<number, HourSums>> {
  if (ids.length === 0) return new Map();
  const hours = sql.join(lastHours(now, DAY_HOURS));
  return sumsBy(queries, 'domain_id', sql`hour in (${hours}) and domain_id in (${sql.join(ids)})`);
}

async function sumsBy(
  queries: Queries,
  column: 'account_id' | 'domain_id',
  condition: RawBuilder<unknown>,
): Promise<Map<number, HourSums>> {
  const { rows } = await sql<HourSums & { id: number }>`
    select ${sql.ref(column)} as id, ${sums} from usage_hours
    where ${condition} group by ${sql.ref(column)}`.execute(queries);
  return new Map(rows.map(({ id, ...some }) => [id, some]));
}

/** The mail of an account in one hour. */
export interface SenderHour extends HourSums {
  readonly hour: number;
}

/** All hours of an account that are kept and had mail, the oldest first. */
export async function hoursOfAccount(
  queries: Queries,
  now: number,
  { id, domainId }: { readonly id: number; readonly domainId: number },
): Promise<SenderHour[]> {
  const hours = sql.join(lastHours(now, HOURS_KEPT));
  const { rows } = await sql<SenderHour>`
    select hour, messages_in as "in", messages_out as "out", bounced, refused from usage_hours
    where hour in (${hours}) and domain_id = ${domainId} and account_id = ${id}
    order by hour`.execute(queries);
  return rows;
}

/** Limits beyond which an account sends oddly. */
export interface OddLimits {
  /** The fewest recipients in an hour, and how many times its busiest hour of the week before. */
  readonly burst: number;
  readonly times: number;
  /** The fewest recipients in a day, and the part of them that bounced. */
  readonly day: number;
  readonly bounced: number;
}

export interface OddSender {
  readonly accountId: number;
  /** In this hour or the one before; absent where it is not more than usual. */
  readonly burst?: { readonly hour: number; readonly out: number; readonly busiest: number };
  /** Of the last 24 hours; absent where they are few. */
  readonly bounces?: { readonly out: number; readonly bounced: number };
}

/** Accounts that send far more than usual, or of whose mail much bounces. */
export async function findOddSenders(
  queries: Queries,
  now: number,
  limits: OddLimits,
): Promise<OddSender[]> {
  const found = new Map<number, OddSender>();
  const [bursts, bouncing] = await Promise.all([
    findBursts(queries, now, limits),
    findBouncing(queries, now, limits),
  ]);
  for (const burst of bursts) {
    const { id: accountId, ...about } = burst;
    found.set(accountId, { accountId, burst: about });
  }
  for (const { id: accountId, ...bounces } of bouncing) {
    found.set(accountId, { ...found.get(accountId), accountId, bounces });
  }
  return [...found.values()];
}

async function findBursts(queries: Queries, now: number, { burst, times }: OddLimits) {
  const [current = 0, before = 0] = lastHours(now, 2);
  const week = lastHours(before - HOUR_MS, 7 * DAY_HOURS);
  const usual = (hours: readonly number[]) => sql`from usage_hours usual
    where usual.hour in (${sql.join(hours.map((hour) => sql.lit(hour)))})
      and usual.domain_id = usage_hours.domain_id and usual.account_id = usage_hours.account_id`;
  const isUsual = (hours: readonly number[]) => sql`(select 1 ${usual(hours)}
    and usual.messages_out * ${sql.lit(times)} > usage_hours.messages_out limit 1)`;
  // In the first day nothing is usual yet: every busy account would be told.
  const isKnown = sql`exists (select 1 from usage_hours where hour <= ${before - (DAY_HOURS - 1) * HOUR_MS})`;
  // Who sends much each day is left out by one such hour, mostly of the day before: few have their whole week read.
  const { rows } = await sql<{ id: number; hour: number; out: number; busiest: number }>`
    select account_id as id, hour, messages_out as "out",
      coalesce((select max(messages_out) ${usual(week)}), 0) as busiest
    from usage_hours
    where hour in (${current}, ${before}) and account_id > 0 and messages_out >= ${burst}
      and ${isKnown}
      and coalesce(${isUsual(week.slice(0, DAY_HOURS))}, ${isUsual(week.slice(DAY_HOURS))}) is null
    order by hour, account_id`.execute(queries);
  return rows;
}

async function findBouncing(queries: Queries, now: number, { day, bounced }: OddLimits) {
  const hours = lastHours(now, DAY_HOURS);
  // Few accounts have bounces, and the index names them.
  const { rows } = await sql<{ id: number; domainId: number; bounced: number }>`
    select account_id as id, domain_id as "domainId", ${sum('bounced')} as bounced from usage_hours
    where hour >= ${hours.at(-1)} and bounced > 0 and account_id > 0
    group by account_id, domain_id having sum(bounced) >= ${day * bounced}`.execute(queries);
  const sent = await dayOfAccounts(queries, now, rows);
  return rows.flatMap((row) => {
    const { out } = sent.get(row.id) ?? noMail;
    const isOdd = out >= day && row.bounced >= out * bounced;
    return isOdd ? { id: row.id, out, bounced: row.bounced } : [];
  });
}

/** Rows that are removed in one transaction. */
const ROWS_AT_A_TIME = 500;

/** Removes some hours that are over for too long. @returns how many rows; 0 where none is left */
export async function pruneHours(tx: Queries, now: number): Promise<number> {
  const before = now - HOURS_KEPT * HOUR_MS;
  const { numAffectedRows } = await sql`delete from usage_hours
    where (hour, domain_id, account_id) in (
      select hour, domain_id, account_id from usage_hours where hour < ${before}
      order by hour, domain_id, account_id limit ${sql.lit(ROWS_AT_A_TIME)}
    )`.execute(tx);
  return Number(numAffectedRows ?? 0);
}
