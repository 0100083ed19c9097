/** Lists what was counted, by day and by domain, account or user. */
import { type RawBuilder, sql } from 'kysely';
import type { Database, Queries, Row } from '../../platform/database/database.ts';
import { invalidField } from '../../platform/errors/errors.ts';
import { DAY_MS } from '../../platform/time/time.ts';

/** What an item of a list stands for. */
export type UsageGroup = 'domain' | 'account' | 'user';

/** The position of an item: its day, and the group's columns, in this order. */
export type UsageKey = readonly (string | number)[];

/** The columns that identify an item, in the order of the list. */
export const usageKeys = {
  domain: ['day', 'domain', 'user_id'],
  account: ['day', 'domain', 'user_id', 'account_id'],
  user: ['day', 'user_id'],
} as const satisfies Record<UsageGroup, readonly string[]>;

export interface UsageRequest {
  readonly by: UsageGroup;
  /** First and last day, as UTC midnights. */
  readonly from: number;
  readonly to: number;
  /** Only what has this name. */
  readonly domain?: string | undefined;
  readonly userId?: string | undefined;
  readonly limit: number;
  /** Only items after this one. */
  readonly after?: UsageKey | undefined;
}

/** Names are there where items stand for what has them. */
export type UsageItem = Omit<Row<'usage_days'>, 'domain' | 'account_id' | 'email'> &
  Partial<Pick<Row<'usage_days'>, 'domain' | 'account_id' | 'email'>>;

/** The most days in one list. */
const DAYS_MAX = 400;

/**
 * Lists usage, the newest day first; within a day backwards by name, as the index has it.
 *
 * @throws Refusal invalid_request (`from`) for too many days
 */
export async function listUsage(
  queries: Queries,
  { by, from, to, domain, userId, limit, after }: UsageRequest,
): Promise<UsageItem[]> {
  if (to < from) return [];
  const days = (to - from) / DAY_MS + 1;
  if (days > DAYS_MAX) {
    throw invalidField('from', `must be less than ${DAYS_MAX} days before the last day`);
  }
  const keys = usageKeys[by];
  const columns = sql.join(keys.map((name) => sql.ref(name)));
  const conditions: RawBuilder<unknown>[] = [sql`day between ${from} and ${to}`];
  if (domain !== undefined || userId !== undefined) {
    // Each day is looked up separately: the names come after it in both indexes.
    const each = Array.from({ length: days }, (_, index) => sql.lit(from + index * DAY_MS));
    conditions.push(sql`day in (${sql.join(each)})`);
  }
  if (domain !== undefined) conditions.push(sql`domain = ${domain}`);
  if (userId !== undefined) conditions.push(sql`user_id = ${userId}`);
  if (after) conditions.push(sql`(${columns}) < (${sql.join([...after])})`);
  const order = sql.join(keys.map((name) => sql`${sql.ref(name)} desc`));
  const sum = (name: string) => sql`cast(sum(${sql.ref(name)}) as bigint) as ${sql.ref(name)}`;
  const email = by === 'account' ? sql`, max(email) as email` : sql``;
  const { rows } = await sql<UsageItem>`
    select ${columns}${email}, ${sum('messages_in')}, ${sum('bytes_in')},
      ${sum('messages_out')}, ${sum('bytes_out')}, ${sum('stored_bytes')}
    from usage_days where ${sql.join(conditions, sql` and `)}
    group by ${columns} order by ${order} limit ${limit}`.execute(queries);
  return rows;
}

/** What accounts store. */
export interface Measured {
  readonly bytes: number;
  /** Accounts that reached their quota. */
  readonly full: number;
  /** Others that used nine tenths of it. */
  readonly nearlyFull: number;
}

interface MeasureRequest {
  readonly day: number;
  /** Id of the last account that was measured. */
  readonly after: number;
  /** Quota of accounts without one of their own; 0 for no limit. */
  readonly quotaBytes: number;
}

/** Accounts that are measured in one transaction. */
const ACCOUNTS_AT_A_TIME = 500;

/**
 * Measures what some accounts store, as of the day, in one transaction. Rows whose values are the same are not
 * written.
 *
 * @returns the id of the last one now, and what they store; undefined where no account is left
 */
export async function measureSome(
  database: Database,
  { day, after, quotaBytes }: MeasureRequest,
): Promise<(Measured & { readonly last: number }) | undefined> {
  const ids = await database.read
    .selectFrom('accounts')
    .select('id')
    .where('id', '>', after)
    .orderBy('id')
    .limit(ACCOUNTS_AT_A_TIME)
    .execute();
  const last = ids.at(-1)?.id;
  if (last === undefined) return undefined;
  const some = sql`accounts.id > ${after} and accounts.id <= ${last}`;
  const stored = sql`cast(coalesce(sum(mailboxes.octets), 0) as bigint)`;
  await database.write((tx) =>
    sql`insert into usage_days (day, domain, user_id, account_id, email, stored_bytes)
      select cast(${day} as bigint), domain_name, user_id, accounts.id,
        local_part || '@' || domain_name, ${stored}
      from accounts left join mailboxes on mailboxes.account_id = accounts.id
      where ${some} group by accounts.id
      having coalesce(sum(mailboxes.octets), 0) > 0 or exists (
        select 1 from usage_days where usage_days.day = ${day}
          and usage_days.domain = accounts.domain_name and usage_days.user_id = accounts.user_id
          and usage_days.account_id = accounts.id)
      order by accounts.id
      on conflict (day, domain, user_id, account_id)
        do update set stored_bytes = excluded.stored_bytes
        where usage_days.stored_bytes <> excluded.stored_bytes`.execute(tx),
  );
  const { rows } = await sql<{ bytes: number; quota: number }>`
    select ${stored} as bytes, coalesce(quota_bytes, ${quotaBytes}) as quota
    from accounts left join mailboxes on mailboxes.account_id = accounts.id
    where ${some} group by accounts.id`.execute(database.read);
  const limited = rows.filter(({ quota }) => quota > 0);
  const full = limited.filter(({ bytes, quota }) => bytes >= quota).length;
  return {
    last,
    bytes: rows.reduce((sum, { bytes }) => sum + bytes, 0),
    full,
    nearlyFull: limited.filter(({ bytes, quota }) => bytes >= 0.9 * quota).length - full,
  };
}

/** Rows that are removed in one transaction. */
const ROWS_AT_A_TIME = 500;

/** Removes some rows from before a day. @returns how many; 0 where none is left */
export async function pruneUsage(tx: Queries, before: number): Promise<number> {
  const { numAffectedRows } =
    await sql`delete from usage_days where day < ${before} and account_id in (
    select account_id from usage_days where day < ${before} order by day limit ${sql.lit(ROWS_AT_A_TIME)}
  )`.execute(tx);
  return Number(numAffectedRows ?? 0);
}
