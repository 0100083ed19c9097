/**
 * What accounts sent, and its status: rows of `sends` and `send_recipients`, and the payload of a delivery of kind
 * `send`.
 */
import { type Static, Type } from 'typebox';
import {
  PreparedQuery,
  type Queries,
  type Row,
  withoutNulls,
} from '../../platform/database/database.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import type { EpochMs } from '../../platform/time/time.ts';
import { payloadFormat } from '../queue/queue.ts';
import { NOWHERE, type PinnedLocation } from './copies.ts';

export const SEND = 'send';

/** The recipients are in `send_recipients`; the message is the body of the delivery. */
const send = Type.Object({
  sendId: Type.Integer(),
  account: Type.Object({ accountId: Type.Integer(), address: Type.String() }),
  /** Name of the account's domain. */
  domain: Type.String(),
  /** Envelope sender. */
  from: Type.String(),
  /** When it was accepted. */
  acceptedAt: Type.Integer(),
  /** The id in its Received field. */
  id: Type.String(),
  /** How it was submitted: the keyword of its Received field (RFC 3848); left out for HTTP. */
  via: Type.Optional(Type.String()),
});

export type SendPayload = Static<typeof send>;

export const sendPayloads = payloadFormat(1, send);

export type SendRecipientRow = Row<'send_recipients'>;

export type RecipientStatus = Row<'send_recipients'>['status'];

export interface SendRecipient {
  readonly address: string;
  readonly status: RecipientStatus;
  /** For people: what the far end answered. */
  readonly detail?: string;
}

/** A message that an account sent, as its app sees it. */
export interface SendStatus {
  readonly id: string;
  readonly messageId: string;
  /** The least advanced of its recipients'. */
  readonly status: RecipientStatus;
  /** RFC 3339, UTC; absent where it is sent at once. */
  readonly sendAt?: string;
  /** Where it is in Sent; absent where it was submitted by a mail program, or cancelled. */
  readonly copy?: PinnedLocation;
  readonly recipients: readonly SendRecipient[];
}

/** The answer to a client that sent a message: the same for each repetition with its key. */
export interface Accepted {
  readonly id: string;
  readonly messageId: string;
  readonly mailbox: string;
  readonly uid: number;
  readonly uidvalidity: string;
  readonly status: 'queued';
}

export type SendRow = Row<'sends'>;

export function acceptedOf(
  row: Pick<SendRow, 'public_id' | 'message_id' | 'mailbox' | 'uid' | 'uidvalidity'>,
): Accepted {
  const { public_id: id, message_id: messageId, mailbox, uid, uidvalidity } = row;
  return { id, messageId, mailbox, uid, uidvalidity, status: 'queued' };
}

/** How a client names a send: by its public id, its `Idempotency-Key`, or its Message-ID. */
export type SendName =
  | { readonly id: string }
  | { readonly key: string }
  | { readonly messageId: string };

/** A send of the account, or undefined; the newest where several have the same Message-ID. */
export function findSend(
  queries: Queries,
  accountId: number,
  by: SendName,
): Promise<SendRow | undefined> {
  const query = queries.selectFrom('sends').selectAll().where('account_id', '=', accountId);
  if ('id' in by) return query.where('public_id', '=', by.id).executeTakeFirst();
  if ('key' in by) return query.where('idempotency_key', '=', by.key).executeTakeFirst();
  const named = query.where('message_id', '=', by.messageId).orderBy('id', 'desc');
  return named.limit(1).executeTakeFirst();
}

/** Sends of the account by their public ids, in this order, without those that are not its own. */
export async function findSends(
  queries: Queries,
  accountId: number,
  ids: readonly string[],
): Promise<SendRow[]> {
  if (ids.length === 0) return [];
  const query = queries.selectFrom('sends').selectAll().where('account_id', '=', accountId);
  const rows = await query.where('public_id', 'in', ids).execute();
  const found = new Map(rows.map((row) => [row.public_id, row]));
  return ids.flatMap((id) => found.get(id) ?? []);
}

export function sendNotFound(by: SendName): Refusal {
  return new Refusal('send_not_found', `the account sent no message with the ${written(by)}`);
}

function written(by: SendName): string {
  if ('id' in by) return `id "${by.id}"`;
  return 'key' in by ? `Idempotency-Key "${by.key}"` : `Message-ID "${by.messageId}"`;
}

/** The answer to the same request before. @throws Refusal idempotency_key_reused */
export async function findAccepted(
  queries: Queries,
  accountId: number,
  { key, hash }: RequestKey,
): Promise<Accepted | undefined> {
  const row = await findSend(queries, accountId, { key });
  if (row && row.request_hash !== hash) {
    throw new Refusal('idempotency_key_reused', 'this Idempotency-Key came with another request');
  }
  return row && acceptedOf(row);
}

