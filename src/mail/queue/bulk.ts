/**
 * What operators do to many deliveries at once: retry, hold, release, drop. Rows are read in the order of an
 * index, 1,000 at a time, and changed 100 in a transaction; between two steps other work gets a turn. A row
 * that is being attempted is not changed.
 */
import { setImmediate as turn } from 'node:timers/promises';
import { sql } from 'kysely';
import type { Database, Queries, Row } from '../../platform/database/database.ts';
import type { EpochMs, Step } from '../../platform/time/time.ts';
import type { Trace } from '../trace/trace.ts';
import { dropped, hasPayload, putBack } from './operator-rows.ts';
import { conditionsOf, isAmong, type OpenState, type QueueFilter } from './queue-filter.ts';
import { inOrder, type StateRequest } from './undelivered.ts';
import type { WorkOptions } from './work-options.ts';

export type BulkAction = 'retry' | 'hold' | 'release' | 'drop';

export interface BulkRequest {
  readonly action: BulkAction;
  readonly filter: QueueFilter;
  /** Whether to count only. */
  readonly isDryRun: boolean;
  /**
   * Who holds them. What the suspension of a domain holds, only its end releases. A suspension holds deliveries of
   * suspended domains that the filter names; deliveries that are queued later are held when due (`leaseRows`).
   */
  readonly heldBy: 'operator' | 'suspension';
  /** When the order was given. */
  readonly now: EpochMs;
  /** The time now. */
  readonly clock: () => EpochMs;
  /** The most that are changed. */
  readonly limit?: number | undefined;
  /** Where the call before ended. */
  readonly after?: WalkPosition | undefined;
  /** The most milliseconds of one call after the first row that matches, give or take a step; {@link LONGEST_MS} by default. */
  readonly longestMs?: number;
}

/** The last row that was looked at. */
export interface WalkPosition extends Pick<StateRequest, 'state' | 'domainId'> {
  readonly at: EpochMs;
  readonly id: number;
}

/** Where the next call of an order continues. */
export type BulkPosition = Required<Pick<BulkRequest, 'now' | 'after'>>;

/**
 * Why a delivery that fits the filter is not changed: it is being attempted right now; it changed after the order was given;
 * it is due and tried anyway; its message is not kept any more; a suspension holds it, or an operator.
 */
export type SkipReason = 'under_way' | 'changed_since' | 'due' | 'not_kept' | 'held_otherwise';

/** How many deliveries have the same value, the most frequent first. */
export type Tally<Value> = readonly { readonly value: Value; readonly count: number }[];

export interface BulkStep extends Step<BulkPosition> {
  readonly skipped: Readonly<Partial<Record<SkipReason, number>>>;
  /** What matches, in a dry run. */
  readonly parts?: {
    readonly states: Tally<string>;
    readonly domainIds: Tally<number>;
    /** Null: they were not tried yet. */
    readonly reasons: Tally<string | null>;
  };
}

/** A row that was changed, as the trace and workers need it. */
export type ChangedRow = Pick<
  Row<'deliveries'>,
  'id' | 'kind' | 'domain_id' | 'sender' | 'destination' | 'public_id' | 'mail_id' | 'recipient'
>;

/** The states that each action changes, where the filter names none. */
const STATES: Record<BulkAction, readonly OpenState[]> = {
  retry: ['queued', 'failed'],
  hold: ['queued'],
  release: ['held'],
  drop: ['queued', 'held'],
};
/** The other states that a filter may name alone for it. */
const ALLOWED: Record<BulkAction, readonly OpenState[]> = {
  ...STATES,
  retry: ['queued', 'failed', 'held'],
};
const READ_AT_A_TIME = 1_000;
const CHANGED_AT_A_TIME = 100;
const LONGEST_MS = 5_000;
/** By how much the clocks of two nodes may differ. */
const CLOCKS_DIFFER_MS = 60_000;
/** Values of each part of a dry run. */
const PARTS_MAX = 20;

/**
 * Changes the deliveries that the order names, in steps.
 *
 * @param change changes rows in a transaction of its own, and returns how many it changed; gets what was done before it
 */
