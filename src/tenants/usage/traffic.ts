/**
 * What the service does, for charts: table `traffic` has what all nodes counted in each five minutes and in each hour,
 * by name. Once a minute and at its stop, each node adds what its metrics counted since; a killed node loses its last
 * minute.
 *
 * Names have the form `what` or `what:detail`. Counters are added; gauges (`queue:<state>`, `mailboxes:<state>`,
 * `stored_bytes`) are set by the node that does the maintenance.
 */
import { type RawBuilder, sql } from 'kysely';
import type { Database, Queries } from '../../platform/database/database.ts';
import {
  DAY_MS,
  type EpochMs,
  HOUR_MS,
  MINUTE_MS,
  Outage,
  Repeat,
  startOf,
} from '../../platform/time/time.ts';
import { lastHours } from './senders.ts';

/** Each span is kept as long as it can be read: hours for a month, five minutes for the last two days. */
const SPANS = [
  { span: 5 * MINUTE_MS, keptMs: 3 * DAY_MS },
  { span: HOUR_MS, keptMs: 30 * DAY_MS },
] as const;

/** Up to so many hours are returned by five minutes, more by the hour. */
const FINE_HOURS = 48;
export const HOURS_MAX = 720;

type Amounts = Readonly<Record<string, number>>;

export interface TrafficOptions {
  readonly database: Database;
  /** What was counted since the start of the process, by name. */
  readonly totals: () => Promise<Amounts>;
  readonly log: { warn(fields: object, text: string): void };
  readonly now: () => EpochMs;
}

/** What was counted in one span of time. */
export interface TrafficPoint {
  /** When it begins. */
  readonly at: number;
  readonly amounts: Amounts;
}

export class Traffic {
  readonly #options: TrafficOptions;
  /** The amounts that are in the database already. */
  #written: Amounts = {};
  readonly #flushes: Repeat;

  constructor(options: TrafficOptions) {
    this.#options = options;
    const text = 'the counters for the charts could not be stored: retry in 60 s';
    const outage = new Outage((err) => options.log.warn({ err }, text));
    this.#flushes = new Repeat({ everyMs: MINUTE_MS, task: () => this.#add(), outage });
  }

  start(): void {
    this.#flushes.start();
  }

  async stop(): Promise<void> {
    await this.flush();
    await this.#flushes.stop();
  }

  /** Adds what was counted since the last time; after a failure it is added the next time. */
  flush(): Promise<void> {
    return this.#flushes.run();
  }

  async #add(): Promise<void> {
    const totals = await this.#options.totals();
    const added = Object.entries(totals)
      .map(([name, total]): [string, number] => [name, total - (this.#written[name] ?? 0)])
      .filter(([, amount]) => amount > 0);
    if (added.length > 0) await this.#write(added, sql`traffic.value + excluded.value`);
    this.#written = totals;
  }

  /** Sets the current value of a gauge. */
  gauge(amounts: Amounts): Promise<void> {
    return this.#write(Object.entries(amounts), sql`excluded.value`);
  }

  async #write(amounts: [string, number][], value: RawBuilder<number>): Promise<void> {
    const now = this.#options.now();
    // All nodes use the same order, so they cannot deadlock.
    const ordered = amounts.toSorted(([one], [other]) => (one < other ? -1 : 1));
    const rows = SPANS.flatMap(({ span }) =>
      ordered.map(([name, amount]) => ({
        span,
        at: startOf(span, now),
        name,
        value: Math.round(amount),
      })),
    );
    await this.#options.database.write((tx) =>
      tx
        .insertInto('traffic')
        .values(rows)
        .onConflict((conflict) => conflict.columns(['span', 'at', 'name']).doUpdateSet({ value }))
        .execute(),
    );
  }

