/**
 * What operators do to many deliveries at once: retry, hold, release, drop. Rows are read in the order of an
 * index, 1,000 at a time, and changed 100 in a transaction; between two steps other work gets a turn. A row
 * that is being attempted is not changed.
 */
import { setImmediate as turn } from 'node:timers/promises';
import type { Database, Engine, Queries, Row } from '../../platform/database/database.ts';
import type { Done, Step } from '../../platform/time/time.ts';
import type { Trace } from '../trace/trace.ts';
import {
  fits,
  type OpenKey,
  type OpenState,
  pastStateOf,
  type QueueFilter,
  type Receiver,
  readKeys,
} from './open-keys.ts';
import { dropped, hasPayload, putBack } from './operator-rows.ts';
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
  readonly now: number;
}

export type BulkRow = Pick<
  Row<'deliveries'>,
  | 'id'
  | 'kind'
  | 'destination'
  | 'domain_id'
  | 'sender'
  | 'status'
  | 'created_at'
  | 'updated_at'
  | 'attempts'
  | 'next_attempt_at'
  | 'lease_owner'
  | 'held_by'
> & { readonly is_kept: unknown };

/** A row that was changed, as the trace and workers need it. */
export type ChangedRow = Pick<
  Row<'deliveries'>,
  'id' | 'kind' | 'sender' | 'destination' | 'public_id' | 'mail_id' | 'recipient'
>;

/** The states that each action changes, where the filter names none. */
const STATES: Record<BulkAction, readonly OpenState[]> = {
  retry: ['queued', 'failed'],
  hold: ['queued'],
  release: ['held'],
  drop: ['queued', 'held'],
};
/** The other states that a filter may name for it. */
const ALLOWED: Record<BulkAction, readonly OpenState[]> = {
  ...STATES,
  retry: ['queued', 'failed', 'held'],
};
const READ_AT_A_TIME = 1_000;
const CHANGED_AT_A_TIME = 100;
/**
 * The most milliseconds of one call after the first row that matches, give or take a step. Rows that an earlier call
 * has changed are skipped again; that time does not count.
 */
const LONGEST_MS = 5_000;

/**
 * Changes the deliveries that the order names, in steps. It ends early after {@link LONGEST_MS}.
 *
 * @param change changes rows in a transaction of its own, and returns how many it changed; gets what was done before it
 */
export async function runBulk(
  database: Database,
  request: BulkRequest,
  change: (ids: readonly number[], before: Done) => Promise<number>,
): Promise<Step> {
  let end = Number.POSITIVE_INFINITY;
  let matched = 0;
  let changed = 0;
  for await (const rows of walk(database, request)) {
    const ids = rows.filter((row) => isMeant(row, request)).map(({ id }) => id);
    matched += ids.length;
    if (matched > 0) end = Math.min(end, performance.now() + LONGEST_MS);
    for (let at = 0; at < ids.length && !request.isDryRun; at += CHANGED_AT_A_TIME) {
      changed += await change(ids.slice(at, at + CHANGED_AT_A_TIME), { matched, changed });
    }
    if (performance.now() >= end) return { matched, changed, more: true };
    await turn();
  }
  return { matched, changed, more: false };
}

function statesOf({ action, filter: { state } }: BulkRequest): readonly OpenState[] {
  if (state === undefined) return STATES[action];
  return ALLOWED[action].includes(state) ? [state] : [];
}

function isMeant(row: BulkRow, request: BulkRequest): boolean {
  const { action, filter, heldBy, now } = request;
  const { before = Number.POSITIVE_INFINITY } = filter;
  if (!fits(row, filter, statesOf(request))) return false;
  if (!(filter.senders?.includes(row.sender) ?? true)) return false;
  if (row.lease_owner !== null || row.created_at >= before) return false;
  if (action === 'retry') {
    // A row that was attempted after the order was given is not retried by it.
    if (row.updated_at > now) return false;
    // A row that is due is attempted anyway; one that was never attempted waits for the time that its sender set.
    const waits = row.attempts > 0 && row.next_attempt_at > now;
    return Boolean(row.is_kept) && (row.status !== 'queued' || waits);
  }
  if (action !== 'release') return true;
  return (row.held_by === 'suspension') === (heldBy === 'suspension');
}

