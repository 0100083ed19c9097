/** DSNs of deliveries that came to their end without success. */
import { randomUUID } from 'node:crypto';
import type { Bodies } from '../bodies/bodies.ts';
import type { Queries } from '../database/database.ts';
import type { Domains } from '../domains/domains.ts';
import { buildDsn, type Header, readHeader } from '../outbound/outbound.ts';
import type { DeliveryError, Job, NewDelivery, Outcome, Queue } from '../queue/queue.ts';
import { BOUNCE, type BouncePayload, mailDestination } from './outgoing-mail.ts';

export interface BouncesOptions {
  readonly queue: Pick<Queue, 'enqueue' | 'wake'>;
  readonly bodies: Bodies;
  readonly domains: Pick<Domains, 'findDkimKey'>;
  /** Our host name: who reports. */
  readonly hostname: string;
  /** Milliseconds since 1970. */
  readonly now: () => number;
}

/** What a DSN is written from, besides the failure. */
export interface Bounced {
  readonly bounceTo?: string;
  readonly receivedAt: number;
  readonly forwardedTo?: string;
  readonly enhancedStatus?: string;
}

/** A bounce that is queued but maybe not committed. */
export type QueuedBounce = Pick<NewDelivery, 'kind' | 'destination'>;

/** A DSN that is written but not yet queued. */
interface PreparedDsn {
  readonly source: Buffer;
  readonly payload: BouncePayload;
}

/** Writes a DSN after the last attempt, and queues it in the transaction that ends the delivery. */
export class Bounces {
  readonly #options: BouncesOptions;
  /** By delivery, from the attempt until the transaction that queues it is committed. */
  readonly #dsns = new Map<number, PreparedDsn>();

  constructor(options: BouncesOptions) {
    this.#options = options;
  }

  /** Writes the DSN of a delivery that has come to its end without success. */
  async prepare(
    job: Job,
    outcome: Outcome,
    recipients: readonly string[],
    about: Bounced,
  ): Promise<void> {
    this.#dsns.delete(job.id);
    const ends = outcome.result === 'permanent' || (outcome.result === 'temporary' && job.isLast);
    const { bounceTo } = about;
    if (!ends || job.isReplay || bounceTo === undefined || recipients.length === 0) return;
    const body = await this.#options.bodies.find(job.bodyId);
    if (!body) return;
    const header = await readHeader(this.#options.bodies.read(body));
    this.#dsns.set(job.id, await this.#write(job, outcome.error, recipients, about, header));
  }

  /** Queues the DSN that was written for this delivery, if any. */
  async enqueue(tx: Queries, job: Job): Promise<QueuedBounce | undefined> {
    const dsn = this.#dsns.get(job.id);
    if (!dsn) return undefined;
    const { source, payload } = dsn;
    const bodyId = await this.#options.bodies.commit(tx, { size: source.length, content: source });
    const bounce = {
      kind: BOUNCE,
      domainId: job.domainId,
      destination: mailDestination(payload.to),
      bodyId,
      payload: JSON.stringify(payload),
    };
    await this.#options.queue.enqueue(tx, bounce);
    return bounce;
  }

  /** The DSN is kept until it is committed: the transaction may run again after a deadlock. */
  send(job: Job, bounce: QueuedBounce): void {
    this.#dsns.delete(job.id);
    this.#options.queue.wake([bounce]);
  }

  async #write(
    job: Job,
    error: DeliveryError,
    recipients: readonly string[],
    { bounceTo = '', receivedAt, forwardedTo, enhancedStatus = '5.0.0' }: Bounced,
    header: Header,
  ): Promise<PreparedDsn> {
    const now = this.#options.now();
    const [first = ''] = recipients;
    const domain = mailDestination(first);
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
    const chunks: Uint8Array[] = [];
    for await (const chunk of dsn.open()) chunks.push(chunk);
    const payload = { to: bounceTo, domain, smtpUtf8: dsn.smtpUtf8 };
    return { source: Buffer.concat(chunks), payload };
  }
}

/** After the last attempt a temporary failure is final (RFC 3464 section 2.3.4). */
function permanentStatus(status: string): string {
  return status.replace(/^4/, '5');
}
