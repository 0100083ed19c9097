/**
 * Carries out what was queued: attempts webhooks, forwarding and bounces, and decides what follows
 * from a last failure. What follows is written in the transaction that ends the delivery, so it is
 * done once: a message is stored, or its sender is told, or both.
 */
import { randomUUID } from 'node:crypto';
import type { Accounts } from '../accounts/accounts.ts';
import type { Bodies, StoredBody } from '../bodies/bodies.ts';
import type { MailboxChange } from '../changes/changes.ts';
import type { Queries } from '../database/database.ts';
import type { Domains } from '../domains/domains.ts';
import type { Mailstore } from '../mailstore/mailstore.ts';
import {
  buildDsn,
  type Header,
  type MessageSender,
  prepareForward,
  readHeader,
  type SendOutcome,
} from '../outbound/outbound.ts';
import type { DeliveryError, Job, NewDelivery, Outcome, Queue, Settled } from '../queue/queue.ts';
import { type WebhookSender, webhookDelays } from '../webhooks/webhooks.ts';
import {
  BOUNCE,
  type BouncePayload,
  FORWARD,
  type ForwardPayload,
  mailDestination,
  STORE,
  type StorePayload,
  WEBHOOK,
  type WebhookPayload,
} from './outgoing-mail.ts';

export interface CarryOutOptions {
  readonly queue: Queue;
  readonly bodies: Bodies;
  readonly domains: Pick<Domains, 'findDkimKey'>;
  readonly accounts: Pick<Accounts, 'stillThere'>;
  readonly mailstore: Pick<Mailstore, 'appendWithin'>;
  /** Announces a change that is committed. */
  readonly publish: (change: MailboxChange) => void;
  readonly webhooks: WebhookSender;
  readonly sender: MessageSender;
  /** Our host name: who reports in a DSN. */
  readonly hostname: string;
  readonly log: { error(fields: object, message: string): void };
  /** Milliseconds since 1970. */
  readonly now?: () => number;
}

/** Seconds between attempts of mail: five days in all (RFC 5321 section 4.5.4.1). */
const MAIL_DELAYS = [
  60,
  5 * 60,
  15 * 60,
  30 * 60,
  3600,
  2 * 3600,
  ...Array.from({ length: 29 }, () => 4 * 3600),
];

/**
 * Sessions at a time: fewer in all than the sender has room for, so that whose turn it is remains
 * with the queue. A far end may keep a session busy for minutes before it fails, and takes it amiss
 * if there are many.
 */
const SESSIONS = { perDestination: 16, forward: 512, bounce: 256 };

/** Starts the workers; `queue.stop` ends them. */
export function carryOut(options: CarryOutOptions): void {
  const { queue } = options;
  const courier = new Courier(options);
  queue.work({
    kind: WEBHOOK,
    delays: webhookDelays,
    attempt: (job, signal) => courier.attemptWebhook(job, signal),
    onOutcome: (tx, job, settled) => courier.afterWebhook(tx, job, settled),
  });
  queue.work({
    kind: STORE,
    delays: [],
    attempt: async () => ({ result: 'delivered' }),
    onOutcome: (tx, job) => courier.afterStore(tx, job),
  });
  queue.work({
    kind: FORWARD,
    concurrency: SESSIONS.forward,
    perDestination: SESSIONS.perDestination,
    delays: MAIL_DELAYS,
    attempt: (job, signal) => courier.attemptForward(job, signal),
    onOutcome: (tx, job, settled) => courier.afterForward(tx, job, settled),
  });
  queue.work({
    kind: BOUNCE,
    concurrency: SESSIONS.bounce,
    perDestination: SESSIONS.perDestination,
    delays: MAIL_DELAYS,
    attempt: (job, signal) => courier.attemptBounce(job, signal),
  });
}

const INTERNAL: SendOutcome = {
  result: 'temporary',
  error: { enhancedStatus: '4.3.0', text: 'internal error' },
};

/** What a receiver of webhooks says is for the domain's owner: it is no SMTP reply, nor public. */
const NOT_PASSED_ON: DeliveryError = { text: 'The message could not be passed on.' };

/** A DSN that is written but not yet queued. */
interface PreparedDsn {
  readonly source: Buffer;
  readonly payload: BouncePayload;
}

