/** Rows of `sends` and `send_recipients`: what accounts sent, and what became of it. */
import type { Queries, Row } from '../database/database.ts';

export type RecipientStatus = Row<'send_recipients'>['status'];

/** What became of one recipient. */
export interface SendRecipient {
  readonly address: string;
  readonly status: RecipientStatus;
  /** For people: what the far end said. */
  readonly detail?: string;
}

/** A message that an account sent, as its app sees it. */
export interface SendStatus {
  readonly id: string;
  readonly messageId: string;
  /** The least advanced of its recipients'. */
  readonly status: RecipientStatus;
  /** RFC 3339, UTC; absent where it goes out at once. */
  readonly sendAt?: string;
  readonly recipients: readonly SendRecipient[];
}

/** What a client is answered that sent a message: the same whenever it asks again with its key. */
export interface Accepted {
  readonly id: string;
  readonly messageId: string;
  readonly mailbox: string;
  readonly uid: number;
  readonly uidvalidity: string;
  readonly status: 'queued';
}

type SendRow = Row<'sends'>;

export function acceptedOf(row: SendRow): Accepted {
  const { public_id: id, message_id: messageId, mailbox, uid, uidvalidity } = row;
  return { id, messageId, mailbox, uid, uidvalidity, status: 'queued' };
}

/** A send of the account by what names it to clients, or undefined. */
export function findSend(
  queries: Queries,
  accountId: number,
  by: { readonly id: string } | { readonly key: string },
): Promise<SendRow | undefined> {
  const query = queries.selectFrom('sends').selectAll().where('account_id', '=', accountId);
  return (
    'id' in by ? query.where('public_id', '=', by.id) : query.where('idempotency_key', '=', by.key)
  ).executeTakeFirst();
}

/** Recipients in the order they were named. */
export function readRecipients(queries: Queries, sendId: number) {
  return queries
    .selectFrom('send_recipients')
    .selectAll()
    .where('send_id', '=', sendId)
    .orderBy('id')
    .execute();
}

/** The statuses of recipients, the one first that says most of the message as a whole. */
const BY_PROGRESS: readonly RecipientStatus[] = [
  'queued',
  'deferred',
  'bounced',
  'delivered',
  'cancelled',
];

export async function readStatus(queries: Queries, row: SendRow): Promise<SendStatus> {
  const recipients = await readRecipients(queries, row.id);
  const found = new Set(recipients.map(({ status }) => status));
  return {
    id: row.public_id,
    messageId: row.message_id,
    status: BY_PROGRESS.find((status) => found.has(status)) ?? 'queued',
    ...(row.send_at !== null && { sendAt: new Date(row.send_at).toISOString() }),
    recipients: recipients.map(({ address, status, detail }) => ({
      address,
      status,
      ...(detail !== null && { detail }),
    })),
  };
}

/** Which of a message's deliveries is meant. */
export interface SendDelivery {
  readonly sendId: number;
  readonly deliveryId: number;
}

/** Writes what became of recipients of one delivery. */
export async function writeStatuses(
  tx: Queries,
  { sendId, deliveryId }: SendDelivery,
  recipients: readonly SendRecipient[],
): Promise<void> {
  for (const { address, status, detail } of recipients) {
    await tx
      .updateTable('send_recipients')
      .set({ status, detail: detail ?? null })
      .where('send_id', '=', sendId)
      .where('delivery_id', '=', deliveryId)
      .where('address', '=', address)
      .execute();
  }
}