export async function runBulk(
  database: Database,
  request: BulkRequest,
  change: (ids: readonly number[], before: Pick<Step, 'matched' | 'changed'>) => Promise<number>,
): Promise<BulkStep> {
  const { isDryRun, limit = Number.POSITIVE_INFINITY, now, longestMs = LONGEST_MS } = request;
  let end = Number.POSITIVE_INFINITY;
  let matched = 0;
  let changed = 0;
  const skipped: Partial<Record<SkipReason, number>> = {};
  const skip = (why: SkipReason, count: number) => {
    if (count > 0) skipped[why] = (skipped[why] ?? 0) + count;
  };
  const parts = new Parts();
  const done = () => ({ matched, changed, skipped, ...(isDryRun && { parts: parts.written }) });
  for await (const { rows, at: position } of walk(database, request)) {
    const meant: BulkRow[] = [];
    for (const row of rows) {
      const why = whySkipped(row, request);
      if (why) skip(why, 1);
      else if (matched + meant.length < limit) meant.push(row);
    }
    matched += meant.length;
    if (isDryRun) parts.add(meant);
    if (matched > 0) end = Math.min(end, performance.now() + longestMs);
    const ids = meant.map(({ id }) => id);
    for (let at = 0; at < ids.length && !isDryRun; at += CHANGED_AT_A_TIME) {
      const some = ids.slice(at, at + CHANGED_AT_A_TIME);
      const count = await change(some, { matched, changed });
      changed += count;
      skip('changed_since', some.length - count);
    }
    if (matched >= limit) break;
    if (position && performance.now() >= end)
      return { ...done(), more: true, next: { now, after: position } };
    await turn();
  }
  return { ...done(), more: false };
}

/** Counts what matches by its state, claim and reason. */
class Parts {
  readonly #states = new Map<string, number>();
  readonly #domainIds = new Map<number, number>();
  readonly #reasons = new Map<string | null, number>();

  add(rows: readonly BulkRow[]): void {
    for (const { status, domain_id, reason } of rows) {
      this.#states.set(status, (this.#states.get(status) ?? 0) + 1);
      this.#domainIds.set(domain_id, (this.#domainIds.get(domain_id) ?? 0) + 1);
      this.#reasons.set(reason, (this.#reasons.get(reason) ?? 0) + 1);
    }
  }

