/** The transaction that accepts a message: its copy in Sent, its row, and its deliveries. */

import type { Bodies } from '../../mailboxes/bodies/bodies.ts';
import {
  describeMessage,
  type MailUser,
  type StagedMessage,
} from '../../mailboxes/mailstore/mailstore.ts';
import type { Database, Queries } from '../../platform/database/database.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import type { EpochMs } from '../../platform/time/time.ts';
import { findSendingAccount, type SendingAccount } from '../../tenants/accounts/accounts.ts';
import { writeEvents } from '../../tenants/events/events.ts';
import type { Counted, Usage } from '../../tenants/usage/usage.ts';
import { mailDestination } from '../outbound/outbound.ts';
import type { NewDelivery, Queue } from '../queue/queue.ts';
import type { Trace, TraceEvent } from '../trace/trace.ts';
import {
  type AfterCommit,
  type Copies,
  type Keeping,
  NO_COPY,
  type PinnedLocation,
} from './copies.ts';
import { insertRecipients, insertSend, refuseOverLimit } from './new-send.ts';
import {
  type Accepted,
  acceptedOf,
  findAccepted,
  freeKey,
  type RequestKey,
  SEND,
  type SendRow,
  sendPayloads,
} from './send-rows.ts';

export interface AcceptOptions {
  readonly database: Database;
  readonly bodies: Bodies;
  readonly copies: Copies;
  readonly queue: Pick<Queue, 'enqueue' | 'wake'>;
  /** Counts mail for billing. */
  readonly usage: Pick<Usage, 'count' | 'countRefused'>;
  readonly trace?: Pick<Trace, 'write'> | undefined;
  /** Recipients that one account may write to in 24 hours; 0 for no limit. */
  readonly recipientsPerDay: number;
  readonly now: () => EpochMs;
}

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
type RecipientGroups = ReadonlyMap<string, readonly string[]>;

/** The result of the transaction; `known` where the same request was accepted before. */
type AcceptOutcome =
  | { readonly known: Accepted }
  | {
      readonly row: SendRow;
      readonly deliveries: readonly NewDelivery[];
      readonly afterCommit: readonly AfterCommit[];
    };

/**
 * Accepts a message.
 *
 * @throws Refusal account_not_found, idempotency_key_reused, send_limit, quota_exceeded; then nothing was accepted
 */
export async function accept(options: AcceptOptions, message: WrittenMessage): Promise<Accepted> {
  const { database, bodies, copies, queue, usage } = options;
  const { user, staged } = message;
  const texts = await describeMessage(bodies, staged);
  // One delivery for each destination: the message goes there once, for all its recipients.
  const groups = Map.groupBy(message.recipients, mailDestination);
  const messageId = message.isRepeatable ? message.messageId : undefined;
  const copy =
    message.via === undefined
      ? await copies.keep(user, { use: '\\Sent', texts, body: staged.body, messageId })
      : NO_COPY;
  const outcome = await database
    .write((tx) => write(options, tx, message, groups, copy))
    .catch(async (error: unknown) => {
      // After any other error the commit may have happened.
      if (error instanceof Refusal) await copy.undo();
      if (error instanceof Refusal && error.code === 'send_limit') {
        usage.countRefused(user.accountId, message.recipients.length);
      }
      throw error;
    });
  if ('known' in outcome) {
    await copy.undo();
    await bodies.discard(staged.body);
    return outcome.known;
  }
  queue.wake(outcome.deliveries);
  await Promise.all(outcome.afterCommit.map(async (one) => one()));
  return acceptedOf(outcome.row);
}