const recipientsOf = new PreparedQuery(({ sendId }: { sendId: number }, queries) =>
  queries.selectFrom('send_recipients').selectAll().where('send_id', '=', sendId).orderBy('id'),
);

/** Recipients in the order they were named. */
export function readRecipients(queries: Queries, sendId: number): Promise<SendRecipientRow[]> {
  return recipientsOf.all(queries, { sendId });
}

/** Recipients of one delivery, in the order they were named. */
export async function readDeliveryRecipients(
  queries: Queries,
  { sendId, deliveryId }: SendDelivery,
): Promise<SendRecipientRow[]> {
  const rows = await readRecipients(queries, sendId);
  return rows.filter(({ delivery_id }) => delivery_id === deliveryId);
}

/** The statuses of recipients, in the order in which they decide the status of the message. */
const BY_PROGRESS: readonly RecipientStatus[] = [
  'queued',
  'deferred',
  'bounced',
  'delivered',
  'cancelled',
];

/** Messages as their apps see them, with all their recipients by one query. */
export async function readStatuses(
  queries: Queries,
  rows: readonly SendRow[],
): Promise<SendStatus[]> {
  const ids = rows.map(({ id }) => id);
  if (ids.length === 0) return [];
  const query = queries.selectFrom('send_recipients').selectAll().where('send_id', 'in', ids);
  const recipients = await query.orderBy('id').execute();
  const bySend = Map.groupBy(recipients, ({ send_id }) => send_id);
  return rows.map((row) => statusOf(row, bySend.get(row.id) ?? []));
}

function statusOf(row: SendRow, recipients: readonly SendRecipientRow[]): SendStatus {
  const found = new Set(recipients.map(({ status }) => status));
  const { mailbox, uid, uidvalidity } = row;
  const isKept = uid !== NOWHERE.uid && row.cancelled_at === null;
  return {
    id: row.public_id,
    messageId: row.message_id,
    status: BY_PROGRESS.find((status) => found.has(status)) ?? 'queued',
    ...(row.send_at !== null && { sendAt: new Date(row.send_at).toISOString() }),
    ...(isKept && { copy: { mailbox, uid, uidvalidity } }),
    recipients: recipients.map(({ address, status, detail }) =>
      withoutNulls({ address, status, detail }),
    ),
  };
}

/** `Idempotency-Key` and the request that it stands for. */
export interface RequestKey {
  readonly key: string;
  /** SHA-256 of the request, in hex. */
  readonly hash: string;
  /** From when on the key stands for its request; left out: for as long as the send is known. */
  readonly since?: EpochMs;
}

/** Frees a key whose request is too old to be meant, or was cancelled. */
export async function freeKey(
  tx: Queries,
  accountId: number,
  { key, since = 0 }: RequestKey,
): Promise<void> {
  await tx
    .updateTable('sends')
    .set({ idempotency_key: null, request_hash: null })
    .where('account_id', '=', accountId)
    .where('idempotency_key', '=', key)
    .where((eb) => eb.or([eb('created_at', '<', since), eb('cancelled_at', 'is not', null)]))
    .execute();
}

/** Each has its recipients. */
const DELETED_AT_A_TIME = 50;

/** Removes some sends of deleted accounts. @returns how many were found */
export async function deleteSendsOf(tx: Queries, accountIds: readonly number[]): Promise<number> {
  const found = tx.selectFrom('sends').select('id').where('account_id', 'in', accountIds);
  const ids = (await found.limit(DELETED_AT_A_TIME).execute()).map(({ id }) => id);
  // Another node may remove the same ones first: then there may be more.
  if (ids.length > 0) await tx.deleteFrom('sends').where('id', 'in', ids).execute();
  return ids.length;
}

const draftOf = new PreparedQuery(({ sendId }: { sendId: number }, queries) =>
  queries
    .selectFrom('sends')
    .select('draft')
    .where('id', '=', sendId)
    .where('draft', 'is not', null),
);

/** The draft to remove now that the mail is sent; undefined where there is none, or it was removed already. */
export async function takeDraft(tx: Queries, sendId: number): Promise<PinnedLocation | undefined> {
  const row = await draftOf.first(tx, { sendId });
  if (!row?.draft) return undefined;
  await tx.updateTable('sends').set({ draft: null }).where('id', '=', sendId).execute();
  return readLocation(row.draft);
}

/** Only for texts that `insertSend` and {@link writeDraft} wrote. */
export function readLocation(json: string): PinnedLocation {
  return JSON.parse(json) as PinnedLocation;
}