  /** What was counted in the last hours before an instant, the oldest first, including spans without any count. */
  async read(hours: number, now: EpochMs): Promise<TrafficPoint[]> {
    const { database } = this.#options;
    const { span, first, last } = this.#within(hours, now, FINE_HOURS);
    const rows = await database.read
      .selectFrom('traffic')
      .select(['at', 'name', 'value'])
      .where('span', '=', span)
      .where('at', '>=', first)
      .where('at', '<=', last)
      .execute();
    const byTime = Map.groupBy(rows, ({ at }) => at);
    return Array.from({ length: (last - first) / span + 1 }, (_, index) => {
      const at = first + index * span;
      const some = byTime.get(at) ?? [];
      return { at, amounts: Object.fromEntries(some.map(({ name, value }) => [name, value])) };
    });
  }

  /** What was counted in as many hours before those; undefined where not all of them are kept. */
  async readBefore(hours: number, now: EpochMs): Promise<Amounts | undefined> {
    if (2 * hours > HOURS_MAX) return undefined;
    // Five minutes are kept for three days.
    const { span, first } = this.#within(hours, now, FINE_HOURS / 2);
    return sumByName(
      selectSpans(this.#options.database.read, span)
        .where('at', '>=', first - hours * HOUR_MS)
        .where('at', '<', first),
    );
  }

  /** The spans of the last hours, those of five minutes for so many hours at most. */
  #within(
    hours: number,
    now: EpochMs,
    fineHours: number,
  ): { span: number; first: number; last: number } {
    const span = hours <= fineHours ? SPANS[0].span : SPANS[1].span;
    const last = startOf(span, now);
    return { span, first: last - hours * HOUR_MS + span, last };
  }
}

/** What was counted under these names in the last 24 hours. */
export async function sumOfDay(
  queries: Queries,
  now: EpochMs,
  names: readonly string[],
): Promise<Amounts> {
  return sumByName(
    selectSpans(queries, HOUR_MS)
      // One by one: each is a step in the index.
      .where('at', 'in', lastHours(now, 24))
      .where('name', 'in', names),
  );
}

function selectSpans(queries: Queries, span: number) {
  return queries.selectFrom('traffic').where('span', '=', span);
}

async function sumByName(spans: ReturnType<typeof selectSpans>): Promise<Amounts> {
  const sums = spans.select(({ fn }) => ['name', fn.sum<number | string>('value').as('value')]);
  const rows = await sums.groupBy('name').execute();
  return Object.fromEntries(rows.map(({ name, value }) => [name, Number(value)]));
}

/** The last values of gauges; those that were not set in the last ten minutes or more are left out. */
export async function lastGauges(
  queries: Queries,
  now: EpochMs,
  names: readonly string[],
): Promise<Amounts> {
  const spans = await lastCounts(queries, now, names);
  return Object.assign({}, ...spans.toReversed());
}

/** What was counted under these names in the last three spans of five minutes, the newest first. */
export async function lastCounts(
  queries: Queries,
  now: EpochMs,
  names: readonly string[],
): Promise<readonly Amounts[]> {
  const [{ span }] = SPANS;
  const last = startOf(span, now);
  const spans = [last, last - span, last - 2 * span];
  const rows = await queries
    .selectFrom('traffic')
    .select(['at', 'name', 'value'])
    .where('span', '=', span)
    .where('at', 'in', spans)
    .where('name', 'in', names)
    .execute();
  return spans.map((start) =>
    Object.fromEntries(
      rows.filter(({ at }) => at === start).map(({ name, value }) => [name, value]),
    ),
  );
}

/** Removes spans that can no longer be read. @returns how many rows; 0 where none is left */
export async function pruneTraffic(tx: Queries, now: number): Promise<number> {
  let pruned = 0;
  for (const { span, keptMs } of SPANS) {
    const oldest = await tx
      .selectFrom('traffic')
      .select('at')
      .where('span', '=', span)
      .where('at', '<', now - keptMs)
      .orderBy('at')
      .limit(1)
      .executeTakeFirst();
    if (!oldest) continue;
    const { numDeletedRows } = await tx
      .deleteFrom('traffic')
      .where('span', '=', span)
      .where('at', '=', oldest.at)
      .executeTakeFirst();
    pruned += Number(numDeletedRows);
  }
  return pruned;
}