async function write(
  { database, bodies, copies, queue, usage, trace, recipientsPerDay, now: clock }: AcceptOptions,
  tx: Queries,
  message: WrittenMessage,
  groups: RecipientGroups,
  copy: Keeping,
): Promise<AcceptOutcome> {
  const { user, account, key, sendAt, draft, inReplyTo } = message;
  const { accountId } = user;
  // Locked: of two requests with one key, the second finds what the first has written.
  if (!(await findSendingAccount(tx, accountId, database.engine))) {
    throw new Refusal('account_not_found', `there is no account ${user.address}`);
  }
  if (key?.since !== undefined) await freeKey(tx, accountId, key);
  const known = key && (await findAccepted(tx, accountId, key));
  if (known) return { known };
  const now = clock();
  const recipients = message.recipients.length;
  if (recipientsPerDay > 0) {
    await refuseOverLimit(tx, { accountId, recipients, now }, recipientsPerDay);
  }
  const bodyId = await bodies.commit(tx, message.staged.body);
  const kept = await copy.commit(tx, bodyId);
  const { userId, domainId, domain } = account;
  const row = await insertSend(tx, {
    accountId,
    domainId,
    bodyId,
    key,
    sendAt,
    now,
    messageId: message.messageId,
    location: kept.location,
    recipients,
    // A message that is sent at once removes its draft here.
    draft: sendAt === undefined ? undefined : draft,
  });
  const payload = sendPayloads.write({
    sendId: row.id,
    account: { accountId, address: user.address },
    domain,
    from: message.from,
    acceptedAt: now,
    id: row.public_id,
    ...(message.via !== undefined && { via: message.via }),
  });
  const deliveries = await queueGroups({ queue, trace }, tx, groups, {
    row,
    message,
    bodyId,
    userId,
    domainId,
    payload,
  });
  const { subject } = message.staged.parsed.envelope;
  const data = {
    address: user.address,
    send_id: row.public_id,
    message_id: message.messageId,
    subject,
    recipients,
    ...(sendAt !== undefined && { send_at: new Date(sendAt).toISOString() }),
  };
  const { mailbox, uid } = kept.location;
  const location = message.via === undefined ? { mailbox, uid } : {};
  await writeEvents(tx, [{ type: 'message.sent', accountId, ...location, data }], now);
  const sent = { domainId, bodyId };
  const afterCommit = [kept.afterCommit];
  if (inReplyTo) afterCommit.push(await copies.setAnswered(tx, user, inReplyTo, sent));
  if (draft && sendAt === undefined) {
    afterCommit.push(await copies.remove(tx, user, draft, sent));
  }
  // After the mailboxes, as for incoming mail: transactions lock rows in one order.
  await usage.count(tx, [sentUsage(accountId, recipients, message.staged.parsed.size)], now);
  return { row, deliveries, afterCommit };
}

/** What a message counts for its sender: one copy for each recipient. */
export function sentUsage(accountId: number, recipients: number, bytes: number): Counted {
  return { accountId, messagesOut: recipients, bytesOut: recipients * bytes };
}

/** Queues the message for each group of recipients, and writes the trace. */
async function queueGroups(
  { queue, trace }: Pick<AcceptOptions, 'queue' | 'trace'>,
  tx: Queries,
  groups: RecipientGroups,
  { row, message, bodyId, userId, domainId, payload }: Queueing,
): Promise<NewDelivery[]> {
  const { messageId, sendAt, from, staged } = message;
  const { public_id: mailId } = row;
  const about = { messageId, subject: staged.parsed.envelope.subject };
  const notBefore = sendAt === undefined ? {} : { notBefore: sendAt };
  const deliveries: NewDelivery[] = [];
  const traced: TraceEvent[] = [];
  for (const [destination, addresses] of groups) {
    const delivery = {
      kind: SEND,
      userId,
      domainId,
      accountId: row.account_id,
      destination,
      bodyId,
      payload,
      about,
      mailId,
      ...notBefore,
      recipients: addresses,
      mailFrom: from,
    };
    const deliveryId = await queue.enqueue(tx, delivery);
    await insertRecipients(tx, { sendId: row.id, deliveryId }, addresses);
    deliveries.push(delivery);
    const { size } = staged.parsed;
    const submitted = { mailId, event: 'submitted', sender: from, size, ...about, deliveryId };
    traced.push(...addresses.map((recipient) => ({ ...submitted, recipient })));
  }
  await trace?.write(tx, traced);
  return deliveries;
}

interface Queueing {
  readonly row: SendRow;
  readonly message: WrittenMessage;
  readonly bodyId: number;
  readonly userId: string;
  readonly domainId: number;
  readonly payload: string;
}