  get written() {
    return {
      states: tally(this.#states),
      domainIds: tally(this.#domainIds),
      reasons: tally(this.#reasons),
    };
  }
}

function tally<Value>(counts: ReadonlyMap<Value, number>): Tally<Value> {
  const sorted = [...counts].sort(([, one], [, other]) => other - one);
  return sorted.slice(0, PARTS_MAX).map(([value, count]) => ({ value, count }));
}

function statesOf({ action, filter: { states } }: BulkRequest): readonly OpenState[] {
  if (states === undefined) return STATES[action];
  const usual = STATES[action].filter((state) => states.includes(state));
  return usual.length > 0 ? usual : ALLOWED[action].filter((state) => states.includes(state));
}

function whySkipped(
  row: BulkRow,
  { action, heldBy, now, clock }: BulkRequest,
): SkipReason | undefined {
  if (row.lease_owner !== null) return 'under_way';
  if (action === 'retry') {
    // A row that was attempted after the order was given is not retried by it. One of the future was changed before the
    // clock was set back: it waits for a time that is as wrong.
    const isOfFuture = row.updated_at > clock() + CLOCKS_DIFFER_MS;
    if (row.updated_at > now && !isOfFuture) return 'changed_since';
    if (!row.is_kept) return 'not_kept';
    // A row that is due is attempted anyway; one that was never attempted waits for the time that its sender set.
    const waits = row.attempts > 0 && row.next_attempt_at > now;
    return row.status !== 'queued' || waits ? undefined : 'due';
  }
  if (action !== 'release') return undefined;
  return (row.held_by === 'suspension') === (heldBy === 'suspension')
    ? undefined
    : 'held_otherwise';
}

const read = [
  'id',
  'domain_id',
  'status',
  'reason',
  'updated_at',
  'attempts',
  'next_attempt_at',
  'lease_owner',
  'held_by',
  hasPayload.as('is_kept'),
] as const;

type BulkRow = Pick<Row<'deliveries'>, Exclude<(typeof read)[number], object>> & {
  readonly is_kept: unknown;
};

/** Rows that match, and where the walk is after them; undefined at its end. */
interface Stretch {
  readonly rows: readonly BulkRow[];
  readonly at: WalkPosition | undefined;
}

/** Rows that match, in steps; each is seen once, whatever happens to those before. */
async function* walk(database: Database, request: BulkRequest): AsyncGenerator<Stretch> {
  const { ids, domainIds } = request.filter;
  if (ids) {
    // PostgreSQL fails with numbers beyond those of ids.
    const whole = ids.filter(Number.isSafeInteger);
    yield { rows: await readRows(database, request, whole), at: undefined };
    return;
  }
  const claims: readonly (number | undefined)[] = domainIds ?? [undefined];
  const parts = claims.flatMap((domainId) =>
    statesOf(request).map((state) => ({ domainId, state })),
  );
  const { after } = request;
  const isAt = ({ domainId, state }: (typeof parts)[number]) =>
    state === after?.state && domainId === after.domainId;
  for (const part of parts.slice(Math.max(parts.findIndex(isAt), 0))) {
    yield* walkState(database, request, part, isAt(part) ? after : undefined);
  }
}

/** The rows in one state that match. */
async function* walkState(
  database: Database,
  request: BulkRequest,
  part: Pick<StateRequest, 'state' | 'domainId'>,
  from: WalkPosition | undefined,
): AsyncGenerator<Stretch> {
  for (let after = from; ; ) {
    const page = { ...part, after, limit: READ_AT_A_TIME };
    const keys = await inOrder(database.read, page, 'asc').select(['id', 'created_at']).execute();
    const ids = keys.map(({ id }) => id);
    const last = keys.at(-1);
    const at = last && { ...part, at: last.created_at, id: last.id };
    yield { rows: await readRows(database, request, ids), at };
    if (!at || keys.length < READ_AT_A_TIME) return;
    after = at;
  }
}

/** Those of some rows that match. */
async function readRows(
  { read: queries }: Database,
  request: BulkRequest,
  ids: readonly number[],
): Promise<BulkRow[]> {
  if (ids.length === 0) return [];
  let rows = queries.selectFrom('deliveries').select(read).where('id', 'in', ids).orderBy('id');
  const conditions = [isAmong('status', statesOf(request)), ...conditionsOf(request.filter)];
  for (const condition of conditions) rows = rows.where(condition);
  return rows.execute();
}

/**
 * Those of some domains that are suspended. They stay suspended until the transaction ends: a resume waits for that,
 * and then finds the deliveries that were held.
 */
export async function lockSuspended(tx: Queries, domainIds: readonly number[]): Promise<number[]> {
  if (domainIds.length === 0) return [];
  const rows = await tx
    .selectFrom('domains')
    .select('id')
    .where('id', 'in', domainIds)
    .where('suspended_at', 'is not', null)
    .forShare()
    .execute();
  return rows.map(({ id }) => id);
}

/** Changes rows that are still in a state that the action changes, and are not being attempted. */
export async function changeRows(
  tx: Queries,
  ids: readonly number[],
  request: BulkRequest,
): Promise<ChangedRow[]> {
  const { action, filter, heldBy, now } = request;
  let rows = tx
    .updateTable('deliveries')
    .where('id', 'in', ids)
    .where('status', 'in', statesOf(request))
    .where('lease_owner', 'is', null)
    .set({ updated_at: now });
  if (action === 'hold' && heldBy === 'suspension') {
    // After the end of the suspension nothing would release them.
    const suspended = await lockSuspended(tx, filter.domainIds ?? []);
    if (suspended.length === 0) return [];
    rows = rows.where('domain_id', 'in', suspended);
  }
  const changing = {
    retry: () =>
      // A delivery whose payload was removed cannot be retried.
      rows.where(hasPayload).set({
        ...putBack(now),
        next_attempt_at: sql`case when status <> 'failed' and attempts = 0 then next_attempt_at else ${now} end`,
      }),
    hold: () => rows.set({ status: 'held', held_by: heldBy }),
    release: () => rows.set({ status: 'queued', held_by: null }),
    drop: () => rows.set({ ...dropped, held_by: null, finished_at: now }),
  };
  return changing[action]()
    .returning(['id', 'kind', 'domain_id', 'sender', 'destination'])
    .returning(['public_id', 'mail_id', 'recipient'])
    .execute();
}

const ORDERED: Record<BulkAction, string> = {
  retry: 'retried',
  hold: 'held',
  release: 'released',
  drop: 'dropped',
};

/** An order that was carried out. */
interface Ordered {
  readonly action: BulkAction;
  readonly rows: readonly Pick<ChangedRow, 'id' | 'kind' | 'public_id' | 'mail_id' | 'recipient'>[];
  /** Who ordered it, or why. */
  readonly by: string;
}

/**
 * Writes the trace of changed rows: a line for each recipient, since operators search for one.
 *
 * @param recipientsOf by kind; deliveries of other kinds have one line with all their recipients
 */
export async function traceOrder(
  tx: Queries,
  trace: Pick<Trace, 'write'>,
  recipientsOf: (kind: string) => WorkOptions['recipientsOf'],
  { action, rows, by }: Ordered,
): Promise<void> {
  for (const [kind, some] of Map.groupBy(rows, (row) => row.kind)) {
    const ids = some.map(({ id }) => id);
    const named = await recipientsOf(kind)?.(tx, ids);
    const events = some.flatMap(({ id: deliveryId, mail_id: mailId, recipient, public_id }) => {
      if (mailId === null) return [];
      const about = { mailId, deliveryId, webhookId: public_id, detail: `by ${by}` };
      const names = named?.get(deliveryId) ?? [recipient];
      return names.map((name) => ({ ...about, event: ORDERED[action], recipient: name }));
    });
    await trace.write(tx, events);
  }
}
