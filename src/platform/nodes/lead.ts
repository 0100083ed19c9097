/**
 * Work that one node does for all. The node holds a lease, a row of `leases`, and renews it while it works. If it dies,
 * the lease runs out, and the next node that asks gets it.
 *
 * A node that cannot renew its lease ends the work before the lease runs out, so that two nodes never do it at once.
 * The database's clock decides when a lease ends; the node itself measures its remaining time by the monotonic clock,
 * from before its query.
 */
import { setTimeout as pause } from 'node:timers/promises';
import type { Database } from '../database/database.ts';
import type { Outage } from '../time/time.ts';
import { databaseTime } from './clock.ts';

/** Milliseconds of a lease; it is renewed three times before it ends. */
const LEASE_MS = 20_000;
const RENEW_MS = 6_000;
/** Milliseconds in which the work must end after its signal, before another node may begin. */
const END_MS = 5_000;
/** How often a node asks for a lease that another one holds. */
const ASK_MS = 5_000;

export interface LeaseOptions {
  readonly database: Database;
  readonly name: string;
  /** Id of this node. */
  readonly owner: string;
}

/** @returns whether the lease is the owner's, for {@link LEASE_MS} from now on */
export async function take({ database, name, owner }: LeaseOptions): Promise<boolean> {
  return database.write(async (tx) => {
    const until = databaseTime;
    const row = await tx
      .insertInto('leases')
      .values(({ eb }) => ({ name, owner, until: eb(until, '+', LEASE_MS) }))
      .onConflict((conflict) =>
        conflict
          .column('name')
          .doUpdateSet(({ ref }) => ({ owner, until: ref('excluded.until') }))
          .where(({ eb, or }) =>
            or([eb('leases.until', '<=', databaseTime), eb('leases.owner', '=', owner)]),
          ),
      )
      .returning('owner')
      .executeTakeFirst();
    return row !== undefined;
  });
}

/**
 * A renewal may come to the database after the work has ended and the lease was given back, on another connection: it
 * must not take the lease once more.
 *
 * @returns whether the lease is still the owner's, for {@link LEASE_MS} from now on
 */
async function renew({ database, name, owner }: LeaseOptions): Promise<boolean> {
  const row = await database.write((tx) =>
    tx
      .updateTable('leases')
      .set(({ eb }) => ({ until: eb(databaseTime, '+', LEASE_MS) }))
      .where('name', '=', name)
      .where('owner', '=', owner)
      .returning('owner')
      .executeTakeFirst(),
  );
  return row !== undefined;
}

async function giveBack({ database, name, owner }: LeaseOptions): Promise<void> {
  await database.write((tx) =>
    tx.deleteFrom('leases').where('name', '=', name).where('owner', '=', owner).execute(),
  );
}

/**
 * Does the work whenever this node holds the lease, until the signal.
 *
 * @param work ends soon after its signal is aborted
 * @param outage told whether the database answers; after an error it is asked again
 */
export async function lead(
  lease: LeaseOptions,
  work: (signal: AbortSignal) => Promise<void>,
  stopping: AbortSignal,
  outage: Outage,
): Promise<void> {
  while (!stopping.aborted) {
    const heldFrom = performance.now();
    const isOurs = await told(take(lease), outage);
    if (isOurs) await hold(lease, work, stopping, heldFrom, outage);
    else await rest(ASK_MS, stopping);
  }
}

/** What the database answers, or undefined. */
async function told<Answer>(asked: Promise<Answer>, outage: Outage): Promise<Answer | undefined> {
  try {
    const answer = await asked;
    outage.worked();
    return answer;
  } catch (error) {
    outage.failed(error);
    return undefined;
  }
}

/** Works until the signal, or until the lease is lost. */
async function hold(
  lease: LeaseOptions,
  work: (signal: AbortSignal) => Promise<void>,
  stopping: AbortSignal,
  heldFrom: number,
  outage: Outage,
): Promise<void> {
  const lost = new AbortController();
  const signal = AbortSignal.any([stopping, lost.signal]);
  const keep = () => told(renew(lease), outage);
  const renewing = renewUntil(keep, signal, heldFrom).finally(() => lost.abort());
  await work(signal);
  lost.abort();
  await renewing;
  await told(giveBack(lease), outage);
}

/**
 * Renews a lease until the signal is aborted, or until {@link END_MS} before the lease runs out.
 *
 * @param renew whether the lease is ours for {@link LEASE_MS} from its call on; undefined where that is not known
 * @param heldFrom when the lease was asked for, by the monotonic clock
 * @param times replaces the clock in tests
 */
export async function renewUntil(
  renew: () => Promise<boolean | undefined>,
  signal: AbortSignal,
  heldFrom: number,
  times = { now: () => performance.now(), rest },
): Promise<void> {
  let renewedAt = heldFrom;
  const left = () => Math.max(renewedAt + LEASE_MS - END_MS - times.now(), 0);
  for (;;) {
    await times.rest(Math.min(RENEW_MS, left()), signal);
    if (signal.aborted || left() === 0) return;
    const askedAt = times.now();
    const answer = await Promise.race([renew(), times.rest(left(), signal)]);
    if (answer === false) return;
    if (answer === true) renewedAt = askedAt;
  }
}

async function rest(ms: number, signal: AbortSignal): Promise<undefined> {
  await pause(ms, undefined, { signal, ref: false }).catch(() => {});
}
