/**
 * The queue as operators see it first: a row for each receiver, and what a part of it consists of.
 *
 * Both are counted in indexes that hold all that is asked (`deliveries_queued`, `deliveries_troubled`), so that a queue of
 * 100,000 is counted without reading its rows. A delivery that was never tried is in the first of them alone.
 */
import { type RawBuilder, sql } from 'kysely';
import { type ReadDatabase, withoutNulls } from '../../platform/database/database.ts';
import type { EpochMs } from '../../platform/time/time.ts';
import {
  conditionsOf,
  isAmong,
  OPEN_STATES,
  type OpenState,
  type QueueFilter,
} from './queue-filter.ts';

/** What waits for one receiver, or failed at it. */
export interface QueueReceiver {
  readonly destination: string;
  readonly kinds: readonly string[];
  readonly counts: Readonly<Record<OpenState, number>>;
  /** When the oldest of them was queued. */
  readonly oldestAt: EpochMs;
  /** When the next of them is due; absent where all are held or have failed. */
  readonly nextAttemptAt?: EpochMs;
  /** When the last of them failed; absent where none has. */
  readonly failedAt?: EpochMs;
  /** The most frequent reason, and how many deliveries it has. */
  readonly reason?: { readonly text: string; readonly count: number };
  /** The claims whose mail it is, those with most of it first. */
  readonly domainIds: readonly number[];
  /** When a delivery to it succeeded last, as far as ended ones are kept. */
  readonly lastSuccessAt?: EpochMs;
}

/** Where a list of receivers continues. */
export interface ReceiverKey {
  readonly rank: number;
  readonly destination: string;
}

/** A filter that all of a count is made with. */
export type CountFilter = Omit<QueueFilter, 'ids'>;

/** What waits: the states that are counted where a filter names none. */
const WAITING: readonly OpenState[] = ['queued', 'held'];

/** Lines of each part of a summary. */
const LINES_MAX = 20;

export interface ReceiverPage {
  readonly receivers: QueueReceiver[];
  /** Where the next page begins; undefined on the last one. */
  readonly next: ReceiverKey | undefined;
  /** How many there are in all; undefined on a page behind the last one. */
  readonly total: number | undefined;
}

/**
 * Receivers with what waits for them, the oldest first; those at which something failed come by the time of the last
 * failure, the newest first.
 */
export async function listReceivers(
  database: ReadDatabase,
  filter: CountFilter,
  { after, limit }: { readonly after: ReceiverKey | undefined; readonly limit: number },
): Promise<ReceiverPage> {
  const ranked = await rankReceivers(database, filter, { after, limit: limit + 1 });
  const page = ranked.slice(0, limit);
  const destinations = page.map(({ destination }) => destination);
  const [rows, reasons, succeeded] = await Promise.all([
    countOf(database, filter, destinations),
    topReasons(database, filter, destinations),
    lastSuccesses(database, destinations),
  ]);
  const byReceiver = Map.groupBy(rows, ({ destination }) => destination);
  const last = ranked.length > limit ? page.at(-1) : undefined;
  return {
    // One may have nothing any more since it was ranked.
    receivers: destinations.flatMap((name) => {
      const own = byReceiver.get(name);
      const about = { reason: reasons.get(name), lastSuccessAt: succeeded.get(name) };
      return own ? [toReceiver(name, own, about)] : [];
    }),
    next: last && { destination: last.destination, rank: last.rank },
    total: ranked[0]?.total ?? (after ? undefined : 0),
  };
}

interface CountRow {
  readonly state: OpenState;
  readonly destination: string;
  readonly domain_id: number;
  readonly kind: string;
  readonly amount: number;
  readonly oldest: number;
  readonly changed: number;
  readonly due: number;
}

interface RankRow extends ReceiverKey {
  /** Of all receivers. */
  readonly total: number;
}

