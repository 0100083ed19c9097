/** The rows of a message that is accepted: `sends` and `send_recipients`, and the limit that they count for. */
import { type NewRow, PreparedQuery, type Queries } from '../../platform/database/database.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import { DAY_MS, type EpochMs } from '../../platform/time/time.ts';
import type { PinnedLocation } from './copies.ts';
import type { RequestKey, SendDelivery, SendRecipient, SendRow } from './send-rows.ts';

/** A message that is accepted now. */
export interface NewSend {
  /** In the answer to the client. */
  readonly id: string;
  readonly accountId: number;
  readonly domainId: number;
  readonly messageId: string;
  readonly bodyId: number;
  /** Of the copy in Sent. */
  readonly location: PinnedLocation;
  readonly recipients: number;
  readonly key: RequestKey | undefined;
  /** Of the draft that is removed when the mail is sent. */
  readonly draft: PinnedLocation | undefined;
  /** Undefined where it is sent at once. */
  readonly sendAt: EpochMs | undefined;
  readonly now: EpochMs;
}

/** The row of a message that is accepted now. */
export type NewSendRow = Omit<SendRow, 'id' | 'cancelled_at'>;

/** The columns of a new row. */
export function sendColumns(row: NewSendRow) {
  return {
    public_id: row.public_id,
    account_id: row.account_id,
    domain_id: row.domain_id,
    message_id: row.message_id,
    body_id: row.body_id,
    mailbox: row.mailbox,
    uid: row.uid,
    uidvalidity: row.uidvalidity,
    recipients: row.recipients,
    idempotency_key: row.idempotency_key,
    request_hash: row.request_hash,
    draft: row.draft,
    send_at: row.send_at,
    created_at: row.created_at,
  };
}

const sendRow = new PreparedQuery((row: NewSendRow, queries) =>
  queries.insertInto('sends').values(sendColumns(row)).returningAll(),
);

export function sendRowOf({ id, location, key, draft, ...send }: NewSend): NewSendRow {
  return {
    public_id: id,
    account_id: send.accountId,
    domain_id: send.domainId,
    message_id: send.messageId,
    body_id: send.bodyId,
    ...location,
    recipients: send.recipients,
    idempotency_key: key?.key ?? null,
    request_hash: key?.hash ?? null,
    draft: draft ? JSON.stringify(draft) : null,
    send_at: send.sendAt ?? null,
    created_at: send.now,
  };
}

export async function insertSend(tx: Queries, send: NewSend): Promise<SendRow> {
  const row = await sendRow.first(tx, sendRowOf(send));
  if (!row) throw new Error('an insert returned no row');
  return row;
}

const recentSends = new PreparedQuery(
  ({ accountId, since }: { accountId: number; since: number }, queries) =>
    queries
      .selectFrom('sends')
      .select(({ fn }) => [
        fn.sum<number | null>('recipients').as('sent'),
        fn.min<number | null>(fn.coalesce('send_at', 'created_at')).as('oldest'),
      ])
      .where('account_id', '=', accountId)
      .where(({ fn }) => fn.coalesce('send_at', 'created_at'), '>', since)
      .where('cancelled_at', 'is', null),
);

/**
 * Refuses a message that would exceed the account's recipients of 24 hours. A scheduled message counts until 24 hours
 * after it was sent, so that waiting mail cannot pile up; cancelled ones do not count.
 *
 * @throws Refusal send_limit
 */
export async function refuseOverLimit(
  tx: Queries,
  { accountId, recipients, now }: Pick<NewSend, 'accountId' | 'recipients' | 'now'>,
  most: number,
): Promise<void> {
  const recent = await recentSends.first(tx, { accountId, since: now - DAY_MS });
  const { sent = null, oldest = null } = recent ?? {};
  if ((sent ?? 0) + recipients <= most) return;
  const detail =
    `the account may write to ${most} recipients in 24 hours; it wrote to ${sent ?? 0}, ` +
    'with those of messages that go out later';
  const retryAfter = Math.ceil(((oldest ?? now) + DAY_MS - now) / 1_000);
  throw new Refusal('send_limit', detail, { retryAfter });
}

const recipientRow = new PreparedQuery((row: Omit<NewRow<'send_recipients'>, 'id'>, queries) =>
  queries.insertInto('send_recipients').values({
    send_id: row.send_id,
    delivery_id: row.delivery_id,
    status: row.status,
    detail: row.detail,
    address: row.address,
  }),
);

/** @param recipients of one delivery */
export async function insertRecipients(
  tx: Queries,
  { sendId: send_id, deliveryId: delivery_id }: SendDelivery,
  recipients: readonly SendRecipient[],
): Promise<void> {
  const rows = recipients.map(({ address, status, detail = null }) => {
    return { send_id, delivery_id, status, detail, address };
  });
  const [row, ...others] = rows;
  if (row && others.length === 0) await recipientRow.all(tx, row);
  else await tx.insertInto('send_recipients').values(rows).execute();
}
