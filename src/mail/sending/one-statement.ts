/**
 * The usual message between two accounts here in one statement, on PostgreSQL: it is accepted and delivered in one round
 * trip. Such a message goes out at once, to one other account, without a key, an answered message or a draft; both mailboxes
 * are ours, are there, and have no quota. All other mail takes the transaction of `accept.ts`, and the rows are the same.
 *
 * Locks are those of the transaction, in its order: the sender, the mailboxes, then usage by account. Both mailboxes are
 * locked before anything is written, and nothing is where one of them is missing. The limit of recipients is that of the
 * moment when the statement begins, so an account close to it takes the transaction.
 *
 * Crashes: all of it is there or nothing.
 */
import { type RawBuilder, sql } from 'kysely';
import { type Bodies, bodyColumns } from '../../mailboxes/bodies/bodies.ts';
import {
  type Advanced,
  advanceByName,
  lockByName,
  type PlainMessage,
  plainColumns,
} from '../../mailboxes/mailstore/mailstore.ts';
import { searchQueueColumns } from '../../mailboxes/search/search.ts';
import {
  type Database,
  insertFrom,
  type NewRow,
  PreparedQuery,
} from '../../platform/database/database.ts';
import { DAY_MS, type EpochMs } from '../../platform/time/time.ts';
import { lockUnlimitedSender } from '../../tenants/accounts/accounts.ts';
import {
  type EventType,
  eventData,
  insertAccountEvent,
  type NewEvent,
} from '../../tenants/events/events.ts';
import {
  type Addition,
  additionAfter,
  additionOf,
  type Counted,
  countAccountDay,
  countAccountHour,
} from '../../tenants/usage/usage.ts';
import type { PlainLocal } from '../outbound/outbound.ts';
import { type NewDelivery, type NewDeliveryRow, newDelivery } from '../queue/queue.ts';
import { type Trace, type TraceEvent, traceColumns } from '../trace/trace.ts';
import type { PlainCopy } from './copies.ts';
import type { NewSendRow } from './new-send.ts';
import type { SendRecipient, SendRow } from './send-rows.ts';

/** Recipients that other statements of the account may write to meanwhile. */
const UNSEEN = 200;
/** Stand in texts for numbers that are known only in the statement: nothing else in them is the same. */
export const NUMBERS = { send: 0, delivery: -1, uid: '#' } as const;

export interface OneSend {
  readonly accountId: number;
  readonly copy: PlainCopy;
  readonly local: PlainLocal;
  readonly body: Parameters<Bodies['rowOf']>[0];
  /** But for its location and its body. */
  readonly row: NewSendRow;
  /** Its payload has {@link NUMBERS.send}. */
  readonly delivery: Omit<NewDelivery, 'bodyId'>;
  readonly recipient: SendRecipient;
  /** Of one recipient, with {@link NUMBERS}. */
  readonly traced: readonly TraceEvent[];
  /** Of the sender: that it was sent, and that it is delivered. */
  readonly sent: NewEvent;
  readonly delivered: NewEvent;
  /** Of sender and recipient. */
  readonly counted: readonly Counted[];
  readonly now: EpochMs;
}

export interface OneStatementOptions {
  readonly database: Pick<Database, 'read' | 'timeline' | 'atOnce' | 'notices'>;
  readonly bodies: Pick<Bodies, 'rowOf'>;
  readonly trace?: Pick<Trace, 'isOn' | 'rowsOf'> | undefined;
  /** Recipients that one account may write to in 24 hours; 0 for no limit. */
  readonly recipientsPerDay: number;
}

/** Values by their names, with the prefix of what they are of. */
type Values = Record<string, unknown>;
type Stored = Advanced & { readonly userId: string | null };

export class OneStatement {
  readonly #options: OneStatementOptions;
  readonly #query: PreparedQuery<Values, Stored>;

  constructor(options: OneStatementOptions) {
    this.#options = options;
    const { database, recipientsPerDay: most, trace } = options;
    const isTraced = trace?.isOn === true;
    this.#query = new PreparedQuery((value) => statement(database, value, most, isTraced));
  }