const read = [
  'id',
  'kind',
  'destination',
  'domain_id',
  'sender',
  'status',
  'created_at',
  'updated_at',
  'attempts',
  'next_attempt_at',
  'lease_owner',
  'held_by',
  hasPayload.as('is_kept'),
] as const;

/** Rows that may match, in steps; each is seen once, whatever happens to those before. */
async function* walk(database: Database, request: BulkRequest): AsyncGenerator<BulkRow[]> {
  const { ids, destination, domainIds } = request.filter;
  if (ids) {
    yield await readRows(database, ids);
  } else if (domainIds && destination === undefined) {
    for (const domainId of domainIds) {
      for (const state of statesOf(request)) yield* walkDomain(database, domainId, state);
    }
  } else {
    for (const domainId of domainIds ?? [undefined]) {
      const receiver = destination === undefined ? undefined : { destination, domainId };
      yield* walkReceivers(database, request, receiver);
    }
  }
}

async function readRows({ read: queries }: Database, ids: readonly number[]): Promise<BulkRow[]> {
  if (ids.length === 0) return [];
  return queries.selectFrom('deliveries').select(read).where('id', 'in', ids).execute();
}

/** By `deliveries_by_status`. */
async function* walkDomain(
  { read: queries }: Database,
  domainId: number,
  state: OpenState,
): AsyncGenerator<BulkRow[]> {
  for (let after = 0; ; ) {
    const rows: BulkRow[] = await queries
      .selectFrom('deliveries')
      .select(read)
      .where('domain_id', '=', domainId)
      .where('status', '=', state)
      .where('id', '>', after)
      .orderBy('id')
      .limit(READ_AT_A_TIME)
      .execute();
    yield rows;
    const last = rows.at(-1);
    if (!last || rows.length < READ_AT_A_TIME) return;
    after = last.id;
  }
}

/** By `deliveries_by_receiver`: a row is read only where the index shows that it may match. */
async function* walkReceivers(
  database: Database,
  request: BulkRequest,
  receiver: Receiver | undefined,
): AsyncGenerator<BulkRow[]> {
  const states = statesOf(request);
  const mayBeMeant = (key: OpenKey) => fits(key, request.filter, states);
  for (let after: OpenKey | undefined; ; ) {
    const page = { receiver, after, order: 'asc', limit: READ_AT_A_TIME } as const;
    const keys = await readKeys(database.read, page);
    const meant = keys.filter(mayBeMeant);
    yield await readRows(
      database,
      meant.map(({ id }) => id),
    );
    const last = keys.at(-1);
    if (!last || keys.length < READ_AT_A_TIME) return;
    after = mayBeMeant(last) ? last : pastStateOf(last, 'asc');
  }
}

/**
 * Those of some domains that are suspended. They stay suspended until the transaction ends: a resume waits for that,
 * and then finds the deliveries that were held.
 */
export async function lockSuspended(
  tx: Queries,
  engine: Engine,
  domainIds: readonly number[],
): Promise<number[]> {
  if (domainIds.length === 0) return [];
  const rows = await tx
    .selectFrom('domains')
    .select('id')
    .where('id', 'in', domainIds)
    .where('suspended_at', 'is not', null)
    .$if(engine === 'postgres', (query) => query.forShare())
    .execute();
  return rows.map(({ id }) => id);
}

/** Changes rows that are still in a state that the action changes, and are not being attempted. */
export async function changeRows(
  tx: Queries,
  engine: Engine,
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
    const suspended = await lockSuspended(tx, engine, filter.domainIds ?? []);
    if (suspended.length === 0) return [];
    rows = rows.where('domain_id', 'in', suspended);
  }
  const changing = {
    retry: () =>
      // A delivery whose payload was removed cannot be retried.
      rows.where(hasPayload).set((eb) => ({
        ...putBack(now),
        next_attempt_at: eb
          .case()
          .when(eb.and([eb('status', '<>', 'failed'), eb('attempts', '=', 0)]))
          .then(eb.ref('next_attempt_at'))
          .else(now)
          .end(),
      })),
    hold: () => rows.set({ status: 'held', held_by: heldBy }),
    release: () => rows.set({ status: 'queued', held_by: null }),
    drop: () =>
      rows.set({
        ...dropped,
        held_by: null,
        finished_at: now,
      }),
  };
  return changing[action]()
    .returning(['id', 'kind', 'sender', 'destination', 'public_id', 'mail_id', 'recipient'])
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
