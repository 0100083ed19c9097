/**
 * Carries out what was queued: attempts webhooks, forwarding and bounces, and decides what follows from a
 * failed last attempt. The transaction that ends the delivery also writes what follows, so that it happens
 * once: the message is stored, or a bounce is queued, or both.
 */

import { describeStored } from '../../mailboxes/mailstore/mailstore.ts';
import type { Database, Queries } from '../../platform/database/database.ts';
import type { EpochMs } from '../../platform/time/time.ts';
import { findAccountsThere } from '../../tenants/accounts/accounts.ts';
import type { Domains } from '../../tenants/domains/domains.ts';
import type { Usage } from '../../tenants/usage/usage.ts';
import {
  type MessageSender,
  mailDelays,
  mailDestination,
  prepareForward,
  type SendOutcome,
  toAttempted,
} from '../outbound/outbound.ts';
import {
  type Attempted,
  type AttemptOutcome,
  type DeliveryError,
  type Job,
  Postponed,
  type Queue,
  type Settled,
  type Slot,
} from '../queue/queue.ts';
import { type WebhookSender, webhookDelays } from '../webhooks/webhooks.ts';
import { Bounces, type BouncesOptions, type PreparedDsn } from './bounces.ts';
import {
  BOUNCE,
  type BouncePayload,
  bouncePayloads,
  FORWARD,
  type ForwardPayload,
  forwardPayloads,
  MAILBOX,
  type MailboxPayload,
  mailboxPayloads,
  WEBHOOK,
  type WebhookPayload,
  webhookPayloads,
} from './kinds.ts';
import { type MailboxStorage, mailToStore, type PreparedStoring } from './mailbox-storage.ts';

export interface CarryOutOptions extends Omit<BouncesOptions, 'now'> {
  readonly database: Database;
  readonly queue: Queue;
  readonly domains: Pick<Domains, 'findDkimKey' | 'webhookSecrets'>;
  readonly storage: MailboxStorage;
  readonly webhooks: WebhookSender;
  readonly sender: Pick<MessageSender, 'sendMessage'>;
  /** Counts bounces of forwarded mail. */
  readonly usage: Pick<Usage, 'count'>;
  readonly now?: () => EpochMs;
}

/**
 * Sessions at a time. In all they are fewer than the `MessageSender` allows, so that the queue alone decides which
 * delivery is next. A far end may keep a session busy for minutes before it fails, and many hosts object to
 * many sessions at once.
 */
const SESSIONS = { perDestination: 16, forward: 512, bounce: 256 };

/** Half of the connections to the mail server: the others are for mail that comes in. */
const MAILBOXES_AT_A_TIME = 10;

/** Starts the workers; `queue.stop` ends them. */
export function carryOut(options: CarryOutOptions): void {
  const { queue } = options;
  const attempts = new DeliveryAttempts(options);
  queue.work<WebhookPayload, Prepared>({
    kind: WEBHOOK,
    payloads: webhookPayloads,
    delays: webhookDelays,
    attempt: (job, signal) => attempts.attemptWebhook(job, signal),
    onOutcome: (...ended) => attempts.afterWebhook(...ended),
    onLate: (job) => attempts.storeLate(job),
  });
  queue.work<ForwardPayload, Prepared>({
    kind: FORWARD,
    payloads: forwardPayloads,
    concurrency: SESSIONS.forward,
    perDestination: SESSIONS.perDestination,
    delays: mailDelays,
    attempt: (...begun) => attempts.attemptForward(...begun),
    onOutcome: (...ended) => attempts.afterForward(...ended),
  });
  queue.work<MailboxPayload, Prepared>({
    kind: MAILBOX,
    payloads: mailboxPayloads,
    concurrency: MAILBOXES_AT_A_TIME,
    delays: mailDelays,
    attempt: (job, signal) => attempts.attemptMailbox(job, signal),
    onOutcome: (...ended) => attempts.afterMailbox(...ended),
  });
  queue.work<BouncePayload, Prepared>({
    kind: BOUNCE,
    payloads: bouncePayloads,
    concurrency: SESSIONS.bounce,
    perDestination: SESSIONS.perDestination,
    delays: mailDelays,
    attempt: (...begun) => attempts.attemptBounce(...begun),
  });
}

/** What an attempt prepared, to be written in the transaction that ends it. */
interface Prepared {
  /** The DSN for the sender, where the delivery failed for good. */
  readonly dsn?: PreparedDsn | undefined;
  /** The message, where it will be stored. */
  readonly storing?: PreparedStoring | undefined;
}

type AfterCommit = (() => void) | undefined;

const INTERNAL: SendOutcome = {
  result: 'temporary',
  error: { enhancedStatus: '4.3.0', text: 'internal error' },
};

/** What a webhook receiver answered is for the owner of the domain: it is no SMTP reply, and not public. */
const NOT_PASSED_ON: DeliveryError = { text: 'The message could not be passed on.' };

