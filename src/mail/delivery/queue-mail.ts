/** From a plan to the rows of the queue, ready before the transaction that accepts the message. */
import { randomUUID } from 'node:crypto';
import type { Bodies } from '../../mailboxes/bodies/bodies.ts';
import type { SigningKeys } from '../../platform/nodes/nodes.ts';
import { parseAddress, readHeader } from '../../protocols/message/message.ts';
import { mailDestination, mayBounce, type SenderRewriting } from '../outbound/outbound.ts';
import type { NewDelivery } from '../queue/queue.ts';
import { buildWebhookBody, signLink, webhookDestination } from '../webhooks/webhooks.ts';
import {
  BOUNCE,
  bouncePayloads,
  FORWARD,
  forwardPayloads,
  type MailOrigin,
  STORE_AFTER_MS,
  WEBHOOK,
  webhookPayloads,
} from './kinds.ts';
import type { DeliveryPlan, PlannedRoute } from './resolve-recipient.ts';
import type { Verdicts } from './sender-checks/check-sender.ts';
import type { ArrivedMail, StagedMail } from './stage-mail.ts';

export interface QueueMailOptions {
  readonly bodies: Bodies;
  readonly senders: SenderRewriting;
  /** Signs links to the source. */
  readonly linkSecret: SigningKeys;
  readonly publicUrl: () => string;
}

/** A message that is about to be accepted. */
export interface AcceptedMail extends ArrivedMail, StagedMail {}

export type QueuedMail = Omit<NewDelivery, 'bodyId'>;

/** Writes what has to be queued for a message that goes on to another place. */
export async function queueMail(
  options: QueueMailOptions,
  plan: DeliveryPlan,
  mail: AcceptedMail,
): Promise<QueuedMail[]> {
  const { webhooks, forwards, returns } = plan;
  const origin = await originOf(options, mail);
  const queued: QueuedMail[] = [];
  for (const webhook of webhooks.values()) {
    queued.push(await queueWebhook(options, webhook, mail, origin));
  }
  for (const forward of forwards.values()) {
    queued.push(queueForward(options, forward, mail, origin));
  }
  for (const [to, domain] of returns) {
    queued.push({
      kind: BOUNCE,
      domainId: domain.id,
      userId: domain.userId,
      destination: mailDestination(to),
      recipients: [to],
      payload: bouncePayloads.write({ to, domain: domain.name, smtpUtf8: cameByUtf8(mail) }),
    });
  }
  const { messageId, subject } = mail.message.parsed.envelope;
  const about = { subject, ...(messageId !== undefined && { messageId }) };
  const { id: mailId, from } = mail.envelope;
  return queued.map((delivery) => {
    // A bounce on its way back is from the null sender, as it came.
    const mailFrom = delivery.kind === BOUNCE ? '' : from;
    return { ...delivery, about, mailId, mailFrom };
  });
}

/** Where a message came from, and who gets a bounce where it cannot be delivered. */
export async function originOf(
  { bodies, senders }: Pick<QueueMailOptions, 'bodies' | 'senders'>,
  { envelope, message, verdicts, receivedAt }: AcceptedMail,
): Promise<MailOrigin> {
  const header = await readHeader(bodies.read(message.body));
  const { from, id } = envelope;
  // Mail that one of our domains forwards to another comes from this host, which the SPF record of the
  // first need not allow. We rewrote its sender ourselves, and that sender accepts bounces from any host.
  const spf = isOurs(senders, from) ? 'none' : (verdicts?.spf.result ?? 'none');
  const allowed = mayBounce({ sender: from, spf, header });
  return { from, id, receivedAt, ...(allowed && { bounceTo: from }) };
}

/** Whether a sender is one that we have rewritten, by its tag. */
function isOurs(senders: SenderRewriting, sender: string): boolean {
  const address = parseAddress(sender);
  const kind = address && senders.reverse(address.local, address.domain).kind;
  return kind === 'original' || kind === 'digest';
}

async function queueWebhook(
  { bodies, linkSecret, publicUrl }: QueueMailOptions,
  { domain, recipients, users, strangers }: PlannedRoute,
  { message, envelope, verdicts, receivedAt }: AcceptedMail,
  origin: MailOrigin,
): Promise<QueuedMail> {
  const { webhookUrl: url, webhookSecret: secret, forwardMode } = domain.route;
  if (url === undefined) throw new Error('a webhook route has no URL');
  const publicId = randomUUID();
  const mode = forwardMode === 'webhook' ? 'webhook' : 'webhook_then_store';
  const mailbox = verdicts?.action === 'quarantine' ? 'Junk' : 'INBOX';
  const body = await buildWebhookBody(
    {
      domain: domain.name,
      envelope: { from: envelope.from, to: recipients },
      parsed: message.parsed,
      auth: {
        spf: verdicts?.spf.result ?? null,
        dkim: verdicts ? dkimSummary(verdicts) : null,
        dmarc: verdicts?.dmarc.result ?? null,
      },
      rawUrl: signLink(linkSecret, publicUrl(), { id: publicId }, receivedAt),
      partUrl: (part) => signLink(linkSecret, publicUrl(), { id: publicId, part }, receivedAt),
      mailbox: mode === 'webhook_then_store' && users.size > 0 ? mailbox : null,
      mailId: envelope.id,
      receivedAt,
    },
    (range) => bodies.read(message.body, range),
  );
  const payload = webhookPayloads.write({
    origin,
    domain: domain.name,
    mode,
    url,
    ...(secret !== undefined && { secret }),
    body,
    users: [...users.values()],
    strangers,
    mailbox,
  });
  return {
    kind: WEBHOOK,
    domainId: domain.id,
    userId: domain.userId,
    destination: webhookDestination(url),
    url,
    recipients,
    payload,
    publicId,
    ...(mode === 'webhook_then_store' && users.size > 0 && { lateAt: receivedAt + STORE_AFTER_MS }),
  };
}

/** One result for all signatures: the best that any of them has. */
function dkimSummary({ dkim }: Verdicts): string {
  const results = dkim.map(({ result }) => result);
  return results.includes('pass') ? 'pass' : (results[0] ?? 'none');
}

function queueForward(
  { senders }: QueueMailOptions,
  { domain, recipients }: PlannedRoute,
  mail: AcceptedMail,
  origin: MailOrigin,
): QueuedMail {
  const { forwardToEmail: to } = domain.route;
  if (to === undefined) throw new Error('a forwarding route has no address');
  const { verdicts, envelope } = mail;
  const payload = forwardPayloads.write({
    origin,
    recipients,
    domain: domain.name,
    from: senders.forwardAddress(envelope.from, domain.name),
    to,
    verdict: {
      policy: verdicts?.dmarc.policy ?? 'none',
      dkimAligned: verdicts?.survivesForwarding ?? false,
      ...(verdicts &&
        verdicts.dmarc.result !== 'temperror' && { aligned: verdicts.dmarc.result === 'pass' }),
      ...(verdicts && { arc: verdicts.arc.result }),
    },
    smtpUtf8: cameByUtf8(mail),
  });
  return {
    kind: FORWARD,
    domainId: domain.id,
    userId: domain.userId,
    destination: mailDestination(to),
    recipients: [to],
    payload,
  };
}

function cameByUtf8({ envelope }: AcceptedMail): boolean {
  return envelope.arrival.protocol.startsWith('UTF8');
}
