/**
 * Mailboxes on a mail server that the operator runs. Nothing of a message is kept here but what the
 * server did not take: a delivery of kind `mailbox` for each such recipient, with the body.
 *
 * Crashes:
 * - Before the server answers the message's end, nothing was accepted; the sender still has it.
 * - After that and before our own answer, the sender has it as well and sends it again: a duplicate,
 *   the one that SMTP has wherever mail is passed on (RFC 1047). Where nothing is to be written here,
 *   there is no more in between than the answer; else one transaction.
 * - What is queued is attempted at least once. Wherever an earlier attempt may have come through (the
 *   process died, the connection broke after the message's end), the mailbox is looked through first
 *   for the id in our Received field.
 */
import { findAccountStates, findAccounts } from '../accounts/accounts.ts';
import type { Bodies } from '../bodies/bodies.ts';
import type { Changes } from '../changes/changes.ts';
import type { Database, Queries } from '../database/database.ts';
import { Refusal } from '../errors/errors.ts';
import type {
  AppendTarget,
  MailboxFailure,
  MailboxResult,
  MailServer,
  ServerMail,
} from '../mailstore/mailstore.ts';
import type { Job, NewDelivery, Queue } from '../queue/queue.ts';
import type { Trace, TraceEvent } from '../trace/trace.ts';
import {
  FIRST_RETRY_MS,
  MAILBOX,
  type MailboxPayload,
  type MailOrigin,
  mailboxPayloads,
} from './kinds.ts';
import { queuedEvent } from './record-mail.ts';

export interface ServerMailboxesOptions {
  readonly database: Database;
  readonly bodies: Bodies;
  readonly queue: Pick<Queue, 'enqueue'>;
  readonly trace?: Pick<Trace, 'write'> | undefined;
  readonly mailServer: MailServer;
  /** Publishes a change. */
  readonly changes: Pick<Changes, 'publish'>;
  readonly log: { warn(fields: object, message: string): void };
  /** Milliseconds since 1970. */
  readonly now: () => number;
}

/** An account's mailbox, and the address that the sender wrote to. */
export interface MailboxTarget extends AppendTarget {
  readonly recipient: string;
}

type FailedResult = Exclude<MailboxResult, { readonly result: 'delivered' }>;

/** A target that did not get the message. */
export interface Left {
  readonly target: MailboxTarget;
  readonly failure: FailedResult;
}

/** How an attempt for one mailbox ended; `isGone` where the account was deleted: nobody is told then. */
export type MailboxAttempt = MailboxResult & { readonly isGone?: true };

/** What is queued for a target. */
interface QueuedTarget {
  readonly target: Pick<MailboxTarget, 'user' | 'mailbox' | 'recipient'>;
  /** How the attempt ended that was made before. */
  readonly failure?: FailedResult;
}

/**
 * So soon after it was queued, nobody else can have begun a first attempt and be done with it: a
 * worker that stops has 5 s for it, the lease of one that dies runs longer.
 */
const FIRST_FOR_SURE_MS = 5_000;
/** Attempts that are put off while the mailbox cannot be looked through. */
const PUT_OFF_MAX = 4;

export class ServerMailboxes {
  readonly #options: ServerMailboxesOptions;
  readonly #startedAt: number;

  constructor(options: ServerMailboxesOptions) {
    this.#options = options;
    this.#startedAt = options.now();
  }

  /**
   * Makes one attempt for each target, and tells the apps of those that got the message.
   *
   * @returns the targets that did not get it
   */
  async deliver<Target extends AppendTarget>(
    mail: ServerMail,
    targets: readonly Target[],
    signal?: AbortSignal,
  ): Promise<{ readonly target: Target; readonly failure: FailedResult }[]> {
    const { mailServer, log } = this.#options;
    const results = await mailServer.deliver(mail, targets, signal);
    const left = targets.flatMap((target, index) => {
      const result = results[index] ?? ownFailure('temporary', '4.5.0', 'no result');
      if (result.result !== 'delivered') return [{ target, failure: result }];
      this.#announce(target);
      return [];
    });
    const byText = Object.groupBy(left, ({ failure }) => failure.error.text);
    for (const [text, some = []] of Object.entries(byText)) {
      const status = some[0]?.failure.error.status;
      log.warn(
        { text, status, recipients: some.length },
        'the mail server did not accept a message',
      );
    }
    return left;
  }

  /**
   * Queues a message for mailboxes. Targets whose account is gone are passed over.
   *
   * @returns what the queue is to be woken for
   */
  async enqueue(
    tx: Queries,
    targets: readonly QueuedTarget[],
    { bodyId, origin }: { readonly bodyId: number; readonly origin: MailOrigin },
  ): Promise<NewDelivery[]> {
    const ids = targets.map(({ target }) => target.user.accountId);
    const states = await findAccountStates(tx, ids);
    const rows: NewDelivery[] = [];
    const traced: TraceEvent[] = [];
    for (const { target, failure } of targets) {
      const { user, mailbox, recipient } = target;
      const state = states.get(user.accountId);
      if (!state) continue;
      const { accountId, address } = user;
      const refused = failure?.result === 'permanent' && { refused: failure.error };
      const row = {
        kind: MAILBOX,
        domainId: state.domainId,
        bodyId,
        // Each mailbox is a receiver of its own: one over its quota holds up no other.
        destination: address,
        mailId: origin.id,
        recipients: [recipient],
        payload: mailboxPayloads.write({
          user: { accountId, address },
          mailbox,
          recipient,
          origin,
          ...refused,
        }),
        ...(failure?.result === 'temporary' && {
          tried: { error: failure.error, retryMs: FIRST_RETRY_MS },
        }),
      };
      const deliveryId = await this.#options.queue.enqueue(tx, row);
      rows.push(row);
      const detail = failure?.error.text;
      traced.push(queuedEvent(row, deliveryId, detail));
    }
    await this.#options.trace?.write(tx, traced);
    return rows;
  }

