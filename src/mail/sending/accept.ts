/**
 * The transaction that accepts a message: its copy in Sent, its row, and its deliveries. Where everybody it is for is
 * hosted here, it delivers the message, too (`deliver-here.ts`).
 */
import { randomUUID } from 'node:crypto';
import type { Bodies } from '../../mailboxes/bodies/bodies.ts';
import { describeMessage } from '../../mailboxes/mailstore/mailstore.ts';
import type { Database, Queries } from '../../platform/database/database.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import type { EpochMs } from '../../platform/time/time.ts';
import { findSendingAccount } from '../../tenants/accounts/accounts.ts';
import { type NewEvent, writeEvents } from '../../tenants/events/events.ts';
import type { Usage } from '../../tenants/usage/usage.ts';
import { MailboxClosed } from '../outbound/outbound.ts';
import type { NewDelivery, Queue } from '../queue/queue.ts';
import type { Trace, TraceEvent } from '../trace/trace.ts';
import { type AfterCommit, type Copies, type Keeping, NO_COPY, NOWHERE } from './copies.ts';
import {
  type AtOnce,
  accountsOf,
  type DeliverHereOptions,
  destinationOf,
  prepareAtOnce,
} from './deliver-here.ts';
import {
  deliveriesOf,
  insertRecipients,
  insertSend,
  newSendRow,
  type RecipientGroups,
  refuseOverLimit,
  sentEvent,
  sentUsage,
  statusesOf,
  submittedEvents,
  type WrittenMessage,
} from './new-send.ts';
import { NUMBERS, type OneStatement } from './one-statement.ts';
import { isTold, sendEvent } from './send-results.ts';
import { type Accepted, acceptedOf, findAccepted, freeKey } from './send-rows.ts';

export interface AcceptOptions extends DeliverHereOptions {
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
  /** For the usual message, where the database can. */
  readonly oneStatement?: Pick<OneStatement, 'accept'>;
}

/** What is prepared for the transaction. */
interface Accepting {
  /** The id in the answer. */
  readonly id: string;
  readonly groups: RecipientGroups;
  readonly copy: Keeping;
  /** Undefined where the queue delivers it. */
  readonly atOnce: AtOnce | undefined;
}

/** The result of the transaction; `known` where the same request was accepted before. */
type AcceptOutcome =
  | { readonly known: Accepted }
  | {
      readonly row: Parameters<typeof acceptedOf>[0];
      readonly deliveries: readonly Omit<NewDelivery, 'bodyId'>[];
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
  const groups = Map.groupBy(message.recipients, (one) => destinationOf(options, one));
  const messageId = message.isRepeatable ? message.messageId : undefined;
  const copy =
    message.via === undefined
      ? await copies.keep(user, { use: '\\Sent', texts, body: staged.body, messageId })
      : NO_COPY;
  const id = randomUUID();
  const atOnce = await deliverAtOnce(options, message, groups, id);
  const accepting = { id, groups, copy, atOnce };
  const outcome = await copies
    .inLine(
      [user.accountId, ...accountsOf(atOnce)],
      async () =>
        (await acceptPlain(options, message, accepting)) ??
        (await database.write((tx) => write(options, tx, message, accepting))),
    )
    .catch(async (error: unknown) => {
      if (!(error instanceof MailboxClosed)) throw error;
      await atOnce?.discard();
      return database.write((tx) =>
        write(options, tx, message, { ...accepting, atOnce: undefined }),
      );
    })
    .catch(async (error: unknown) => {
      // After any other error the commit may have happened.
      if (error instanceof Refusal) {
        await copy.undo();
        await atOnce?.discard();
      }
      if (error instanceof Refusal && error.code === 'send_limit') {
        usage.countRefused(user.accountId, message.recipients.length);
      }
      throw error;
    });
  if ('known' in outcome) {
    await copy.undo();
    await atOnce?.discard();
    await bodies.discard(staged.body);
    return outcome.known;
  }
  queue.wake(outcome.deliveries);
  await Promise.all(outcome.afterCommit.map(async (one) => one()));
  return acceptedOf(outcome.row);
}

/** Prepares to deliver it at once; undefined where the queue has to do it, also where an error is in the way. */
async function deliverAtOnce(
  options: AcceptOptions,
  { account, staged, sendAt, from, via }: WrittenMessage,
  groups: RecipientGroups,
  id: string,
): Promise<AtOnce | undefined> {
  const [recipients = []] = groups.values();
  if (sendAt !== undefined || groups.size !== 1 || account.status !== 'active') return undefined;
  const { domain, domainId } = account;
  const sent = { id, acceptedAt: options.now(), domain, domainId, from, via };
  // The queue meets the error again, logs it, and goes on.
  return prepareAtOnce(options, sent, recipients, staged.body).catch(() => undefined);
}

