/**
 * Carries out what was queued: attempts webhooks, forwarding and bounces, and decides what follows
 * from a last failure. What follows is written in the transaction that ends the delivery, so it is
 * done once: a message is stored, or its sender is told, or both.
 */
import type { Accounts } from '../accounts/accounts.ts';
import type { Bodies, StoredBody } from '../bodies/bodies.ts';
import type { MailboxChange } from '../changes/changes.ts';
import type { Queries } from '../database/database.ts';
import type { Domains } from '../domains/domains.ts';
import {
  type InboundDelivery,
  MAILBOX,
  type MailboxPayload,
  type MailboxResult,
  type Mailstore,
  mailboxDestination,
} from '../mailstore/mailstore.ts';
import { type MessageSender, prepareForward, type SendOutcome } from '../outbound/outbound.ts';
import type { DeliveryError, Job, Outcome, Queue, Settled } from '../queue/queue.ts';
import { type WebhookSender, webhookDelays } from '../webhooks/webhooks.ts';
import { Bounces, type BouncesLog } from './bounces.ts';
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
  /** Where mailboxes are a mail server's: attempts what is queued for them. */
  readonly mailServer?: Pick<InboundDelivery, 'attempt'> | undefined;
  /** Announces a change that is committed. */
  readonly publish: (change: MailboxChange) => void;
  readonly webhooks: WebhookSender;
  readonly sender: MessageSender;
  /** Our host name: who reports in a DSN. */
  readonly hostname: string;
  readonly log: BouncesLog;
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

/** Half of the connections to the mail server: mail that comes in now has the others. */
const MAILBOXES_AT_A_TIME = 10;

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
    kind: MAILBOX,
    concurrency: MAILBOXES_AT_A_TIME,
    delays: MAIL_DELAYS,
    attempt: (job, signal) => courier.attemptMailbox(job, signal),
    onOutcome: (tx, job, settled) => courier.afterMailbox(tx, job, settled),
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

class Courier {
  readonly #options: CarryOutOptions;
  readonly #now: () => number;
  readonly #bounces: Bounces;

  constructor(options: CarryOutOptions) {
    this.#options = options;
    this.#now = options.now ?? Date.now;
    this.#bounces = new Bounces({ ...options, now: this.#now });
  }

  async attemptWebhook(job: Job, signal: AbortSignal): Promise<Outcome> {
    const payload = readPayload<WebhookPayload>(job);
    const { url, secret, body } = payload;
    const request = { url, id: job.publicId, body, ...(secret !== undefined && { secret }) };
    const outcome = await this.#options.webhooks.attempt(request, signal);
    if (endsWithout(job, outcome)) {
      const recipients = [...payload.strangers, ...(await this.#findDeparted(payload))];
      const about = { ...payload, enhancedStatus: '5.4.0' };
      await this.#bounces.prepare(job, NOT_PASSED_ON, recipients, about);
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
    const tell = stores ? await this.#store(tx, job, payload) : () => {};
    const bounced =
      failed && outcome.result !== 'delivered' && (await this.#bounces.enqueue(tx, job));
    return () => {
      tell();
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
    return this.#store(tx, job, readPayload<StorePayload>(job));
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
      await this.#bounces.prepare(job, outcome.error, payload.recipients, {
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
    const bounced = await this.#bounces.enqueue(tx, job);
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

  /**
   * Without a mail server, what was queued for one goes into our own mailboxes: also what failed
   * there before, when an operator tries it again.
   */
  async attemptMailbox(job: Job, signal: AbortSignal): Promise<Outcome> {
    const { mailServer } = this.#options;
    if (!mailServer) return { result: 'delivered' };
    const payload = readPayload<MailboxPayload>(job);
    const { recipient, origin } = payload;
    const attempted = await mailServer.attempt(job, payload, signal);
    const outcome = toOutcome(attempted);
    const isGone = attempted.result !== 'delivered' && attempted.isGone === true;
    if (endsWithout(job, outcome) && origin && !isGone) {
      await this.#bounces.prepare(job, outcome.error, [recipient], {
        domain: mailDestination(recipient),
        ...origin,
        ...(attempted.result !== 'delivered' && { enhancedStatus: attempted.error.enhancedStatus }),
      });
    }
    return outcome;
  }

  async afterMailbox(
    tx: Queries,
    job: Job,
    { status }: Settled,
  ): Promise<(() => void) | undefined> {
    if (status === 'delivered' && !this.#options.mailServer) {
      const { user, recipient, mailbox, parsed, origin } = readPayload<MailboxPayload>(job);
      const receivedAt = origin?.receivedAt ?? job.createdAt;
      const users = [{ ...user, recipient }];
      return this.#store(tx, job, {
        users,
        mailbox,
        parsed,
        receivedAt,
        ...(origin && { origin }),
      });
    }
    if (status !== 'failed' || job.isReplay) return undefined;
    const bounced = await this.#bounces.enqueue(tx, job);
    return bounced ? () => this.#options.queue.wake([bounced]) : undefined;
  }

  /** @returns what tells of it once it is committed */
  async #store(tx: Queries, job: Job, payload: StorePayload): Promise<() => void> {
    const { mailstore, mailServer, queue, publish } = this.#options;
    const { parsed, users, mailbox, origin, receivedAt } = payload;
    const targets = users.map(({ recipient, ...user }) => ({
      user,
      mailbox,
      internalDate: receivedAt,
      ...(recipient !== undefined && { recipient }),
    }));
    const appended = await mailstore.appendWithin(
      tx,
      { parsed, bodyId: job.bodyId, origin },
      targets,
    );
    return () => {
      for (const { change } of appended) publish(change);
      // A mail server's mailboxes cannot be written to within a transaction: it was queued for them.
      if (mailServer) {
        queue.wake(users.map((user) => ({ kind: MAILBOX, destination: mailboxDestination(user) })));
      }
    };
  }

  async #findBody(job: Job): Promise<StoredBody> {
    const body = await this.#options.bodies.find(job.bodyId);
    if (!body) throw new Error(`delivery ${job.id} has no body`);
    return body;
  }
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

function toOutcome(sent: SendOutcome | MailboxResult): Outcome {
  if (sent.result === 'delivered') return { result: 'delivered' };
  const { status, text } = sent.error;
  return { result: sent.result, error: { text, ...(status !== undefined && { status }) } };
}
