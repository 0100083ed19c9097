/**
 * What accounts received, sent and stored on each day, for billing. Table `usage_days` has a row for an account and
 * a day (UTC), and one with `account_id` 0 for mail of a domain that is for no account: mail that only a webhook
 * gets, or that is forwarded. A row keeps the names of account, domain and user, so that it can be read after they
 * were deleted.
 *
 * A message is counted in the transaction that accepts it: once for each account that gets it, and for its sender once
 * for each recipient. Storage is measured now and then ({@link Usage.measure}): the last measurement of a day stays.
 *
 * Locks: a transaction counts everything in one call, after it has locked its mailboxes. Rows are locked in one order,
 * so that two transactions cannot deadlock.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { type RawBuilder, sql } from 'kysely';
import { type Database, PreparedQuery, type Queries } from '../../platform/database/database.ts';
import type { EpochMs } from '../../platform/time/time.ts';
import { measureSome } from './list-usage.ts';

export {
  listUsage,
  pruneUsage,
  type UsageGroup,
  type UsageItem,
  type UsageKey,
  usageKeys,
} from './list-usage.ts';
export { HOURS_MAX, pruneTraffic, Traffic, type TrafficPoint } from './traffic.ts';

const DAY_MS = 86_400_000;
/** Long enough to compare with the year before, twice over. */
export const USAGE_KEPT_MS = 800 * DAY_MS;
/** Milliseconds between two transactions, so that incoming mail gets its turn. */
const PAUSE_MS = 10;

/** The UTC midnight before an instant, both in milliseconds since 1970. */
export function dayOf(instant: number): number {
  return Math.floor(instant / DAY_MS) * DAY_MS;
}

/** Incoming and outgoing mail; octets are those of the source, once for each time it is counted. */
export interface Amounts {
  readonly messagesIn?: number;
  readonly bytesIn?: number;
  readonly messagesOut?: number;
  readonly bytesOut?: number;
}

/** The owner of the mail: an account, or a domain for mail that is for no account. */
export type Counted = Amounts &
  ({ readonly accountId: number } | { readonly accountId?: undefined; readonly domainId: number });

export interface Addition extends Required<Amounts> {
  readonly id: number;
  readonly day: number;
}

/** The values that count one account or domain. @param at when its mail was accepted */
export function additionOf(one: Counted, at: number): Addition {
  const none = { messagesIn: 0, bytesIn: 0, messagesOut: 0, bytesOut: 0 };
  return { ...none, ...one, id: one.accountId ?? one.domainId, day: dayOf(at) };
}

export interface UsageOptions {
  readonly database: Database;
  readonly now?: () => EpochMs;
}

export class Usage {
  readonly #database: Database;
  readonly #now: () => number;
  readonly #addToAccount: PreparedQuery<Addition, unknown>;
  readonly #addToDomain: PreparedQuery<Addition, unknown>;

  constructor({ database, now = Date.now }: UsageOptions) {
    this.#database = database;
    this.#now = now;
    this.#addToAccount = prepareAddition(database.read, 'accounts', namesOfAccount);
    this.#addToDomain = prepareAddition(database.read, 'domains', namesOfDomain);
  }

  /**
   * Counts mail, in the transaction that accepts it. Deleted accounts and domains are skipped.
   *
   * @param at when it was accepted, milliseconds since 1970; by default now
   */
  async count(tx: Queries, counted: readonly Counted[], at = this.#now()): Promise<void> {
    for (const one of counted.toSorted(inOrder)) {
      const add = one.accountId === undefined ? this.#addToDomain : this.#addToAccount;
      await add.all(tx, additionOf(one, at));
    }
  }

  /**
   * Measures what each account stores, for today, in short transactions.
   *
   * @param signal stops it early
   * @returns octets that all of them store
   */
  async measure(signal: AbortSignal): Promise<number> {
    const day = dayOf(this.#now());
    let after = 0;
    let bytes = 0;
    while (!signal.aborted) {
      const measured = await measureSome(this.#database, day, after);
      if (!measured) break;
      after = measured.last;
      bytes += measured.bytes;
      await pause(PAUSE_MS);
    }
    return bytes;
  }
}

/** Domains first, each by its id. */
function inOrder(one: Counted, other: Counted): number {
  const domain = (counted: Counted) => (counted.accountId === undefined ? counted.domainId : 0);
  return (one.accountId ?? 0) - (other.accountId ?? 0) || domain(one) - domain(other);
}

/* Columns domain, user_id, account_id and email. */
const namesOfAccount = sql`domain_name, user_id, id, local_part || '@' || domain_name`;
const namesOfDomain = sql`name, user_id, 0, ''`;

/** Compiled once: every message runs it. */
function prepareAddition(queries: Queries, table: string, names: RawBuilder<unknown>) {
  return new PreparedQuery((value: Addition) => ({
    compile: () => addition(value, table, names).compile(queries),
  }));
}

/** Counts an account. @param value expressions in place of values, too */
export const countAccount = (value: { [Name in keyof Addition]: unknown }) =>
  addition(value, 'accounts', namesOfAccount);

/** PostgreSQL needs the types of selected values. */
function addition(
  value: { [Name in keyof Addition]: unknown },
  table: string,
  names: RawBuilder<unknown>,
) {
  return sql`insert into usage_days (day, domain, user_id, account_id, email,
          messages_in, bytes_in, messages_out, bytes_out)
        select cast(${value.day} as bigint), ${names},
          cast(${value.messagesIn} as bigint), cast(${value.bytesIn} as bigint),
          cast(${value.messagesOut} as bigint), cast(${value.bytesOut} as bigint)
        from ${sql.table(table)} where id = ${value.id}
        on conflict (day, domain, user_id, account_id) do update set
          messages_in = usage_days.messages_in + excluded.messages_in,
          bytes_in = usage_days.bytes_in + excluded.bytes_in,
          messages_out = usage_days.messages_out + excluded.messages_out,
          bytes_out = usage_days.bytes_out + excluded.bytes_out`;
}
