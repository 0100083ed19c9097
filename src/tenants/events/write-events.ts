/** Which events there are, and their writing: each in one statement that looks up whose it is. */
import { type RawBuilder, sql } from 'kysely';
import {
  isOnSqlite,
  PreparedQuery,
  type Queries,
  tellAfterCommit,
} from '../../platform/database/database.ts';
import type { EpochMs } from '../../platform/time/time.ts';

/** What can happen. */
export const eventTypes = [
  'message.received',
  'message.sent',
  'send.delivered',
  'send.deferred',
  'send.bounced',
  'domain.active',
  'domain.failing',
  'domain.pending',
  'domain.deleted',
  'account.created',
  'account.suspended',
  'account.resumed',
  'account.deleted',
  'delivery.failed',
] as const;

export type EventType = (typeof eventTypes)[number];

/** What an event tells, by the names of the API; what is undefined is left out. */
export type EventData = Readonly<Record<string, string | number | boolean | undefined>>;

export type NewEvent = {
  readonly type: EventType;
  readonly data: EventData;
} & (
  | { readonly accountId: number; readonly mailbox?: string; readonly uid?: number | undefined }
  | { readonly accountId?: undefined; readonly domainId: number }
);

/** The values of a row, or expressions in their place. */
interface EventValues<Value = unknown> {
  readonly type: Value;
  readonly mailbox: Value;
  readonly uid: Value;
  readonly data: Value;
  readonly at: Value;
}

/**
 * What orders events on PostgreSQL (`read-events.ts`), where a statement of its own writes one. A transaction has its
 * number before it waits for a lock. If this were the order, the event of who waited would come before that of who held
 * the lock: after the two, an account that is suspended would seem to be active. So the number of the newest
 * transaction that had ended is taken, unless its own one is higher.
 */
const AFTER_WHO_ENDED = sql`greatest(pg_current_xact_id()::text::bigint,
  pg_snapshot_xmax(pg_current_snapshot())::text::bigint - 1)`;
/** The only one on SQLite, which has one writer. */
const NO_NUMBER = sql`0`;

/**
 * PostgreSQL needs the types of selected values.
 *
 * @param number what orders it; where it is left out, its transaction
 */
const insert = (
  { type, mailbox, uid, data, at }: EventValues,
  accountId: RawBuilder<unknown>,
  number?: RawBuilder<unknown>,
) => sql`
  insert into events (${number ? sql`xid,` : sql``}
    user_id, organization_id, type, account_id, mailbox, uid, data, created_at)
  select ${number ? sql`${number},` : sql``} domains.user_id, domains.organization_id, cast(${type} as text), ${accountId},
    cast(${mailbox} as text), cast(${uid} as bigint), cast(${data} as text), cast(${at} as bigint)`;

/**
 * The statement that writes an event of an account, and returns the `user_id`; it writes nothing where there is no such
 * account.
 *
 * @param from what else is selected from, with a comma before it
 * @param number as for `insert`: a statement that also takes locks was begun before it had them, and cannot know better
 */
export function insertAccountEvent(
  value: EventValues & { readonly accountId: unknown },
  from: RawBuilder<unknown> = sql``,
  number?: RawBuilder<unknown>,
): RawBuilder<{ user_id: string }> {
  return sql<{ user_id: string }>`${insert(value, sql`accounts.id`, number)}
    from accounts inner join domains on domains.id = accounts.domain_id ${from}
    where accounts.id = ${value.accountId} returning user_id`;
}

type Values = EventValues<string | number | null> & { readonly id: number };

const numberOn = (queries: Queries) => (isOnSqlite(queries) ? NO_NUMBER : AFTER_WHO_ENDED);
const ofAccount = new PreparedQuery((value: Values, queries) =>
  insertAccountEvent({ ...valuesOf(value), accountId: value.id }, sql``, numberOn(queries)),
);
const ofDomain = new PreparedQuery(
  (value: Values, queries) => sql<{
    user_id: string;
  }>`${insert(valuesOf(value), sql`cast(null as bigint)`, numberOn(queries))}
    from domains where id = ${value.id} returning user_id`,
);

/** Read one by one: the values are placeholders, which have no members of their own. */
function valuesOf({ type, mailbox, uid, data, at }: EventValues): EventValues {
  return { type, mailbox, uid, data, at };
}

/**
 * Writes events in the transaction of what they tell, in their order. Those of an account or domain that does not exist
 * (any more) are skipped: the event of a deletion is written before it.
 */
export async function writeEvents(
  tx: Queries,
  events: readonly NewEvent[],
  at: EpochMs,
): Promise<void> {
  for (const event of events) {
    const { type, data } = event;
    const common = { type, data: eventData(data), at };
    const written =
      event.accountId === undefined
        ? await ofDomain.first(tx, { ...common, id: event.domainId, mailbox: null, uid: null })
        : await ofAccount.first(tx, {
            ...common,
            id: event.accountId,
            mailbox: event.mailbox ?? null,
            uid: event.uid ?? null,
          });
    if (written) tellAfterCommit(tx, written.user_id);
  }
}

/** Bytes of `data` above which texts for people are cut, and what is left of them: rows stay below 1 KB. */
const DATA_MAX = 640;
const CUT_TO = 60;
const texts: ReadonlySet<string> = new Set(['subject', 'message_id', 'detail']);
/** Octets of an address (RFC 5321 section 4.5.3.1.3); a longer one is none. */
const ADDRESS_MAX = 254;
const addresses: ReadonlySet<string> = new Set(['from', 'recipient']);

/** The JSON of a row. */
export function eventData(data: EventData): string {
  const whole = JSON.stringify(data, (name, value: unknown) =>
    addresses.has(name) && Buffer.byteLength(String(value)) > ADDRESS_MAX ? undefined : value,
  );
  if (Buffer.byteLength(whole) <= DATA_MAX) return whole;
  return JSON.stringify(JSON.parse(whole), (name, value: unknown) =>
    texts.has(name) ? String(value).slice(0, CUT_TO).toWellFormed() : value,
  );
}
