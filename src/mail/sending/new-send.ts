/**
 * A message that is written and not yet accepted, and what is written about it when it is: rows of `sends` and
 * `send_recipients`, deliveries, trace, events and usage; and the limit that its recipients count for.
 */
import { randomUUID } from 'node:crypto';
import type { MailUser } from '../../mailboxes/mailstore/mailstore.ts';
import { type NewRow, PreparedQuery, type Queries } from '../../platform/database/database.ts';
import { many, Refusal } from '../../platform/errors/errors.ts';
import { DAY_MS, type EpochMs } from '../../platform/time/time.ts';
import type { SendingAccount } from '../../tenants/accounts/accounts.ts';
import type { NewEvent } from '../../tenants/events/events.ts';
import type { Counted } from '../../tenants/usage/usage.ts';
import type { TraceEvent } from '../trace/trace.ts';
import type { PinnedLocation } from './copies.ts';
import { type AtOnce, type DeliverHereOptions, deliveredHere } from './deliver-here.ts';
import type { ReadSource } from './read-source.ts';
import { statusOf } from './send-results.ts';
import {
  type RequestKey,
  SEND,
  type SendDelivery,
  type SendRecipient,
  type SendRow,
  sendPayloads,
} from './send-rows.ts';

/** A message that is staged and not yet accepted. */
export interface WrittenMessage extends ReadSource {
  readonly user: MailUser;
  readonly account: SendingAccount;
  /** The keyword of its Received field, where a mail program submitted it and keeps its copy itself. */
  readonly via?: string | undefined;
  /** Whether the same request always gives it the same Message-ID, which no other message has. */
  readonly isRepeatable: boolean;
  /** Identifies the request where the client wants to repeat it safely. */
  readonly key: RequestKey | undefined;
  /** It is not sent before this time. */
  readonly sendAt: EpochMs | undefined;
  /** The message that it answers. */
  readonly inReplyTo: PinnedLocation | undefined;
  /** The draft that it was written in, removed when the mail is sent. */
  readonly draft: PinnedLocation | undefined;
}

/** The row of a message that is accepted now. */
export type NewSendRow = Omit<SendRow, 'id' | 'cancelled_at'>;

const sendRow = new PreparedQuery((row: NewSendRow, queries) =>
  queries
    .insertInto('sends')
    .values({ ...row })
    .returningAll(),
);

/**
 * Its row.
 *
 * @param location of the copy in Sent
 */
export function newSendRow(
  { user, account, messageId, recipients, key, sendAt, draft }: WrittenMessage,
  id: string,
  bodyId: number,
  { mailbox, uid, uidvalidity }: PinnedLocation,
  now: EpochMs,
): NewSendRow {
  return {
    public_id: id,
    account_id: user.accountId,
    domain_id: account.domainId,
    message_id: messageId,
    body_id: bodyId,
    mailbox,
    uid,
    uidvalidity,
    recipients: recipients.length,
    idempotency_key: key?.key ?? null,
    request_hash: key?.hash ?? null,
    // A message that is sent at once removes its draft when it is accepted.
    draft: draft && sendAt !== undefined ? JSON.stringify(draft) : null,
    send_at: sendAt ?? null,
    created_at: now,
  };
}

export async function insertSend(tx: Queries, row: NewSendRow): Promise<SendRow> {
  const inserted = await sendRow.first(tx, row);
  if (!inserted) throw new Error('an insert returned no row');
  return inserted;
}

/** The recipients of each delivery, by destination. */
export type RecipientGroups = ReadonlyMap<string, readonly string[]>;

/**
 * The deliveries of a message.
 *
 * @param groups its recipients by destination
 * @param row its own, as far as they name it
 */
export function deliveriesOf(
  { user, account, messageId, staged, sendAt, from, via }: WrittenMessage,
  { groups, atOnce }: { readonly groups: RecipientGroups; readonly atOnce: AtOnce | undefined },
  row: Pick<SendRow, 'id' | 'public_id' | 'created_at'>,
) {
  const { userId, domainId, domain } = account;
  const { accountId, address } = user;
  const payload = sendPayloads.write({
    sendId: row.id,
    account: { accountId, address },
    domain,
    from,
    acceptedAt: row.created_at,
    id: row.public_id,
    ...(via !== undefined && { via }),
  });
  return [...groups].map(([destination, recipients]) => ({
    kind: SEND,
    publicId: randomUUID(),
    userId,
    domainId,
    accountId,
    destination,
    payload,
    about: { messageId, subject: staged.parsed.envelope.subject },
    mailId: row.public_id,
    ...(sendAt !== undefined && { notBefore: sendAt }),
    recipients,
    mailFrom: from,
    deliveredMs: atOnce?.ms,
  }));
}

export type SentDelivery = ReturnType<typeof deliveriesOf>[number];

/** The recipients of a delivery, and their statuses from the start. */
export function statusesOf(
  options: Pick<DeliverHereOptions, 'hostname'>,
  { recipients, deliveredMs }: Pick<SentDelivery, 'recipients' | 'deliveredMs'>,
): SendRecipient[] {
  if (deliveredMs === undefined)
    return recipients.map((address) => ({ address, status: 'queued' }));
  const outcome = deliveredHere(options);
  return recipients.map((address) => statusOf({ address, outcome }, false));
}

/** What the trace says of a delivery. */
export function submittedEvents(
  { staged, from }: WrittenMessage,
  { mailId, about, recipients, publicId, deliveredMs }: SentDelivery,
  deliveryId: number,
): TraceEvent[] {
  const { size } = staged.parsed;
  const submitted = { mailId, event: 'submitted', sender: from, size, ...about, deliveryId };
  const made = { event: `${SEND}_attempt`, status: 'delivered' };
  return recipients.flatMap((recipient) => [
    { ...submitted, recipient },
    ...(deliveredMs === undefined
      ? []
      : [{ mailId, recipient, deliveryId, webhookId: publicId, ...made }]),
  ]);
}

export function sentEvent(
  { user, recipients, messageId, staged, sendAt, via }: WrittenMessage,
  { public_id: send_id }: Pick<SendRow, 'public_id'>,
  { mailbox, uid }: PinnedLocation,
): NewEvent {
  const data = {
    address: user.address,
    send_id,
    message_id: messageId,
    subject: staged.parsed.envelope.subject,
    recipients: recipients.length,
    ...(sendAt !== undefined && { send_at: new Date(sendAt).toISOString() }),
  };
  const location = via === undefined ? { mailbox, uid } : {};
  return { type: 'message.sent', accountId: user.accountId, ...location, data };
}

/** What a message counts for its sender: one copy for each recipient. */
export function sentUsage(accountId: number, recipients: number, bytes: number): Counted {
  return { accountId, messagesOut: recipients, bytesOut: recipients * bytes };
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
  { accountId, recipients, now }: { accountId: number; recipients: number; now: EpochMs },
  most: number,
): Promise<void> {
  const recent = await recentSends.first(tx, { accountId, since: now - DAY_MS });
  const { sent = null, oldest = null } = recent ?? {};
  if ((sent ?? 0) + recipients <= most) return;
  const detail =
    `the account may write to ${many(most, 'recipient')} in 24 hours; it wrote to ${sent ?? 0}, ` +
    'with those of messages that go out later';
  const retryAfter = Math.ceil(((oldest ?? now) + DAY_MS - now) / 1_000);
  throw new Refusal('send_limit', detail, { retryAfter });
}

const recipientRow = new PreparedQuery((row: Omit<NewRow<'send_recipients'>, 'id'>, queries) =>
  queries.insertInto('send_recipients').values({ ...row }),
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
