/** DSNs of deliveries that failed for good. */
import { randomUUID } from 'node:crypto';
import type { Bodies } from '../../mailboxes/bodies/bodies.ts';
import type { Queries } from '../../platform/database/database.ts';
import type { EpochMs } from '../../platform/time/time.ts';
import { type Header, readHeader } from '../../protocols/message/message.ts';
import type { Domains } from '../../tenants/domains/domains.ts';
import { buildDsn, mailDestination } from '../outbound/outbound.ts';
import type { DeliveryError, Job, NewDelivery, Queue } from '../queue/queue.ts';
import type { Trace } from '../trace/trace.ts';
import { BOUNCE, type BouncePayload, bouncePayloads, type MailOrigin } from './kinds.ts';

/** A pino logger is one. */
export interface BouncesLog {
  error(what: object, text: string): void;
}

export interface BouncesOptions {
  readonly queue: Pick<Queue, 'enqueue'>;
  readonly trace?: Pick<Trace, 'write'> | undefined;
  readonly bodies: Bodies;
  readonly domains: Pick<Domains, 'findDkimKey'>;
  /** Our host name: the reporting MTA. */
  readonly hostname: string;
  readonly log: BouncesLog;
  readonly now: () => EpochMs;
}

/** What a DSN is written from, in addition to the failure. */
export interface Bounced {
  /** The domain that the message came to. */
  readonly domain: string;
  readonly origin: MailOrigin;
  readonly forwardedTo?: string;
  readonly enhancedStatus?: string;
}

/** A DSN that is written but not yet queued. */
export interface PreparedDsn {
  readonly source: Buffer;
  readonly payload: BouncePayload;
}

/** Writes a DSN after the last attempt, and queues it in the transaction that ends the delivery. */
export class Bounces {
  readonly #options: BouncesOptions;

  constructor(options: BouncesOptions) {
    this.#options = options;
  }

  /**
   * Writes the DSN of a delivery that failed for good.
   *
   * @returns undefined where nobody is to be informed
   */
  async prepare(
    job: Job,
    error: DeliveryError,
    recipients: readonly string[],
    { domain, origin, forwardedTo, enhancedStatus = '5.0.0' }: Bounced,
  ): Promise<PreparedDsn | undefined> {
    const { bounceTo, receivedAt } = origin;
    if (bounceTo === undefined || recipients.length === 0) return undefined;
    const header = await this.#readHeader(job);
    const now = this.#options.now();
    const dsn = await buildDsn({
      hostname: this.#options.hostname,
      domain,
      dkimKey: await this.#options.domains.findDkimKey(job.domainId),
      sender: bounceTo,
      recipients: recipients.map((recipient) => ({
        recipient,
        forwardedTo,
        error: { ...error, enhancedStatus: permanentStatus(enhancedStatus) },
        lastAttempt: now,
      })),
      header,
      arrived: receivedAt,
      id: randomUUID(),
      now,
    });
    const payload = { to: bounceTo, domain, smtpUtf8: dsn.smtpUtf8 };
    return { source: Buffer.concat(await Array.fromAsync(dsn.open())), payload };
  }

  /** Queues a DSN. The caller wakes the queue for it after the commit. */
  async enqueue(tx: Queries, job: Job, { source, payload }: PreparedDsn): Promise<NewDelivery> {
    const bodyId = await this.#options.bodies.commit(tx, { size: source.length, content: source });
    const bounce = {
      kind: BOUNCE,
      domainId: job.domainId,
      userId: job.userId,
      destination: mailDestination(payload.to),
      bodyId,
      payload: bouncePayloads.write(payload),
      mailId: job.mailId,
      recipients: [payload.to],
      mailFrom: '',
    };
    const deliveryId = await this.#options.queue.enqueue(tx, bounce);
    const { mailId, recipient } = job;
    if (mailId !== undefined) {
      const detail = `the sender ${payload.to} is told, by delivery ${deliveryId}`;
      const told = { mailId, event: 'bounced', recipient, deliveryId: job.id, detail };
      await this.#options.trace?.write(tx, [told]);
    }
    return bounce;
  }

  /** An unreadable source must not prevent the DSN of the last attempt. */
  async #readHeader(job: Job): Promise<Header> {
    const { bodies, log } = this.#options;
    try {
      return await readHeader(bodies.read(await bodies.get(job.bodyId)));
    } catch (error) {
      if (!job.isLast) throw error;
      log.error(
        { err: error, id: job.id, mailId: job.mailId },
        'a bounce is sent without the header of the original message: the header could not be read',
      );
      return { fields: [], size: 0, isWhole: true };
    }
  }
}

/** A temporary failure of the last attempt is final (RFC 3464 section 2.3.4). */
function permanentStatus(status: string): string {
  return status.replace(/^4/, '5');
}