/** The receivers of a page in the order of the list: to know which are the first, all have to be looked at. */
async function rankReceivers(
  database: ReadDatabase,
  filter: CountFilter,
  { after, limit }: { readonly after: ReceiverKey | undefined; readonly limit: number },
): Promise<readonly RankRow[]> {
  const parts = statesOf(filter).map(
    (state) => sql`select destination, min(created_at) as oldest,
      ${state === 'failed' ? sql`max(updated_at)` : sql`0`} as changed,
      ${sql.lit(state === 'failed' ? 0 : 1)} as is_waiting
      ${ofState(database, state, filter)} group by destination`,
  );
  const later = after
    ? sql`where (rank, destination) > (cast(${after.rank} as bigint), cast(${after.destination} as text))`
    : sql``;
  const { rows } = await sql<RankRow>`with ranked as materialized (
      select destination, case when sum(is_waiting) = 0 then -max(changed) else min(oldest) end as rank
      from (${sql.join(parts, sql` union all `)}) looked group by destination
    )
    select destination, rank, (select count(*) from ranked) as total
    from ranked ${later} order by rank, destination limit ${limit}`.execute(database.read);
  return rows;
}

/** Counts what some receivers have. */
async function countOf(
  database: ReadDatabase,
  filter: CountFilter,
  destinations: readonly string[],
): Promise<readonly CountRow[]> {
  if (destinations.length === 0) return [];
  const parts = statesOf(filter).map(
    (
      state,
    ) => sql`select destination, domain_id, kind, ${sql.lit(state)} as state, count(*) as amount,
      min(created_at) as oldest, ${state === 'failed' ? sql`max(updated_at)` : sql`0`} as changed,
      min(next_attempt_at) as due
      ${ofState(database, state, filter)} and ${isAmong('destination', destinations)}
      group by destination, domain_id, kind`,
  );
  const { rows } = await sql<CountRow>`${sql.join(parts, sql` union all `)}`.execute(database.read);
  return rows;
}

function toReceiver(
  destination: string,
  own: readonly CountRow[],
  about: {
    readonly reason: QueueReceiver['reason'] | undefined;
    readonly lastSuccessAt: EpochMs | undefined;
  },
): QueueReceiver {
  const sum = (state: OpenState) => amountOf(own.filter((row) => row.state === state));
  const queued = own.filter(({ state }) => state === 'queued');
  const failed = own.filter(({ state }) => state === 'failed');
  const byDomain = [...Map.groupBy(own, (row) => row.domain_id)];
  const { reason, lastSuccessAt } = about;
  return {
    destination,
    kinds: [...new Set(own.map(({ kind }) => kind))].sort(),
    counts: { queued: sum('queued'), held: sum('held'), failed: sum('failed') },
    oldestAt: Math.min(...own.map(({ oldest }) => oldest)),
    ...(queued.length > 0 && { nextAttemptAt: Math.min(...queued.map(({ due }) => due)) }),
    ...(failed.length > 0 && { failedAt: Math.max(...failed.map(({ changed }) => changed)) }),
    ...(reason && { reason }),
    domainIds: byDomain
      .sort(([, one], [, other]) => amountOf(other) - amountOf(one))
      .map(([domainId]) => domainId),
    ...(lastSuccessAt !== undefined && { lastSuccessAt }),
  };
}

const amountOf = (rows: readonly CountRow[]) => rows.reduce((sum, { amount }) => sum + amount, 0);

async function lastSuccesses(
  { read }: ReadDatabase,
  destinations: readonly string[],
): Promise<ReadonlyMap<string, number>> {
  if (destinations.length === 0) return new Map();
  // One step in `deliveries_succeeded` for each.
  const parts = destinations.map(
    (destination) => sql`select * from (select destination, finished_at from deliveries
      where status = 'delivered' and destination = ${destination} order by finished_at desc limit 1) newest`,
  );
  const { rows } = await sql<{
    destination: string;
    finished_at: number;
  }>`${sql.join(parts, sql` union all `)}`.execute(read);
  return new Map(rows.map(({ destination, finished_at }) => [destination, finished_at]));
}