  /** Makes an attempt for a delivery of kind `mailbox`. */
  async attempt(job: Job<MailboxPayload>, signal: AbortSignal): Promise<MailboxAttempt> {
    const { database, bodies } = this.#options;
    const { user, mailbox, refused, origin } = job.payload;
    if (refused && job.isFirst) return { result: 'permanent', error: refused };
    const states = await findAccountStates(database.read, [user.accountId]);
    const state = states.get(user.accountId);
    if (!state) {
      return { ...ownFailure('permanent', '5.1.1', 'the account was deleted'), isGone: true };
    }
    // The server knows addresses alone: the domain may be another claim's by now, with an account of
    // the same address, whose mail this is not. Bounced at the end, or delivered when it is back.
    const holders = await findAccounts(database, [user.address]);
    if (holders.get(user.address) !== user.accountId) {
      return ownFailure('temporary', '4.2.1', 'the address is not of this account at present');
    }
    const known = await this.#lookFor(job);
    if (known) return known;
    const body = await bodies.find(job.bodyId);
    if (!body) throw new Error(`delivery ${job.id} has no body`);
    const mail = { open: () => bodies.read(body), size: body.size, from: origin.from };
    const target = { user, mailbox, internalDate: origin.receivedAt };
    const [left] = await this.deliver(mail, [target], signal);
    if (!left) return { result: 'delivered' };
    const { failure } = left;
    // Nothing of a suspended account's mail gets lost while it may be opened again.
    const isClosed = state.status === 'suspended' && failure.result === 'permanent';
    return isClosed ? { ...failure, result: 'temporary' } : failure;
  }

  /** It is not waited for, and may fail: apps see new mail at their next sync. */
  #announce({ user, mailbox }: AppendTarget): void {
    const { mailServer, changes, log } = this.#options;
    mailServer
      .changeOf(user, mailbox)
      .then((change) => changes.publish(change))
      .catch((error: unknown) => {
        log.warn(
          { err: error, mailbox },
          'apps could not be told of new mail: they see it at their next sync',
        );
      });
  }

  /** What is known of a delivery that an earlier attempt may have made; undefined: it is to be made. */
  async #lookFor(job: Job<MailboxPayload>): Promise<MailboxResult | undefined> {
    const { mailServer, log } = this.#options;
    const { user, mailbox, origin } = job.payload;
    if (this.#isFirstForSure(job)) return undefined;
    try {
      const has = await mailServer.hasReceived(user, mailbox, origin.id);
      return has ? { result: 'delivered' } : undefined;
    } catch (error) {
      log.warn(
        { err: error, id: job.id, mailId: job.mailId },
        'a mailbox could not be searched: it is unknown whether it already has the message',
      );
      // Better twice than not at all, or days late.
      if (job.isLast || job.attempt > PUT_OFF_MAX) return undefined;
      const text = 'it cannot be told whether an earlier attempt came through';
      return ownFailure('temporary', '4.3.0', text);
    }
  }

  #isFirstForSure({ isFirst, createdAt }: Job): boolean {
    if (!isFirst || createdAt < this.#startedAt) return false;
    const age = this.#options.now() - createdAt;
    return age >= 0 && age < FIRST_FOR_SURE_MS;
  }
}

/** A failure that we see, not the server. */
function ownFailure(
  result: FailedResult['result'],
  enhancedStatus: string,
  text: string,
): FailedResult {
  return { result, error: { enhancedStatus, text } };
}

/** What the sender is answered for a recipient who did not get the message. */
export function refusalOf({ failure: { result, error }, target: { recipient } }: Left): Refusal {
  const detail = `the mail server of ${recipient} ${describe(error)}`;
  if (result === 'temporary') return new Refusal('unavailable', detail);
  // RFC 3463 section 3.3: 2 is a full mailbox, 3 a message that is too large for it.
  if (error.enhancedStatus === '5.2.2') return new Refusal('mailbox_full', detail);
  if (error.enhancedStatus === '5.2.3' || error.enhancedStatus === '5.3.4') {
    return new Refusal('message_too_large', `the message is too large for ${recipient}`);
  }
  return new Refusal('mailbox_refused', detail);
}

/** What the sender is answered where nobody got it: once more, as long as that may help somebody. */
export function refusalOfAll(left: readonly Left[]): Refusal {
  const telling = left.find(({ failure }) => failure.result === 'temporary') ?? left[0];
  if (!telling) throw new Error('nothing failed');
  return refusalOf(telling);
}

/** Our own words are about our own network, which is nobody's business. */
function describe({ status, enhancedStatus, text }: MailboxFailure): string {
  return status === undefined ? 'is not available' : `says ${status} ${enhancedStatus} ${text}`;
}