  /** Accepts and delivers a message; undefined where it takes a transaction: then nothing was written. */
  async accept(
    send: OneSend,
  ): Promise<Pick<SendRow, 'uid' | 'uidvalidity' | 'mailbox'> | undefined> {
    const { database, bodies, trace } = this.#options;
    const rows = trace?.rowsOf(send.traced) ?? [];
    if (!database.atOnce || rows.length > 1) return undefined;
    const { accountId, copy, local, now } = send;
    const [one, other] = send.counted.toSorted((a, b) => (a.accountId ?? 0) - (b.accountId ?? 0));
    if (!one || !other || one.accountId === other.accountId) return undefined;
    const { address, status, detail = null } = send.recipient;
    const [sent, received] = await this.#query.all(database.atOnce, {
      accountId,
      since: now - DAY_MS,
      payload: send.delivery.payload,
      now,
      ...prefixed('copy', { ...copy.message, ...bodies.rowOf(send.body) }),
      ...prefixed('local', { ...local.message, ...bodies.rowOf(local.body) }),
      ...prefixed('send', send.row),
      ...prefixed('delivery', newDelivery({ ...send.delivery, bodyId: 0 }, now)),
      ...prefixed('recipient', { address, status, detail }),
      ...prefixed('trace', rows[0] ?? {}),
      sent: eventData(send.sent.data),
      delivered: eventData(send.delivered.data),
      received: eventData(local.received),
      ...prefixed('one', additionOf(one, now)),
      ...prefixed('other', additionOf(other, now)),
    });
    if (!sent || !received) return undefined;
    copy.afterCommit(sent);
    local.afterCommit(received);
    database.notices.tell(new Set([sent, received].flatMap(({ userId }) => userId ?? [])));
    const { name: mailbox, uidnext, uidvalidity } = sent;
    return { mailbox, uid: uidnext - 1, uidvalidity: String(uidvalidity) };
  }
}

function prefixed(prefix: string, values: object): Values {
  return Object.fromEntries(
    Object.entries(values).map(([name, value]) => [`${prefix}.${name}`, value]),
  );
}

/** The values with a prefix, as placeholders. */
function part<Part extends object>(values: Values, prefix: string): Part {
  const own = Object.entries(values).filter(([name]) => name.startsWith(`${prefix}.`));
  const names = own.map(([name, value]) => [name.slice(prefix.length + 1), value]);
  const get = (_: object, name: string | symbol) => values[`${prefix}.${String(name)}`];
  return new Proxy(Object.fromEntries(names), { get }) as Part;
}

type MessagePart = PlainMessage & NewRow<'bodies'>;

