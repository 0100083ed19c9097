/** A message that is written and not yet accepted, and what is written about it when it is. */
import { randomUUID } from 'node:crypto';
import type { MailUser, StagedMessage } from '../../mailboxes/mailstore/mailstore.ts';
import type { EpochMs } from '../../platform/time/time.ts';
import type { SendingAccount } from '../../tenants/accounts/accounts.ts';
import type { NewEvent } from '../../tenants/events/events.ts';
import type { Counted } from '../../tenants/usage/usage.ts';
import type { TraceEvent } from '../trace/trace.ts';
import type { PinnedLocation } from './copies.ts';
import { type AtOnce, type DeliverHereOptions, deliveredHere } from './deliver-here.ts';
import { statusOf } from './send-results.ts';
import {
  type RequestKey,
  SEND,
  type SendRecipient,
  type SendRow,
  sendPayloads,
} from './send-rows.ts';

/** A message that is staged and not yet accepted. */
export interface WrittenMessage {
  readonly user: MailUser;
  readonly account: SendingAccount;
  readonly staged: StagedMessage;
  readonly messageId: string;
  /** Envelope sender; `''` for the null sender. */
  readonly from: string;
  readonly recipients: readonly string[];
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

/** The recipients of each delivery, by destination. */
export type RecipientGroups = ReadonlyMap<string, readonly string[]>;

/** Its row, without what the transaction finds out. */
export function newSend(message: WrittenMessage, id: string, now: EpochMs) {
  const { user, account, messageId, recipients, key, sendAt, draft } = message;
  return {
    id,
    accountId: user.accountId,
    domainId: account.domainId,
    key,
    sendAt,
    now,
    messageId,
    recipients: recipients.length,
    // A message that is sent at once removes its draft when it is accepted.
    draft: sendAt === undefined ? undefined : draft,
  };
}

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
