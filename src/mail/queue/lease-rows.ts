/** The workers' queries on `deliveries`: leases. */
import {
  chunks,
  type Database,
  PreparedQuery,
  type Queries,
} from '../../platform/database/database.ts';
import type { EpochMs } from '../../platform/time/time.ts';
import type { Trace } from '../trace/trace.ts';
import { lockSuspended, traceOrder } from './bulk.ts';
import type { QueueOptions, WorkOptions } from './work-options.ts';
import {
  type LaneOfKind,
  type LeasedRow,
  payload,
  queued,
  rowColumns,
  selectWaiting,
} from './worker-rows.ts';

interface LeaseRequest extends LaneOfKind {
  readonly owner: string;
  readonly now: number;
  readonly until: number;
  readonly limit: number;
  /** Leases of others that ended after this are left to them; see {@link QueueOptions.mayTakeOver}. */
  readonly endedBy: EpochMs;
  readonly trace?: Pick<Trace, 'write'> | undefined;
  readonly recipientsOf?: WorkOptions['recipientsOf'];
}

interface Lease {
  readonly rows: readonly LeasedRow[];
  /** When the next row that is not leased is due; undefined where there is none, or it was not read. */
  readonly nextDue: number | undefined;
}

type LeaseValues = Omit<LeaseRequest, 'trace' | 'recipientsOf'>;

const leaseDue = new PreparedQuery((value: LeaseValues, queries) =>
  queries
    .with('due', (db) =>
      selectWaiting(db, value)
        .where('next_attempt_at', '<=', value.now)
        .where(({ eb, or }) =>
          or([
            eb('lease_owner', 'is', null),
            eb('lease_owner', '=', value.owner),
            eb('next_attempt_at', '<=', value.endedBy),
          ]),
        )
        .limit(value.limit)
        .forUpdate()
        .skipLocked(),
    )
    .updateTable('deliveries')
    .set({ lease_owner: value.owner, next_attempt_at: value.until, updated_at: value.now })
    .where('id', 'in', (eb) => eb.selectFrom('due').select('due.id'))
    .returning(rowColumns)
    .returning(payload)
    .returning((eb) =>
      eb
        .selectFrom('domains')
        .select('suspended_at')
        .whereRef('domains.id', '=', 'deliveries.domain_id')
        .as('suspended_at'),
    ),
);

const firstWaiting = new PreparedQuery((lane: LaneOfKind, queries) =>
  selectWaiting(queries, lane).limit(1),
);

// Leased rows are in the index, too, but they are few: those that are under way here and on other nodes.
const nextWithoutLease = new PreparedQuery((lane: LaneOfKind, queries) =>
  selectWaiting(queries, lane).where('lease_owner', 'is', null).limit(1),
);

/**
 * Leases the due rows of one lane, the longest due first. A row that another worker has locked is skipped.
 * Where nothing is due, nothing is written. Rows of a suspended domain are held instead of leased, however they came
 * to be queued: so none is attempted.
 */
export async function leaseRows(database: Database, request: LeaseRequest): Promise<Lease> {
  const { now, limit } = request;
  const first = await firstWaiting.first(database.read, request);
  if (!first || first.next_attempt_at > now) {
    return { rows: [], nextDue: await findNextDue(database.read, request) };
  }
  return database.write(async (tx) => {
    const leased = await leaseDue.all(tx, request);
    const open = await holdSuspended(tx, leased, request);
    const rows = open.sort((a, b) => a.id - b.id);
    return { rows, nextDue: rows.length < limit ? await findNextDue(tx, request) : undefined };
  });
}

/** Holds those of the rows whose domain is suspended. @returns the others */
async function holdSuspended(
  tx: Queries,
  leased: readonly (LeasedRow & { readonly suspended_at: number | null })[],
  { kind, now, trace, recipientsOf }: LeaseRequest,
): Promise<LeasedRow[]> {
  const ofSuspended = leased.filter(({ suspended_at }) => suspended_at !== null);
  if (ofSuspended.length === 0) return [...leased];
  // Locked, and read again: its suspension may end at this moment.
  const domainIds = new Set(ofSuspended.map(({ domain_id }) => domain_id));
  const suspended = new Set(await lockSuspended(tx, [...domainIds]));
  const isHeld = ({ domain_id }: LeasedRow) => suspended.has(domain_id);
  const held = leased.filter(isHeld);
  if (held.length > 0) {
    const ids = held.map(({ id }) => id);
    const state = { status: 'held', held_by: 'suspension' } as const;
    await tx
      .updateTable('deliveries')
      .set({ ...state, lease_owner: null, next_attempt_at: now, updated_at: now })
      .where('id', 'in', ids)
      .execute();
    const rows = held.map((row) => ({ ...row, kind }));
    const ordered = { action: 'hold', rows, by: 'the suspension of its domain' } as const;
    if (trace) await traceOrder(tx, trace, () => recipientsOf, ordered);
  }
  return leased.filter((row) => !isHeld(row));
}

async function findNextDue(queries: Queries, lane: LaneOfKind): Promise<number | undefined> {
  return (await nextWithoutLease.first(queries, lane))?.next_attempt_at;
}

/**
 * Extends the leases that the owner still has. A renewal that comes after a later one changes nothing. Rows that are locked
 * come last, and by themselves: their outcomes are being written, and to wait for that would cost the others their leases.
 */
export async function renewLeases(
  database: Database,
  owner: string,
  ids: readonly number[],
  until: number,
): Promise<void> {
  const locked = new Set(ids);
  for (const waits of [false, true]) {
    for (const some of chunks([...locked])) {
      const renewed = await database.write((tx) => {
        const held = tx
          .selectFrom('deliveries')
          .select('id')
          .where('id', 'in', some)
          .where('lease_owner', '=', owner)
          .where('next_attempt_at', '<', until)
          .forUpdate();
        return tx
          .updateTable('deliveries')
          .set({ next_attempt_at: until })
          .where('id', 'in', waits ? held : held.skipLocked())
          .returning('id')
          .execute();
      });
      for (const { id } of renewed) locked.delete(id);
    }
  }
}

/** Releases leases, as if nothing had been tried. @param due when the rows can be leased again */
export async function releaseLeases(
  database: Database,
  owner: string,
  ids: readonly number[],
  now: number,
  due = now,
): Promise<void> {
  for (const some of chunks(ids)) {
    await database.write((tx) =>
      tx
        .updateTable('deliveries')
        .set({ lease_owner: null, next_attempt_at: due, updated_at: now })
        .where('id', 'in', some)
        .where('lease_owner', '=', owner)
        .execute(),
    );
  }
}

/** Ends all leases of a kind, where their holders cannot be running. */
export async function endLeases(database: Database, kind: string, now: number): Promise<void> {
  await database.write((tx) =>
    tx
      .updateTable('deliveries')
      .set({ lease_owner: null, next_attempt_at: now, updated_at: now })
      .where('kind', '=', kind)
      .where('status', '=', queued)
      .where('lease_owner', 'is not', null)
      .execute(),
  );
}
