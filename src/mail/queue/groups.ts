/** The queue as operators see it: waiting and failed deliveries by receiver, domain and kind, and one by one. */
import { sql } from 'kysely';
import type { ReadDatabase } from '../../platform/database/database.ts';
import type { EpochMs } from '../../platform/time/time.ts';
import { type DeliveryError, errorFromJson } from './delivery.ts';
import { OPEN_STATES, type OpenState, type QueueFilter } from './queue-filter.ts';
import { amountsOf, type CountFilter, findNewest, ofState, sum } from './receivers.ts';
import { type KnownDelivery, readKnown } from './undelivered.ts';

/** Deliveries of one kind and domain that have one receiver. */
export interface QueueGroup extends GroupKey {
  /** Up to {@link COUNTED_MAX}, which stands for as many or more. */
  readonly counts: Readonly<Record<OpenState, number>>;
  /** When the next of them is due; absent where none waits. */
  readonly oldestDueAt?: EpochMs;
  readonly lastError?: DeliveryError;
}

export interface GroupKey {
  readonly destination: string;
  readonly domainId: number;
  readonly kind: string;
}

/** The highest number that is told. */
const COUNTED_MAX = 10_000;

export type GroupFilter = Pick<QueueFilter, 'destination' | 'domainIds' | 'kind'> & {
  /** Only groups that have a delivery in this state. */
  readonly state?: OpenState | undefined;
};

interface CountedGroup extends GroupKey, Record<OpenState, number> {
  readonly due: number | null;
  readonly error: string | null;
}

/** Lists groups in the order of destination, domain and kind. */
export async function listGroups(
  database: ReadDatabase,
  { state, ...filter }: GroupFilter,
  { after, limit }: { readonly after: GroupKey | undefined; readonly limit: number },
): Promise<{ readonly groups: QueueGroup[]; readonly next: GroupKey | undefined }> {
  const key = sql`destination, domain_id, kind`;
  const behind = after
    ? sql`and (${key}) > (cast(${after.destination} as text), cast(${after.domainId} as bigint), cast(${after.kind} as text))`
    : sql``;
  const counts = OPEN_STATES.map(
    (one) => sql`select ${key}, ${amountsOf(one)},
      ${one === 'queued' ? sql`min(next_attempt_at)` : sql`null`} as due, ${oldestOf(one)}
      ${ofState(database, one, filter)} ${behind} group by ${key}`,
  );
  const { rows } = await sql<CountedGroup>`
    with page as materialized (
      select ${key}, ${sum('queued')} as queued, ${sum('held')} as held, ${sum('failed')} as failed,
        min(due) as due, ${sql.join(OPEN_STATES.map((one) => sql`min(${oldest(one)}) as ${oldest(one)}`))}
      from (${sql.join(counts, sql` union all `)}) counted group by ${key}
      ${state ? sql`having sum(${sql.ref(state)}) > 0` : sql``}
      order by ${key} limit ${limit + 1}
    )
    select destination, domain_id as "domainId", kind, queued, held, failed, due,
      coalesce(${sql.join(OPEN_STATES.map(errorOf))}) as error
    from page order by ${key}`.execute(database.read);
  const groups = rows.slice(0, limit).map(toGroup);
  return { groups, next: rows.length > limit ? groups.at(-1) : undefined };
}

/** The column of the oldest delivery of a group in a state. */
const oldest = (state: OpenState) => sql.ref(`oldest_${state}`);

/** Its id, as a column of each state: a union of them has all. */
function oldestOf(state: OpenState) {
  const columns = OPEN_STATES.map(
    (of) => sql`${state === of ? sql`min(id)` : sql`cast(null as bigint)`} as ${oldest(of)}`,
  );
  return sql.join(columns);
}

const errorOf = (state: OpenState) =>
  sql`(select last_error from deliveries where id = page.${oldest(state)})`;

function toGroup({ queued, held, failed, due, error, ...key }: CountedGroup): QueueGroup {
  const told = (count: number) => Math.min(count, COUNTED_MAX);
  return {
    ...key,
    counts: { queued: told(queued), held: told(held), failed: told(failed) },
    ...(due !== null && { oldestDueAt: due }),
    ...(error !== null && { lastError: errorFromJson(error) }),
  };
}

/**
 * Single deliveries that were not delivered, the newest first.
 *
 * @returns also the id of the last one, where there are more
 */
export async function listOpen(
  database: ReadDatabase,
  filter: CountFilter,
  { before, limit }: { readonly before: number | undefined; readonly limit: number },
): Promise<{ readonly items: KnownDelivery[]; readonly next: number | undefined }> {
  const ids = await findNewest(database, filter, { before, limit: limit + 1 });
  const shown = ids.slice(0, limit);
  const known = await readKnown(database.read, shown);
  // None that was delivered meanwhile.
  const items = known.filter(({ status }) => status !== 'delivered').sort((a, b) => b.id - a.id);
  return { items, next: ids.length > limit ? shown.at(-1) : undefined };
}
