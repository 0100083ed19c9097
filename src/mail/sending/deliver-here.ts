/**
 * Mail for recipients hosted here. A message that goes out at once, and whose recipients are all at one domain that is
 * hosted here, is delivered in the transaction that accepts it: its delivery is queued as made. All other mail waits for
 * the queue: what is scheduled, what has recipients elsewhere, and what one of its recipients may not take.
 *
 * Crashes: before the commit nothing was accepted, and nobody has the message; after it everybody has it, once.
 */
import type { Bodies } from '../../mailboxes/bodies/bodies.ts';
import type { EpochMs } from '../../platform/time/time.ts';
import { formatDate } from '../../protocols/message/message.ts';
import { mailLocalPart } from '../../tenants/accounts/accounts.ts';
import type { Domains } from '../../tenants/domains/domains.ts';
import {
  type LocalMail,
  type LocalMailDelivery,
  mailDestination,
  type PreparedLocal,
  type PreparedMessage,
  prepareSubmission,
  type SendOutcome,
} from '../outbound/outbound.ts';
import type { SendPayload } from './send-rows.ts';

export interface DeliverHereOptions {
  readonly bodies: Pick<Bodies, 'read'>;
  readonly domains: Pick<Domains, 'findActive' | 'findDkimKey'>;
  /** Delivers to recipients who are hosted here. */
  readonly local: LocalMailDelivery;
  /** Our host name. */
  readonly hostname: string;
}

/** What the message that goes out has of its send. */
export type Sent = Pick<SendPayload, 'id' | 'acceptedAt' | 'domain' | 'from'> & {
  readonly via?: string | undefined;
  readonly domainId: number;
};

/** The message as its recipients get it. */
export async function prepareSent(
  { bodies, domains, hostname }: DeliverHereOptions,
  { id, acceptedAt, via = 'HTTP', domain, domainId }: Sent,
  body: Parameters<Bodies['read']>[0],
  now: EpochMs,
): Promise<PreparedMessage> {
  return prepareSubmission({
    open: () => bodies.read(body),
    // RFC 5321 section 4.4; the address of the app's or program's user is private.
    received: `Received: by ${hostname} with ${via} id ${id};\r\n ${formatDate(acceptedAt)}`,
    domain,
    dkimKey: await domains.findDkimKey(domainId),
    now,
  });
}

/** The recipients that get a message together: those at one domain, and postmaster at our own name apart from others there. */
export function destinationOf({ hostname }: Pick<DeliverHereOptions, 'hostname'>, to: string) {
  const operator = `postmaster@${hostname}`;
  const domain = mailDestination(to);
  const plain = `${mailLocalPart(to.slice(0, to.lastIndexOf('@')))}@${domain}`;
  return plain === operator ? operator : domain;
}

/** Whether all of these, who are at one domain, are hosted here now. */
export async function areHere(
  options: Pick<DeliverHereOptions, 'domains' | 'hostname'>,
  recipients: readonly string[],
): Promise<boolean> {
  const domain = mailDestination(recipients[0] ?? '');
  const { domains } = options;
  if (await domains.findActive(domain)) return true;
  // Postmaster at our own name, as mail from outside reaches it (RFC 5321 section 4.5.1): at a domain above it.
  if (recipients.some((one) => destinationOf(options, one) === domain)) return false;
  for (let above = domain; above.includes('.'); ) {
    above = above.slice(above.indexOf('.') + 1);
    if (await domains.findActive(above)) return true;
  }
  return false;
}

/** Of a recipient hosted here who gets the message. */
export function deliveredHere({ hostname }: Pick<DeliverHereOptions, 'hostname'>) {
  return { result: 'delivered', host: hostname, detail: 'delivered here' } satisfies SendOutcome;
}

/** A message that the transaction that accepts it delivers. */
export interface AtOnce
  extends Pick<PreparedLocal, 'plain' | 'counted' | 'hold' | 'commit' | 'discard'> {
  /** How long it took until now. */
  readonly ms: number;
}

/** Accounts whose mailboxes get it. */
export function accountsOf(local: Pick<PreparedLocal, 'counted'> | undefined): number[] {
  return (local?.counted ?? []).flatMap(({ accountId }) => accountId ?? []);
}

/**
 * Prepares to deliver a message when it is accepted.
 *
 * @param recipients all that it has at one domain
 * @returns undefined where the queue has to do it
 */
export async function prepareAtOnce(
  options: DeliverHereOptions,
  sent: Sent,
  recipients: readonly string[],
  body: Parameters<Bodies['read']>[0],
): Promise<AtOnce | undefined> {
  const begun = performance.now();
  if (!(await areHere(options, recipients))) return undefined;
  const { size, open } = await prepareSent(options, sent, body, sent.acceptedAt);
  const { id, from, acceptedAt } = sent;
  const mail: LocalMail = { id, from, recipients, acceptedAt, size, open };
  const prepared = await options.local.prepare(mail);
  if (prepared.refused.size > 0) {
    await prepared.discard();
    return undefined;
  }
  return { ...prepared, ms: performance.now() - begun };
}