class DeliveryAttempts {
  readonly #options: CarryOutOptions;
  readonly #now: () => number;
  readonly #bounces: Bounces;

  constructor(options: CarryOutOptions) {
    this.#options = options;
    const now = options.now ?? Date.now;
    this.#now = now;
    this.#bounces = new Bounces({ ...options, now });
  }

  async attemptWebhook(
    job: Job<WebhookPayload>,
    signal: AbortSignal,
  ): Promise<Attempted<Prepared>> {
    const { payload } = job;
    const { url, secret, body, mode, users } = payload;
    const stores = (when: WebhookPayload['mode']) => mode === when && users.length > 0;
    // Read the message before the request: if it cannot be read, the attempt fails before the receiver gets anything.
    const early =
      job.isFirst && stores('webhook_then_store') ? await this.#prepareToStore(job) : undefined;
    // A message keeps the secret that was valid when it was accepted; a receiver may know only a newer one.
    const known = await this.#options.domains.webhookSecrets(job.domainId, url);
    const secrets = [...new Set([...known, ...(secret ? [secret] : [])])];
    const request = { url, id: job.publicId, body, secrets };
    const outcome = await this.#options.webhooks.attempt(request, signal);
    const inLine = early?.inLine;
    if (!endsWithout(job, outcome)) return { ...outcome, inLine, prepared: { storing: early } };
    const recipients = [...payload.strangers, ...(await this.#findDeparted(payload))];
    const about = { domain: payload.domain, origin: payload.origin, enhancedStatus: '5.4.0' };
    const dsn = await this.#bounces.prepare(job, NOT_PASSED_ON, recipients, about);
    const storing = stores('webhook') ? await this.#prepareToStore(job) : early;
    return { ...outcome, inLine: storing?.inLine, prepared: { dsn, storing } };
  }

  /**
   * Accounts that were deleted before the message could be stored for them after the last attempt.
   * `webhook_then_store` stored it long before.
   */
  async #findDeparted({ mode, users }: WebhookPayload): Promise<string[]> {
    if (mode !== 'webhook' || users.length === 0) return [];
    const ids = users.map(({ accountId }) => accountId);
    const present = await findAccountsThere(this.#options.database.read, ids);
    return users.flatMap(({ accountId, address }) => (present.has(accountId) ? [] : address));
  }

  async afterWebhook(
    tx: Queries,
    job: Job<WebhookPayload>,
    { status }: Settled,
    { dsn, storing }: Prepared = {},
  ): Promise<AfterCommit> {
    if (job.isReplay) return undefined;
    const { queue } = this.#options;
    const failed = status === 'failed';
    const { mode, users } = job.payload;
    // `webhook_then_store` stores after the first attempt, unless the message was already stored because that was late.
    const stores =
      mode === 'webhook'
        ? failed && users.length > 0
        : job.isFirst && (await queue.cancelLate(tx, job.id));
    const tell = stores ? await this.#store(tx, job, storing) : undefined;
    const bounced = failed && dsn && (await this.#bounces.enqueue(tx, job, dsn));
    return () => {
      tell?.();
      if (bounced) queue.wake([bounced]);
    };
  }

  /** Stores the message because the first attempt of its webhook is late. */
  async storeLate(job: Job<WebhookPayload>): Promise<(tx: Queries) => Promise<AfterCommit>> {
    const storing = await this.#prepareToStore(job);
    return (tx) => this.#store(tx, job, storing);
  }

  async attemptForward(
    job: Job<ForwardPayload>,
    signal: AbortSignal,
    slot: Slot,
  ): Promise<Attempted<Prepared>> {
    const { payload } = job;
    const sent = await this.#forward(job, signal, slot).catch((error: unknown) => {
      // After five days the sender gets a bounce, also where the reason is a local error.
      if (!job.isLast || error instanceof Postponed) throw error;
      this.#options.log.error(
        { err: error, id: job.id, mailId: job.mailId },
        'the last attempt to forward a message failed unexpectedly: it counts as a temporary failure',
      );
      return INTERNAL;
    });
    const outcome = toAttempted(sent);
    if (sent.result === 'delivered' || !endsWithout(job, outcome)) return outcome;
    const { enhancedStatus, ...error } = sent.error;
    const dsn = await this.#bounces.prepare(job, error, payload.recipients, {
      domain: payload.domain,
      origin: payload.origin,
      forwardedTo: payload.to,
      enhancedStatus,
    });
    return { ...outcome, prepared: { dsn } };
  }

  async #forward(job: Job<ForwardPayload>, signal: AbortSignal, slot: Slot): Promise<SendOutcome> {
    const { domain, recipients, verdict, from, to, smtpUtf8 } = job.payload;
    const [address = `postmaster@${domain}`] = recipients;
    const dkimKey = await this.#options.domains.findDkimKey(job.domainId);
    const forward = { address, domain, dkimKey, verdict };
    return this.#passOn(job, forward, { from, to, smtpUtf8, slot }, signal);
  }

  /** Sends a message as it came, but for what is added on its way. */
  async #passOn(
    { bodyId }: Job,
    forward: Omit<Parameters<typeof prepareForward>[0], 'open' | 'now'>,
    envelope: Pick<ForwardPayload, 'from' | 'to' | 'smtpUtf8'> & { readonly slot: Slot },
    signal: AbortSignal,
  ): Promise<SendOutcome> {
    const { bodies, sender } = this.#options;
    const body = await bodies.get(bodyId);
    const open = () => bodies.read(body);
    const message = await prepareForward({ ...forward, open, now: this.#now() });
    const smtpUtf8 = envelope.smtpUtf8 && message.utf8Header;
    return sender.sendMessage({ ...envelope, ...message, smtpUtf8 }, signal);
  }

  async afterForward(
    tx: Queries,
    job: Job<ForwardPayload>,
    settled: Settled,
    prepared: Prepared | undefined,
  ): Promise<AfterCommit> {
    if (settled.status === 'failed' && !job.isReplay) {
      await this.#options.usage.count(tx, [{ domainId: job.domainId, bounced: 1 }]);
    }
    return this.#bounce(tx, job, settled, prepared);
  }

  /** After the last attempt the sender gets a bounce. */
  async #bounce(
    tx: Queries,
    job: Job,
    { status }: Settled,
    { dsn }: Prepared = {},
  ): Promise<AfterCommit> {
    if (status !== 'failed' || !dsn) return undefined;
    const bounced = await this.#bounces.enqueue(tx, job, dsn);
    return () => this.#options.queue.wake([bounced]);
  }

  /** Sends a bounce: one of our own as it was written, one from elsewhere, on its way back, as it came. */
  async attemptBounce(
    job: Job<BouncePayload>,
    signal: AbortSignal,
    slot: Slot,
  ): Promise<AttemptOutcome> {
    const { to, domain, smtpUtf8 } = job.payload;
    const verdict = { policy: 'none', dkimAligned: true } as const;
    const forward = { address: `postmaster@${domain}`, domain, verdict };
    return toAttempted(await this.#passOn(job, forward, { from: '', to, smtpUtf8, slot }, signal));
  }

  async attemptMailbox(
    job: Job<MailboxPayload>,
    signal: AbortSignal,
  ): Promise<Attempted<Prepared>> {
    const { recipient, origin } = job.payload;
    const attempted = await this.#options.storage.attempt(job, signal);
    const outcome = toAttempted(attempted);
    if (attempted.result === 'delivered') {
      const { storing } = attempted;
      return { ...outcome, inLine: storing?.inLine, prepared: { storing } };
    }
    if (!endsWithout(job, outcome) || attempted.isGone) return outcome;
    const { enhancedStatus, ...error } = attempted.error;
    const about = { domain: mailDestination(recipient), origin, enhancedStatus };
    const dsn = await this.#bounces.prepare(job, error, [recipient], about);
    return { ...outcome, prepared: { dsn } };
  }

  async afterMailbox(
    tx: Queries,
    job: Job<MailboxPayload>,
    settled: Settled,
    prepared: Prepared = {},
  ): Promise<AfterCommit> {
    const { storing } = prepared;
    if (settled.status === 'delivered' && storing) return this.#store(tx, job, storing);
    return this.#bounce(tx, job, settled, prepared);
  }

  /** Prepares to store a message whose webhook may fail. */
  async #prepareToStore({ bodyId, payload }: Job<WebhookPayload>): Promise<PreparedStoring> {
    const { bodies, storage } = this.#options;
    const { origin, users, mailbox } = payload;
    const body = await bodies.get(bodyId);
    const targets = users.map(({ recipient, ...user }) => {
      return { user, recipient, mailbox, internalDate: origin.receivedAt };
    });
    const mail = mailToStore(origin, body, () => describeStored(bodies, body));
    return storage.prepare(mail, targets, { answers: 'none' });
  }

  /** @returns what publishes the change after the commit */
  async #store(
    tx: Queries,
    { id, bodyId }: Job,
    storing: PreparedStoring | undefined,
  ): Promise<AfterCommit> {
    if (!storing) throw new Error('the attempt did not read what is to be stored');
    const { queue, trace } = this.#options;
    const { locations, traced, afterCommit } = await storing.commit(tx, async () => bodyId);
    if (locations) await queue.noteStored(tx, id, locations);
    await trace?.write(tx, traced);
    return afterCommit;
  }
}

/** Whether a delivery ends with this attempt, and no bounce was sent for it yet. */
function endsWithout(
  job: Job,
  outcome: AttemptOutcome,
): outcome is Extract<AttemptOutcome, { readonly result: 'temporary' | 'permanent' }> {
  if (job.isReplay) return false;
  return outcome.result === 'permanent' || (outcome.result === 'temporary' && job.isLast);
}