/** Accepts it in one statement; undefined where it takes a transaction: then nothing was written. */
async function acceptPlain(
  options: AcceptOptions,
  message: WrittenMessage,
  accepting: Accepting,
): Promise<AcceptOutcome | undefined> {
  const { oneStatement, now: clock } = options;
  const { copy, atOnce, id } = accepting;
  const { key, inReplyTo, draft, staged, user } = message;
  const { accountId } = user;
  if (!oneStatement || !copy.plain || !atOnce?.plain || key || inReplyTo || draft) return undefined;
  const now = clock();
  const row = newSendRow(message, id, 0, NOWHERE, now);
  const [delivery] = deliveriesOf(message, accepting, { ...row, id: NUMBERS.send });
  const [recipient, ...others] = delivery ? statusesOf(options, delivery) : [];
  if (!delivery || !recipient || others.length > 0 || !isTold(recipient)) return undefined;
  const submitted = submittedEvents(message, delivery, NUMBERS.delivery);
  const counted = sentUsage(accountId, 1, staged.parsed.size);
  const location = await oneStatement.accept({
    accountId,
    copy: copy.plain,
    local: atOnce.plain,
    body: staged.body,
    row,
    delivery,
    recipient,
    traced: [...submitted, atOnce.plain.stored(NUMBERS.uid)],
    sent: sentEvent(message, row, NOWHERE),
    delivered: sendEvent(accountId, id, recipient),
    counted: [counted, ...atOnce.counted],
    now,
  });
  return location && { row: { ...row, ...location }, deliveries: [delivery], afterCommit: [] };
}

async function write(
  options: AcceptOptions,
  tx: Queries,
  message: WrittenMessage,
  accepting: Accepting,
): Promise<AcceptOutcome> {
  const { bodies, queue, usage, trace, recipientsPerDay, now: clock } = options;
  const { user, key } = message;
  const { copy, atOnce } = accepting;
  const { accountId } = user;
  // Accounts with quotas first, in one order: two accounts may write to each other.
  await atOnce?.hold(tx, accountId);
  // Locked: of two requests with one key, the second finds what the first has written.
  if (!(await findSendingAccount(tx, accountId, true))) {
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
  const { location, afterCommit: publish } = await copy.commit(tx, bodyId);
  const row = await insertSend(tx, newSendRow(message, accepting.id, bodyId, location, now));
  const deliveries: Omit<NewDelivery, 'bodyId'>[] = [];
  const traced: TraceEvent[] = [];
  const events: NewEvent[] = [sentEvent(message, row, location)];
  for (const delivery of deliveriesOf(message, accepting, row)) {
    const deliveryId = await queue.enqueue(tx, { ...delivery, bodyId });
    const to = statusesOf(options, delivery);
    await insertRecipients(tx, { sendId: row.id, deliveryId }, to);
    deliveries.push(delivery);
    traced.push(...submittedEvents(message, delivery, deliveryId));
    events.push(...to.filter(isTold).map((one) => sendEvent(accountId, row.public_id, one)));
  }
  await writeEvents(tx, events, now);
  const changed = await changeMailboxes(options, tx, message, { bodyId, atOnce });
  await trace?.write(tx, [...traced, ...changed.traced]);
  // After the mailboxes, as for incoming mail: transactions lock rows in one order.
  const counted = sentUsage(accountId, recipients, message.staged.parsed.size);
  await usage.count(tx, [counted, ...(atOnce?.counted ?? [])], now);
  return { row, deliveries, afterCommit: [publish, ...changed.afterCommit] };
}

/** Changes the mailboxes of the sender, and delivers what is delivered at once. */
async function changeMailboxes(
  { copies }: AcceptOptions,
  tx: Queries,
  { user, account, inReplyTo, draft, sendAt }: WrittenMessage,
  { bodyId, atOnce }: { readonly bodyId: number; readonly atOnce: AtOnce | undefined },
) {
  const sent = { domainId: account.domainId, bodyId };
  const afterCommit: AfterCommit[] = [];
  const traced: TraceEvent[] = [];
  const change = async () => {
    if (inReplyTo) afterCommit.push(await copies.setAnswered(tx, user, inReplyTo, sent));
    if (draft && sendAt === undefined) {
      afterCommit.push(await copies.remove(tx, user, draft, sent));
    }
  };
  const deliver = async () => {
    const here = await atOnce?.commit(tx);
    if (here) afterCommit.push(here.afterCommit);
    traced.push(...(here?.traced ?? []));
  };
  // By the ids of the accounts, as for incoming mail: transactions lock mailboxes in one order.
  const isToEarlier = atOnce?.counted.some((one) => (one.accountId ?? 0) < user.accountId);
  for (const step of isToEarlier ? [deliver, change] : [change, deliver]) await step();
  return { afterCommit, traced };
}