/** The most frequent reason at each of some receivers. */
export async function topReasons(
  database: ReadDatabase,
  filter: CountFilter,
  destinations: readonly string[],
): Promise<ReadonlyMap<string, { readonly text: string; readonly count: number }>> {
  if (destinations.length === 0) return new Map();
  const parts = statesOf(filter).map(
    (
      state,
    ) => sql`select destination, reason, count(*) as amount ${ofState(database, state, filter, true)}
      and reason is not null and ${isAmong('destination', destinations)} group by destination, reason`,
  );
  const { rows } = await sql<{ destination: string; text: string; count: number }>`
    select destination, reason as text, amount as count from (
      select destination, reason, cast(sum(amount) as bigint) as amount,
        row_number() over (partition by destination order by sum(amount) desc, reason) as place
      from (${sql.join(parts, sql` union all `)}) counted group by destination, reason
    ) ranked where place = 1`.execute(database.read);
  return new Map(rows.map(({ destination, text, count }) => [destination, { text, count }]));
}

export const sum = (column: string) => sql`cast(sum(${sql.ref(column)}) as bigint)`;

const statesOf = ({ states = WAITING }: CountFilter): readonly OpenState[] => states;

/** The literal condition of the index: with another form, SQLite would not use it. */
const TROUBLED = sql`status <> 'delivered' and (status <> 'queued' or reason is not null)`;

/**
 * `from` and `where` of what is in a state and fits a filter, by an index that has all of it.
 *
 * @param isTried whether only what has a reason is meant
 */
export function ofState(
  { engine }: ReadDatabase,
  state: OpenState,
  filter: CountFilter,
  isTried = filter.reason !== undefined,
): RawBuilder<unknown> {
  const isTroubled = state !== 'queued' || isTried;
  const index = sql.ref(isTroubled ? 'deliveries_troubled' : 'deliveries_queued');
  const by = engine === 'sqlite' ? sql`indexed by ${index}` : sql``;
  const conditions = [
    sql`status = ${sql.lit(state)}`,
    ...(isTroubled ? [TROUBLED] : []),
    ...conditionsOf(filter),
  ];
  return sql`from deliveries ${by} where ${sql.join(conditions, sql` and `)}`;
}

/** The ids of the newest deliveries that fit a filter. */
export async function findNewest(
  database: ReadDatabase,
  { states = OPEN_STATES, ...filter }: CountFilter,
  { before, limit }: { readonly before: number | undefined; readonly limit: number },
): Promise<number[]> {
  const older = before === undefined ? sql`` : sql`and id < ${before}`;
  const parts = states.map(
    (state) => sql`select * from (
      select id ${ofState(database, state, filter)} ${older}
      order by id desc limit ${limit}) newest`,
  );
  const { rows } = await sql<{
    id: number;
  }>`select id from (${sql.join(parts, sql` union all `)}) found
    order by id desc limit ${limit}`.execute(database.read);
  return rows.map(({ id }) => id);
}

/** The number of rows of a state, as a column of each state: a union of them has all. */
export function amountsOf(state: OpenState): RawBuilder<unknown> {
  const columns = OPEN_STATES.map(
    (of) => sql`${state === of ? sql`count(*)` : sql`0`} as ${sql.ref(of)}`,
  );
  return sql.join(columns);
}

/** A part of the queue, by reason, domain and sender. */
export interface QueueSummary {
  readonly counts: Readonly<Record<OpenState, number>>;
  readonly oldestAt?: EpochMs;
  readonly nextAttemptAt?: EpochMs;
  /** The most frequent first, at most {@link LINES_MAX}, as in the other parts. */
  readonly reasons: readonly (SummaryLine & { readonly text: string })[];
  /** How many were not tried yet. */
  readonly untried: number;
  readonly domains: readonly (SummaryLine & { readonly domainId: number })[];
  /** Absent: deliveries from before 0.4.0, which do not say whose they are. */
  readonly senders: readonly (SummaryLine & { readonly mailFrom?: string })[];
}

interface SummaryLine {
  readonly counts: Readonly<Record<OpenState, number>>;
  readonly oldestAt: EpochMs;
  readonly nextAttemptAt?: EpochMs;
}

