/** What is recorded about mail: the trace for operators, and the usage for billing. */
import type { MailUser, MessageTexts } from '../../mailboxes/mailstore/mailstore.ts';
import type { Envelope } from '../../protocols/message/message.ts';
import type { EventData, NewEvent } from '../../tenants/events/events.ts';
import type { Counted } from '../../tenants/usage/usage.ts';
import type { LateBounce } from '../outbound/outbound.ts';
import type { TraceEvent } from '../trace/trace.ts';
import type { AcceptedMail, QueuedMail } from './queue-mail.ts';
import type { DeliveryPlan } from './resolve-recipient.ts';

/** The trace events of each recipient who was answered 250. */
export function receivedEvents(
  { envelope, message, verdicts }: AcceptedMail,
  recipients: readonly string[],
): TraceEvent[] {
  const { id: mailId, from: sender, arrival } = envelope;
  const { protocol, heloName, remoteAddress } = arrival;
  const { size, envelope: header } = message.parsed;
  const checks = verdicts
    ? `, SPF ${verdicts.spf.result}, DMARC ${verdicts.dmarc.result}, ${verdicts.action}`
    : '';
  const received = {
    mailId,
    event: 'received',
    sender,
    messageId: header.messageId,
    subject: header.subject,
    size,
    status: '250',
    detail: `${protocol} from ${heloName}, ${size} bytes${checks}`,
    client: remoteAddress,
  };
  return recipients.map((recipient) => ({ ...received, recipient }));
}

/** @param location the mailbox of the account, or who has the message now */
export function storedEvent(mailId: string, recipient: string, location: string): TraceEvent {
  return { mailId, event: 'stored', recipient, detail: location };
}

/** The event of a copy in one of our own mailboxes. */
export function storedIn(
  mailId: string,
  { address }: MailUser,
  { mailbox, uid }: { readonly mailbox: string; readonly uid: number | string },
): TraceEvent {
  return storedEvent(mailId, address, `${mailbox}, UID ${uid}`);
}

/**
 * What the event of a received message tells, besides where it is stored.
 *
 * @param texts undefined where a mail server has stored it
 */
export function receivedData(
  { id: mailId, from }: { readonly id: string; readonly from: string },
  { address }: MailUser,
  texts: Pick<MessageTexts, 'envelope' | 'size'>,
): EventData {
  // Of our own making.
  const header = JSON.parse(texts.envelope) as Envelope;
  return {
    address,
    mail_id: mailId,
    from: header.from?.[0]?.address ?? from,
    subject: header.subject,
    message_id: header.messageId,
    size: texts.size,
  };
}

/** The event of a message that a mailbox has taken. @param location without a UID where a mail server has stored it */
export function receivedEvent(
  mail: Parameters<typeof receivedData>[0],
  user: MailUser,
  texts: Pick<MessageTexts, 'envelope' | 'size'>,
  location: { readonly mailbox: string; readonly uid?: number },
): NewEvent {
  const { accountId } = user;
  return {
    type: 'message.received',
    accountId,
    ...location,
    data: receivedData(mail, user, texts),
  };
}

/** The event of a recipient whom a report from outside names. */
export function bouncedEvent({ accountId, mailId, recipient, detail }: LateBounce): NewEvent {
  return { type: 'send.bounced', accountId, data: { send_id: mailId, recipient, detail } };
}

/** @param failed the answer to a first attempt that was made at once */
export function queuedEvent(
  { kind, destination, mailId = '', recipients, publicId }: QueuedMail,
  deliveryId: number,
  failed?: string,
): TraceEvent {
  const tried = failed === undefined ? '' : `, after a first attempt: ${failed}`;
  return {
    mailId,
    event: 'queued',
    recipient: recipients?.join(', '),
    deliveryId,
    webhookId: publicId,
    detail: `${kind} to ${destination}${tried}`,
  };
}

/**
 * A message counts once for each account it is for, whether its mailbox or its domain's webhook gets it. A
 * message for no account counts for the domain; a forwarded one counts as incoming and as outgoing.
 *
 * @param bytes octets of its source
 * @param refused accounts whose mailbox refused it
 */
export function usageOf(
  { users, webhooks, forwards, returns }: DeliveryPlan,
  bytes: number,
  refused: ReadonlySetLike<number>,
): Counted[] {
  const accounts = new Set(users.keys());
  const domains = new Map<number, { in: number; out: number }>();
  const add = (domainId: number, out: number) => {
    const sum = domains.get(domainId) ?? { in: 0, out: 0 };
    domains.set(domainId, { in: sum.in + 1, out: sum.out + out });
  };
  for (const { domain, users } of webhooks.values()) {
    for (const accountId of users.keys()) accounts.add(accountId);
    if (users.size === 0) add(domain.id, 0);
  }
  for (const { domain } of forwards.values()) add(domain.id, 1);
  for (const domain of returns.values()) add(domain.id, 1);
  return [
    ...[...accounts.difference(refused)].map((accountId) => ({
      accountId,
      messagesIn: 1,
      bytesIn: bytes,
    })),
    ...[...domains].map(([domainId, sum]) => ({
      domainId,
      messagesIn: sum.in,
      bytesIn: sum.in * bytes,
      messagesOut: sum.out,
      bytesOut: sum.out * bytes,
    })),
  ];
}