/**
 * Marks a message as cancelled.
 *
 * @returns false where it is already
 */
export async function cancelRow(tx: Queries, sendId: number, now: number): Promise<boolean> {
  const row = await tx
    .updateTable('sends')
    .set({ cancelled_at: now })
    .where('id', '=', sendId)
    .where('cancelled_at', 'is', null)
    .returning('id')
    .executeTakeFirst();
  return row !== undefined;
}

/**
 * Marks waiting recipients of a message as cancelled.
 *
 * @returns whether these are all: no recipient got it or failed
 */
export async function cancelRecipients(tx: Queries, sendId: number): Promise<boolean> {
  await tx
    .updateTable('send_recipients')
    .set({ status: 'cancelled', detail: null })
    .where('send_id', '=', sendId)
    .where('status', 'in', ['queued', 'deferred'])
    .execute();
  const recipients = await readRecipients(tx, sendId);
  return recipients.every(({ status }) => status === 'cancelled');
}

/** Notes where the draft of a cancelled message is. */
export async function writeDraft(
  tx: Queries,
  sendId: number,
  draft: PinnedLocation,
): Promise<void> {
  await tx
    .updateTable('sends')
    .set({ draft: JSON.stringify(draft) })
    .where('id', '=', sendId)
    .execute();
}

/** Which of a message's deliveries is meant. */
export interface SendDelivery {
  readonly sendId: number;
  readonly deliveryId: number;
}

type StatusOfOne = SendDelivery & Pick<SendRecipientRow, 'address' | 'status' | 'detail'>;

const statusOfOne = new PreparedQuery((value: StatusOfOne, queries) =>
  queries
    .updateTable('send_recipients')
    .set({ status: value.status, detail: value.detail })
    .where('send_id', '=', value.sendId)
    .where('delivery_id', '=', value.deliveryId)
    .where('address', '=', value.address),
);

/** Writes the statuses of recipients of one delivery. */
export async function writeStatuses(
  tx: Queries,
  delivery: SendDelivery,
  recipients: readonly SendRecipient[],
): Promise<void> {
  const [one, ...others] = recipients;
  if (one && others.length === 0) {
    const { address, status, detail = null } = one;
    await statusOfOne.all(tx, { ...delivery, address, status, detail });
    return;
  }
  const { sendId, deliveryId } = delivery;
  // Mostly a host has one answer for all of them.
  const alike = Map.groupBy(recipients, ({ status, detail }) => JSON.stringify([status, detail]));
  for (const some of alike.values()) {
    const [first] = some;
    if (!first) continue;
    const addresses = some.map(({ address }) => address);
    await tx
      .updateTable('send_recipients')
      .set({ status: first.status, detail: first.detail ?? null })
      .where('send_id', '=', sendId)
      .where('delivery_id', '=', deliveryId)
      .where('address', 'in', addresses)
      .execute();
  }
}

/** Recipients who still wait for a delivery, or all without the message where none waits; by the id of the delivery. */
export async function readWaiting(
  queries: Queries,
  deliveryIds: readonly number[],
): Promise<Map<number, string[]>> {
  const rows = await queries
    .selectFrom('send_recipients')
    .select(['delivery_id', 'address', 'status'])
    .where('delivery_id', 'in', deliveryIds)
    .where('status', 'not in', ['delivered', 'cancelled'])
    .orderBy('id')
    .execute();
  const isWaiting = ({ status }: (typeof rows)[number]) => status !== 'bounced';
  return new Map(
    [...Map.groupBy(rows, (row) => row.delivery_id)].map(([id, some]) => {
      const named = some.some(isWaiting) ? some.filter(isWaiting) : some;
      return [id, named.map(({ address }) => address)];
    }),
  );
}

/** The detail of recipients whose delivery an operator dropped. */
export const DROPPED = 'dropped by the operator of the service';

/**
 * Notes that an operator dropped deliveries: recipients that still waited do not get the message.
 *
 * @returns these, with their accounts and the ids of their messages
 */
export function dropRecipients(tx: Queries, deliveryIds: readonly number[]) {
  return tx
    .updateTable('send_recipients')
    .set({ status: 'bounced', detail: DROPPED })
    .where('delivery_id', 'in', deliveryIds)
    .where('status', 'in', ['queued', 'deferred'])
    .returning(['address', 'delivery_id as deliveryId'])
    .returning((eb) => {
      const send = eb.selectFrom('sends').whereRef('sends.id', '=', 'send_recipients.send_id');
      return [
        send.select('public_id').as('mailId'),
        send.select('sends.account_id').as('accountId'),
      ];
    })
    .execute();
}