class Courier {
  readonly #options: CarryOutOptions;
  readonly #now: () => number;
  /** DSNs, written after the attempt and before the transaction that queues them. */
  readonly #dsns = new WeakMap<Job, PreparedDsn>();

  constructor(options: CarryOutOptions) {
    this.#options = options;
    this.#now = options.now ?? Date.now;
  }

  async attemptWebhook(job: Job, signal: AbortSignal): Promise<Outcome> {
    const payload = readPayload<WebhookPayload>(job);
    const { url, secret, body } = payload;
    const request = { url, id: job.publicId, body, ...(secret !== undefined && { secret }) };
    const outcome = await this.#options.webhooks.attempt(request, signal);
    if (endsWithout(job, outcome)) {
      const recipients = [...payload.strangers, ...(await this.#findDeparted(payload))];
      await this.#prepareDsn(job, NOT_PASSED_ON, recipients, {
        ...payload,
        enhancedStatus: '5.4.0',
      });
    }
    return outcome;
  }

  /**
   * Accounts that the message was to be stored for at last, and that are gone by now.
   * `webhook_then_store` had its mailboxes long before.
   */
  async #findDeparted({ mode, users }: WebhookPayload): Promise<string[]> {
    if (mode !== 'webhook' || users.length === 0) return [];
    const ids = users.map(({ accountId }) => accountId);
    const present = await this.#options.accounts.stillThere(ids);
    return users.flatMap(({ accountId, address }) => (present.has(accountId) ? [] : address));
  }

  async afterWebhook(
    tx: Queries,
    job: Job,
    { outcome, status }: Settled,
  ): Promise<(() => void) | undefined> {
    if (job.isReplay) return undefined;
    const payload = readPayload<WebhookPayload>(job);
    const failed = status === 'failed';
    const stores =
      payload.mode === 'webhook' ? failed : await this.#isStillToStore(tx, job, payload);
    const changes = stores ? await this.#store(tx, job, payload) : [];
    const bounced = failed && outcome.result !== 'delivered' && (await this.#bounce(tx, job));
    return () => {
      for (const change of changes) this.#options.publish(change);
      if (bounced) this.#options.queue.wake([bounced]);
    };
  }

  /** After the first attempt of `webhook_then_store`, unless its late store was quicker. */
  async #isStillToStore(tx: Queries, job: Job, { storeId }: WebhookPayload): Promise<boolean> {
    if (!job.isFirst || storeId === undefined) return false;
    return this.#options.queue.withdraw(tx, storeId);
  }

  async afterStore(tx: Queries, job: Job): Promise<(() => void) | undefined> {
    if (job.isReplay) return undefined;
    const changes = await this.#store(tx, job, readPayload<StorePayload>(job));
    return () => {
      for (const change of changes) this.#options.publish(change);
    };
  }

  async attemptForward(job: Job, signal: AbortSignal): Promise<Outcome> {
    const payload = readPayload<ForwardPayload>(job);
    const sent = await this.#forward(job, payload, signal).catch((error: unknown) => {
      // After five days the sender is to be told, whatever it is that keeps us from sending.
      if (!job.isLast) throw error;
      this.#options.log.error({ err: error, id: job.id }, 'the last attempt to forward threw');
      return INTERNAL;
    });
    const outcome = toOutcome(sent);
    if (endsWithout(job, outcome)) {
      await this.#prepareDsn(job, outcome.error, payload.recipients, {
        ...payload,
        forwardedTo: payload.to,
        ...(sent.result !== 'delivered' && { enhancedStatus: sent.error.enhancedStatus }),
      });
    }
    return outcome;
  }

  async #forward(job: Job, payload: ForwardPayload, signal: AbortSignal): Promise<SendOutcome> {
    const body = await this.#findBody(job);
    const dkimKey = await this.#options.domains.findDkimKey(job.domainId);
    const [address = `postmaster@${payload.domain}`] = payload.recipients;
    const prepared = await prepareForward({
      open: () => this.#options.bodies.read(body),
      address,
      domain: payload.domain,
      dkimKey,
      verdict: payload.verdict,
      now: this.#now(),
    });
    const message = {
      from: payload.from,
      to: payload.to,
      size: prepared.size,
      eightBit: prepared.eightBit,
      smtpUtf8: payload.smtpUtf8 && prepared.eightBitHeader,
      open: prepared.open,
    };
    return this.#options.sender.sendMessage(message, signal);
  }

  async afterForward(
    tx: Queries,
    job: Job,
    { status }: Settled,
  ): Promise<(() => void) | undefined> {
    if (status !== 'failed' || job.isReplay) return undefined;
    const bounced = await this.#bounce(tx, job);
    return bounced ? () => this.#options.queue.wake([bounced]) : undefined;
  }

  /** A bounce goes as it was written; one from elsewhere, on its way back, as it came. */
  async attemptBounce(job: Job, signal: AbortSignal): Promise<Outcome> {
    const { to, domain, smtpUtf8 } = readPayload<BouncePayload>(job);
    const body = await this.#findBody(job);
    const prepared = await prepareForward({
      open: () => this.#options.bodies.read(body),
      address: `postmaster@${domain}`,
      domain,
      verdict: { policy: 'none', dkimAligned: true },
      now: this.#now(),
    });
    const { size, eightBit, eightBitHeader, open } = prepared;
    const message = { from: '', to, size, eightBit, smtpUtf8: smtpUtf8 && eightBitHeader, open };
    return toOutcome(await this.#options.sender.sendMessage(message, signal));
  }

  async #store(tx: Queries, job: Job, payload: StorePayload): Promise<MailboxChange[]> {
    const { parsed, users, mailbox, receivedAt } = payload;
    const targets = users.map((user) => ({ user, mailbox, internalDate: receivedAt }));
    const message = { parsed, bodyId: job.bodyId };
    const appended = await this.#options.mailstore.appendWithin(tx, message, targets);
    return appended.map(({ change }) => change);
  }

  /** Writes the DSN of a delivery that has come to its end without success. */
  async #prepareDsn(
    job: Job,
    error: DeliveryError,
    recipients: readonly string[],
    about: Bounced,
  ): Promise<void> {
    if (about.bounceTo === undefined || recipients.length === 0) return;
    const header = await this.#readHeader(job);
    this.#dsns.set(job, await this.#writeDsn(job, error, recipients, about, header));
  }

  /** At the very end a source that cannot be read any more keeps nobody from being told. */
  async #readHeader(job: Job): Promise<Header> {
    try {
      return await readHeader(this.#options.bodies.read(await this.#findBody(job)));
    } catch (error) {
      if (!job.isLast) throw error;
      this.#options.log.error({ err: error, id: job.id }, 'a DSN goes without the header');
      return { fields: [], bodyStart: 0 };
    }
  }

  async #writeDsn(
    job: Job,
    error: DeliveryError,
    recipients: readonly string[],
    { domain, bounceTo = '', receivedAt, forwardedTo, enhancedStatus = '5.0.0' }: Bounced,
    header: Header,
  ): Promise<PreparedDsn> {
    const now = this.#now();
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

  /** Queues the DSN that was written for this delivery, if any. */
  async #bounce(tx: Queries, job: Job): Promise<NewDelivery | undefined> {
    const dsn = this.#dsns.get(job);
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

  async #findBody(job: Job): Promise<StoredBody> {
    const body = await this.#options.bodies.find(job.bodyId);
    if (!body) throw new Error(`delivery ${job.id} has no body`);
    return body;
  }
}

/** What a DSN is written from, besides the failure. */
interface Bounced {
  /** The domain that the message came to. */
  readonly domain: string;
  readonly bounceTo?: string;
  readonly receivedAt: number;
  readonly forwardedTo?: string;
  readonly enhancedStatus?: string;
}

/** Whether a delivery ends with this attempt, and nobody has been told so yet. */
function endsWithout(
  job: Job,
  outcome: Outcome,
): outcome is Exclude<Outcome, { readonly result: 'delivered' }> {
  if (job.isReplay || outcome.result === 'delivered') return false;
  return outcome.result === 'permanent' || job.isLast;
}

/** The payload is what we wrote ourselves when the message was accepted. */
function readPayload<Payload>(job: Job): Payload {
  return JSON.parse(job.payload) as Payload;
}

function toOutcome(sent: SendOutcome): Outcome {
  if (sent.result === 'delivered') return { result: 'delivered' };
  const { status, text } = sent.error;
  return { result: sent.result, error: { text, ...(status !== undefined && { status }) } };
}

/** After the last attempt a temporary failure is final (RFC 3464 section 2.3.4). */
function permanentStatus(status: string): string {
  return status.replace(/^4/, '5');
}
