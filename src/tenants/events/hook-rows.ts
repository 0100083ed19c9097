/** Event hooks as rows: one for a user, with the place up to which his events were queued for its URL. */
import { sql } from 'kysely';
import type { Queries, Row } from '../../platform/database/database.ts';
import type { EpochMs } from '../../platform/time/time.ts';
import { type EventType, eventTypes } from './write-events.ts';

/** Where the events of a user are posted. */
export interface EventHook {
  readonly id: number;
  readonly userId: string;
  readonly url: string;
  /** All where undefined. */
  readonly types: readonly EventType[] | undefined;
  readonly secret: string;
  /** The secret before a change, and until when it also signs. */
  readonly previous: { readonly secret: string; readonly until: EpochMs } | undefined;
  /** The last event that was queued, or passed over. */
  readonly cursor: string;
  /** When events were found to be gone before they were queued. */
  readonly missedAt: EpochMs | undefined;
  readonly createdAt: EpochMs;
}

function toHook(row: Row<'event_hooks'>): EventHook {
  const { types, secret_previous: previous, secret_until: until } = row;
  const named = types?.split(',');
  return {
    id: row.id,
    userId: row.user_id,
    url: row.url,
    types: named && eventTypes.filter((type) => named.includes(type)),
    secret: row.secret,
    previous: previous !== null && until !== null ? { secret: previous, until } : undefined,
    cursor: row.cursor,
    missedAt: row.missed_at ?? undefined,
    createdAt: row.created_at,
  };
}

/** The hook of a user, or by its id. */
export async function findHook(
  queries: Queries,
  by: { readonly userId: string } | { readonly id: number },
): Promise<EventHook | undefined> {
  const hooks = queries.selectFrom('event_hooks').selectAll();
  const query = 'id' in by ? hooks.where('id', '=', by.id) : hooks.where('user_id', '=', by.userId);
  const row = await query.executeTakeFirst();
  return row && toHook(row);
}

/** All hooks whose id is above one, in the order of their ids. */
export async function listHooks(
  queries: Queries,
  after: number,
  limit: number,
): Promise<EventHook[]> {
  const rows = await queries
    .selectFrom('event_hooks')
    .selectAll()
    .where('id', '>', after)
    .orderBy('id')
    .limit(limit)
    .execute();
  return rows.map(toHook);
}

/** A hook as it is set. */
export interface NewHook
  extends Pick<EventHook, 'userId' | 'url' | 'types' | 'cursor' | 'createdAt'> {
  readonly secret: string;
  /** The secret of the hook that is there stays. */
  readonly keepsSecret: boolean;
  /** Until when the secret that it replaces also signs. */
  readonly previousUntil: EpochMs;
}

/**
 * Inserts a hook, or replaces that of the user; its id, its place and its age stay then. One statement: of two at once, the
 * second finds the secret of the first.
 */
export async function saveHook(tx: Queries, hook: NewHook): Promise<EventHook> {
  const { secret, keepsSecret, previousUntil: until } = hook;
  const settings = { url: hook.url, types: hook.types?.join(',') ?? null };
  const isSame = sql`event_hooks.secret = ${secret}`;
  const row = await tx
    .insertInto('event_hooks')
    .values({
      ...settings,
      secret,
      secret_previous: null,
      secret_until: null,
      user_id: hook.userId,
      cursor: hook.cursor,
      created_at: hook.createdAt,
    })
    .onConflict((conflict) =>
      conflict.column('user_id').doUpdateSet({
        ...settings,
        ...(!keepsSecret && {
          secret,
          secret_previous: sql`case when ${isSame} then event_hooks.secret_previous else event_hooks.secret end`,
          secret_until: sql`case when ${isSame} then event_hooks.secret_until else ${until} end`,
        }),
      }),
    )
    .returningAll()
    .executeTakeFirstOrThrow();
  return toHook(row);
}

/** @returns false where there is none */
export async function removeHook(tx: Queries, id: number): Promise<boolean> {
  const row = await tx
    .deleteFrom('event_hooks')
    .where('id', '=', id)
    .returning('id')
    .executeTakeFirst();
  return row !== undefined;
}

/**
 * Notes up to where the events of a hook were queued.
 *
 * @param missedAt set where events were gone before
 * @returns false where the hook is not at `from` any more: somebody else has moved it, or it was removed
 */
export async function moveHook(
  tx: Queries,
  { id, cursor: from }: Pick<EventHook, 'id' | 'cursor'>,
  to: string,
  missedAt?: EpochMs,
): Promise<boolean> {
  const row = await tx
    .updateTable('event_hooks')
    .set({ cursor: to, ...(missedAt !== undefined && { missed_at: missedAt }) })
    .where('id', '=', id)
    .where('cursor', '=', from)
    .returning('id')
    .executeTakeFirst();
  return row !== undefined;
}
