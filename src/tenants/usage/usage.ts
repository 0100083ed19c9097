/**
 * What accounts received, sent and stored on each day, for billing. Table `usage_days` has a row for an account and
 * a day (UTC), and one with `account_id` 0 for mail of a domain that is for no account: mail that only a webhook
 * gets, or that is forwarded. A row keeps the names of account, domain and user, so that it can be read after they
 * were deleted.
 *
 * Table `usage_hours` has the same by the hour for some days, by ids alone, with what bounced and was refused: operators
 * find senders by it (`senders.ts`).
 *
 * A message is counted in the transaction that accepts it: once for each account that gets it, and for its sender once
 * for each recipient; a bounce in the transaction that ends the delivery, or that accepts the report of it. Storage is
 * measured now and then ({@link Usage.measure}): the last measurement of a day stays.
 *
 * Locks: a transaction counts everything in one call, after it has locked its mailboxes. Rows are locked in one order,
 * so that two transactions cannot deadlock.
 */
import { setTimeout as pause } from 'node:timers/promises';
import { sql } from 'kysely';
import { type Database, PreparedQuery, type Queries } from '../../platform/database/database.ts';
import { DAY_MS, type EpochMs, HOUR_MS, startOf } from '../../platform/time/time.ts';
import { type Measured, measureSome } from './list-usage.ts';

export {
  listUsage,
  pruneUsage,
  type UsageGroup,
  type UsageItem,
  type UsageKey,
  usageKeys,
} from './list-usage.ts';
export {
  dayOfAccounts,
  dayOfAllAccounts,
  dayOfDomains,
  findOddSenders,
  type HourSums,
  hoursOfAccount,
  noMail,
  type OddSender,
  pruneHours,
  type SenderHour,
} from './senders.ts';
export {
  HOURS_MAX,
  lastCounts,
  lastGauges,
  pruneTraffic,
  sumOfDay,
  Traffic,
  type TrafficPoint,
} from './traffic.ts';

/** Long enough to compare with the year before, twice over. */
export const USAGE_KEPT_MS = 800 * DAY_MS;
/** Milliseconds between two transactions, so that incoming mail gets its turn. */
const PAUSE_MS = 10;
/** How long refusals are collected. */
const REFUSED_MS = 1_000;

/** Incoming and outgoing mail; bytes are those of the source, once for each time it is counted. */
export interface Amounts {
  readonly messagesIn?: number;
  readonly bytesIn?: number;
  readonly messagesOut?: number;
  readonly bytesOut?: number;
  /** Recipients of sent and forwarded mail who did not get it. */
  readonly bounced?: number;
  /** Recipients that a request to send named beyond the limit of its account. */
  readonly refused?: number;
}

/** The owner of the mail: an account, or a domain for mail that is for no account. */
export type Counted = Amounts &
  ({ readonly accountId: number } | { readonly accountId?: undefined; readonly domainId: number });

export interface Addition extends Required<Amounts> {
  readonly id: number;
  readonly day: number;
  readonly hour: number;
}

/** Of one kind of owner: what adds mail to both tables, and what adds the rest, which only hours have. */
interface Additions {
  readonly mail: readonly PreparedQuery<Addition, unknown>[];
  readonly rest: PreparedQuery<Addition, unknown>;
}

const none = { messagesIn: 0, bytesIn: 0, messagesOut: 0, bytesOut: 0, bounced: 0, refused: 0 };

/** The values that count one account or domain. @param at when its mail was accepted */
export function additionOf(one: Counted, at: number): Addition {
  const [day, hour] = [startOf(DAY_MS, at), startOf(HOUR_MS, at)];
  return { ...none, ...one, id: one.accountId ?? one.domainId, day, hour };
}

export interface UsageOptions {
  readonly database: Database;
  readonly now?: () => EpochMs;
}

export class Usage {
  readonly #database: Database;
  readonly #now: () => number;
  readonly #accounts: Additions;
  readonly #domains: Additions;
  /** Not written yet, by account id. */
  readonly #refused = new Map<number, number>();
  #flushes: NodeJS.Timeout | undefined;

  constructor({ database, now = Date.now }: UsageOptions) {
    this.#database = database;
    this.#now = now;
    this.#accounts = prepareAdditions(database.engine, 'accounts');
    this.#domains = prepareAdditions(database.engine, 'domains');
  }

  /**
   * Counts mail, in the transaction that accepts it. Deleted accounts and domains are skipped.
   *
   * @param at when it was accepted, milliseconds since 1970; by default now
   */
  async count(tx: Queries, counted: readonly Counted[], at = this.#now()): Promise<void> {
    for (const one of counted.toSorted(inOrder)) {
      const { mail, rest } = one.accountId === undefined ? this.#domains : this.#accounts;
      const isMail = (one.messagesIn ?? 0) !== 0 || (one.messagesOut ?? 0) !== 0;
      for (const add of isMail ? mail : [rest]) await add.all(tx, additionOf(one, at));
    }
  }

  /**
   * Counts recipients of a refused request. They are written together a moment later, so that a client that goes on and
   * on costs no transaction for each refusal; a killed process loses that moment.
   */
  countRefused(accountId: number, recipients: number): void {
    this.#refused.set(accountId, (this.#refused.get(accountId) ?? 0) + recipients);
    this.#flushes ??= setTimeout(() => void this.flush(), REFUSED_MS).unref();
  }