/** Counts what fits a filter, by reason, domain and sender. */
export async function summarize(
  database: ReadDatabase,
  filter: CountFilter,
): Promise<QueueSummary> {
  const [{ reason: reasons = [] }, { domain_id: domains = [], mail_from: senders = [] }] =
    await Promise.all([
      linesOf(database, filter, ['reason']),
      linesOf(database, filter, ['domain_id', 'mail_from']),
    ]);
  const whole = domains[0];
  const tried = reasons[0]?.tried ?? 0;
  return {
    counts: {
      queued: whole?.all_queued ?? 0,
      held: whole?.all_held ?? 0,
      failed: whole?.all_failed ?? 0,
    },
    ...(whole && { oldestAt: whole.all_oldest }),
    ...(whole && whole.all_due !== null && { nextAttemptAt: whole.all_due }),
    reasons: reasons.map((row) => ({ ...writeLine(row), text: row.value ?? '' })),
    untried: whole ? whole.tried - tried : 0,
    domains: domains.map((row) => ({ ...writeLine(row), domainId: Number(row.value) })),
    senders: senders.map((row) => ({
      ...writeLine(row),
      ...withoutNulls({ mailFrom: row.value }),
    })),
  };
}

type Part = 'reason' | 'domain_id' | 'mail_from';

interface LineRow {
  readonly part: Part;
  readonly value: string | null;
  readonly queued: number;
  readonly held: number;
  readonly failed: number;
  readonly oldest: number;
  readonly due: number | null;
  /** Of all lines. */
  readonly tried: number;
  readonly all_queued: number;
  readonly all_held: number;
  readonly all_failed: number;
  readonly all_oldest: number;
  readonly all_due: number | null;
}

function writeLine({ queued, held, failed, oldest, due }: LineRow): SummaryLine {
  return {
    counts: { queued, held, failed },
    ...withoutNulls({ oldestAt: oldest, nextAttemptAt: due }),
  };
}

/** Lines of one or more columns, for which the index is read once. */
async function linesOf(
  database: ReadDatabase,
  filter: CountFilter,
  columns: readonly Part[],
): Promise<{ readonly [Column in Part]?: readonly LineRow[] }> {
  const isReason = columns.includes('reason');
  const isTried = isReason || filter.reason !== undefined;
  const group = sql.join(columns.map((column) => sql.ref(column)));
  const counts = statesOf(filter).map((state) => {
    const due = state === 'queued' ? sql`min(next_attempt_at)` : sql`null`;
    const reasoned = isReason ? sql`and reason is not null` : sql``;
    return sql`select ${group}, ${amountsOf(state)},
      min(created_at) as oldest, ${due} as due
      ${ofState(database, state, filter, isTried)} ${reasoned} group by ${group}`;
  });
  const whole = (column: OpenState) =>
    sql`cast(sum(sum(${sql.ref(column)})) over () as bigint) as ${sql.ref(`all_${column}`)}`;
  const parts = columns.map(
    (
      column,
    ) => sql`select * from (select ${sql.lit(column)} as part, cast(${sql.ref(column)} as text) as value,
      ${sum('queued')} as queued, ${sum('held')} as held, ${sum('failed')} as failed,
      min(oldest) as oldest, min(due) as due,
      cast(sum(sum(queued) + sum(held) + sum(failed)) over () as bigint) as tried,
      ${whole('queued')}, ${whole('held')}, ${whole('failed')},
      min(min(oldest)) over () as all_oldest, min(min(due)) over () as all_due
      from counted group by ${sql.ref(column)}
      order by sum(queued) + sum(held) + sum(failed) desc, ${sql.ref(column)} limit ${LINES_MAX}) lines`,
  );
  const { rows } = await sql<LineRow>`
    with counted as materialized (${sql.join(counts, sql` union all `)})
    ${sql.join(parts, sql` union all `)}`.execute(database.read);
  return Object.groupBy(rows, ({ part }) => part);
}