function statement(
  database: Pick<Database, 'read' | 'timeline'>,
  value: Values,
  recipientsPerDay: number,
  isTraced: boolean,
): RawBuilder<Stored> {
  const copy = part<MessagePart>(value, 'copy');
  const local = part<MessagePart>(value, 'local');
  const one = part<Addition>(value, 'one');
  const other = part<Addition>(value, 'other');
  const send = {
    ...part<NewSendRow>(value, 'send'),
    body_id: sql`copied.id`,
    mailbox: sql`kept.name`,
    uid: sql`kept.uidnext - 1`,
    uidvalidity: sql`cast(kept.uidvalidity as text)`,
  };
  const delivery = {
    ...part<NewDeliveryRow>(value, 'delivery'),
    body_id: sql`copied.id`,
  };
  const recipient = part<NewRow<'send_recipients'>>(value, 'recipient');
  const { address, status, detail } = recipient;
  const limit =
    recipientsPerDay > 0
      ? sql`and (select coalesce(sum(recipients), 0) from sends where account_id = ${value.accountId}
          and coalesce(send_at, created_at) > ${value.since} and cancelled_at is null
        ) <= ${sql.lit(recipientsPerDay - UNSEEN - 1)}`
      : sql``;
  const event = (
    type: EventType,
    of: { accountId: unknown; mailbox?: unknown; uid?: RawBuilder<unknown>; data: unknown },
    from: string,
  ) =>
    insertAccountEvent(
      { type: sql.lit(type), mailbox: sql`null`, uid: sql`null`, ...of, at: value.now },
      sql.raw(`, ${from}`),
    );
  const { accountId } = value;
  const nothing = sql.lit(`"sendId":${NUMBERS.send}`);
  const payload = sql`replace(${value.payload}, ${nothing}, '"sendId":' || send.id)`;
  return sql<Stored>`
    with sender as (${lockUnlimitedSender(accountId, limit)}),
    boxes as (${lockByName([copy, local], 'sender')}),
    ready as (select count(*) from boxes having count(*) = 2),
    kept as (${advance(database, copy)}),
    stored as (${advance(database, local)}),
    copied as (${insertFrom('bodies', bodyColumns(copy), 'kept')} returning id),
    body as (${insertFrom('bodies', bodyColumns(local), 'stored')} returning id),
    copied_message as (${insertFrom('messages', plainColumns(copy, 'kept', 'copied'), 'kept, copied')}),
    message as (${insertFrom('messages', plainColumns(local, 'stored', 'body'), 'stored, body')}),
    copied_search_entry as (${insertFrom('search_queue', searchEntryOf(copy, 'copied'), 'copied')}),
    search_entry as (${insertFrom('search_queue', searchEntryOf(local, 'body'), 'body')}),
    send as (${insertFrom('sends', send, 'kept, copied')} returning id),
    delivery as (${insertFrom('deliveries', delivery, 'copied')} returning id),
    payload as (${insertFrom(
      'delivery_payloads',
      { delivery_id: sql`delivery.id`, payload },
      'delivery, send',
    )}),
    recipient as (${insertFrom(
      'send_recipients',
      { send_id: sql`send.id`, delivery_id: sql`delivery.id`, status, detail, address },
      'send, delivery',
    )}),
    ${isTraced ? sql`traced as (${insertFrom('trace', traceOf(value), 'delivery, stored')}),` : sql``}
    sent_event as (${event(
      'message.sent',
      { accountId, mailbox: copy.name, uid: sql`kept.uidnext - 1`, data: value.sent },
      'kept',
    )}),
    delivered_event as (${event('send.delivered', { accountId, data: value.delivered }, 'sent_event')}),
    received_event as (${event(
      'message.received',
      {
        accountId: local.accountId,
        mailbox: local.name,
        uid: sql`stored.uidnext - 1`,
        data: value.received,
      },
      'delivered_event, stored',
    )}),
    one_hour as (${countAccountHour(additionAfter(one, one.id, 'stored'))} returning account_id),
    one_day as (${countAccountDay(additionAfter(one, one.id, 'one_hour'))} returning account_id),
    other_hour as (${countAccountHour(additionAfter(other, other.id, 'one_day'))} returning account_id),
    other_day as (${countAccountDay(additionAfter(other, other.id, 'other_hour'))})
    select kept.*, 0 as place, (select user_id from sent_event) as "userId" from kept
    union all
    select stored.*, 1 as place, (select user_id from received_event) as "userId" from stored
    order by place`;
}

function advance(database: Pick<Database, 'read' | 'timeline'>, value: MessagePart) {
  return advanceByName(database, value).where(sql<boolean>`exists (select 1 from ready)`);
}

function searchEntryOf({ accountId }: MessagePart, body: string): object {
  return { ...searchQueueColumns({ accountId, bodyId: 0 }), body_id: sql.ref(`${body}.id`) };
}

function traceOf(value: Values): object {
  const row = part<NewRow<'trace'>>(value, 'trace');
  const id = sql.lit(`"delivery_id":${NUMBERS.delivery}`);
  const uid = sql.lit(`UID ${NUMBERS.uid}`);
  // The texts of others are in other columns.
  const more = sql`replace(replace(${row.more}, ${id}, '"delivery_id":' || delivery.id),
    ${uid}, 'UID ' || (stored.uidnext - 1))`;
  return { ...traceColumns((column) => row[column]), delivery_id: sql`delivery.id`, more };
}