  /** Writes what {@link countRefused} got; after a failure it is written later. */
  async flush(): Promise<void> {
    clearTimeout(this.#flushes);
    this.#flushes = undefined;
    const counted = [...this.#refused].map(([accountId, refused]) => ({ accountId, refused }));
    if (counted.length === 0) return;
    this.#refused.clear();
    try {
      await this.#database.write((tx) => this.count(tx, counted));
    } catch {
      for (const { accountId, refused } of counted) this.countRefused(accountId, refused);
    }
  }

  /**
   * Measures what each account stores, for today, in short transactions.
   *
   * @param quotaBytes quota of accounts without one of their own; 0 for no limit
   * @param signal stops it early
   * @returns the sums of all accounts
   */
  async measure(quotaBytes: number, signal: AbortSignal): Promise<Measured> {
    const day = startOf(DAY_MS, this.#now());
    let after = 0;
    let sums: Measured = { bytes: 0, full: 0, nearlyFull: 0 };
    while (!signal.aborted) {
      const measured = await measureSome(this.#database, { day, after, quotaBytes });
      if (!measured) break;
      after = measured.last;
      sums = {
        bytes: sums.bytes + measured.bytes,
        full: sums.full + measured.full,
        nearlyFull: sums.nearlyFull + measured.nearlyFull,
      };
      await pause(PAUSE_MS);
    }
    return sums;
  }
}

/** Domains first, each by its id. */
function inOrder(one: Counted, other: Counted): number {
  const domain = (counted: Counted) => (counted.accountId === undefined ? counted.domainId : 0);
  return (one.accountId ?? 0) - (other.accountId ?? 0) || domain(one) - domain(other);
}

/** Expressions in place of values, too. */
type Expressions = { [Name in keyof Addition]: unknown };

/** Counts an account, in its day and in its hour: a statement for each. */
export const countAccountDay = (value: Expressions) => addToDay(value, 'accounts');
export const countAccountHour = (value: Expressions) => addToHour(value, 'accounts');

/** Placeholders of an addition, which have no members of their own, with an id that is read after something that is locked before. */
export function additionAfter(
  value: Omit<Addition, 'id'>,
  id: unknown,
  after: string,
): Expressions {
  const { day, hour, messagesIn, bytesIn, messagesOut, bytesOut, bounced, refused } = value;
  const read = sql`(select ${id}::bigint from ${sql.table(after)})`;
  return { id: read, day, hour, messagesIn, bytesIn, messagesOut, bytesOut, bounced, refused };
}

type Owners = 'accounts' | 'domains';

/** Compiled once: every message runs them. */
function prepareAdditions(engine: Database['engine'], owners: Owners): Additions {
  const rest = new PreparedQuery((value: Addition) => addToHour(value, owners));
  const day = new PreparedQuery((value: Addition) => addToDay(value, owners));
  if (engine === 'sqlite') return { rest, mail: [day, rest] };
  // One round trip for both.
  const both = new PreparedQuery(
    (value: Addition) => sql`with day as (${addToDay(value, owners)}) ${addToHour(value, owners)}`,
  );
  return { rest, mail: [both] };
}

/* Of an owner: columns domain, user_id, account_id and email; and columns domain_id and account_id. */
const columns = {
  accounts: {
    names: sql`domain_name, user_id, id, local_part || '@' || domain_name`,
    ids: sql`domain_id, id`,
  },
  domains: { names: sql`name, user_id, 0, ''`, ids: sql`id, 0` },
};

/** PostgreSQL needs the types of selected values. */
function addToDay(value: Expressions, owners: Owners) {
  return sql`
    insert into usage_days (day, domain, user_id, account_id, email,
      messages_in, bytes_in, messages_out, bytes_out)
    select cast(${value.day} as bigint), ${columns[owners].names},
      cast(${value.messagesIn} as bigint), cast(${value.bytesIn} as bigint),
      cast(${value.messagesOut} as bigint), cast(${value.bytesOut} as bigint)
    from ${sql.table(owners)} where id = ${value.id}
    on conflict (day, domain, user_id, account_id) do update set
      messages_in = usage_days.messages_in + excluded.messages_in,
      bytes_in = usage_days.bytes_in + excluded.bytes_in,
      messages_out = usage_days.messages_out + excluded.messages_out,
      bytes_out = usage_days.bytes_out + excluded.bytes_out`;
}

function addToHour(value: Expressions, owners: Owners) {
  return sql`
    insert into usage_hours (hour, domain_id, account_id, messages_in, messages_out, bounced, refused)
    select cast(${value.hour} as bigint), ${columns[owners].ids},
      cast(${value.messagesIn} as bigint), cast(${value.messagesOut} as bigint),
      cast(${value.bounced} as bigint), cast(${value.refused} as bigint)
    from ${sql.table(owners)} where id = ${value.id}
    on conflict (hour, domain_id, account_id) do update set
      messages_in = usage_hours.messages_in + excluded.messages_in,
      messages_out = usage_hours.messages_out + excluded.messages_out,
      bounced = usage_hours.bounced + excluded.bounced,
      refused = usage_hours.refused + excluded.refused`;
}
