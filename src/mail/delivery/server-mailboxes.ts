/**
 * Mailboxes on a mail server that the operator runs. A message is kept here only where the server did not accept
 * it: as a delivery of kind `mailbox` for each such recipient, with the body.
 *
 * Crashes:
 * - Before the server answers the end of the message, nothing was accepted; the sender still has it.
 * - After that and before our own answer, the sender still has it and sends it again: the duplicate that
 *   SMTP allows wherever mail is passed on (RFC 1047). At most one transaction lies between the two answers.
 * - What is queued is attempted at least once. Where an earlier attempt may have succeeded (the process
 *   died, or the connection broke after the end of the message), the mailbox is first searched for the id
 *   in our Received field.
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
import { failure } from '../outbound/outbound.ts';
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

/** How an attempt for one mailbox ended; `isGone`: the account was deleted, and nobody gets a bounce. */
export type MailboxAttempt = MailboxResult & { readonly isGone?: true };

/** What is queued for a target. */
interface QueuedTarget {
  readonly target: Pick<MailboxTarget, 'user' | 'mailbox' | 'recipient'>;
  /** How the earlier attempt ended. */
  readonly failure?: FailedResult;
}

/**
 * So soon after it was queued, no other worker can have made a first attempt: a worker that stops has 5 s
 * to end its attempt, and the lease of one that dies runs longer.
 */
const FIRST_FOR_SURE_MS = 5_000;
/** Attempts that are deferred while the mailbox cannot be searched. */
const DEFERRALS_MAX = 4;

export class ServerMailboxes {
  readonly #options: ServerMailboxesOptions;
  readonly #startedAt: number;

  constructor(options: ServerMailboxesOptions) {
    this.#options = options;
    this.#startedAt = options.now();
  }

  /**
   * Makes one attempt for each target, and notifies the apps of those that got the message.
   *
   * @returns the targets that did not get it
   */
  async deliver(
    mail: ServerMail,
    targets: readonly MailboxTarget[],
    signal?: AbortSignal,
  ): Promise<Left[]> {
    const { mailServer, log } = this.#options;
    const results = await mailServer.deliver(mail, targets, signal);
    const left = targets.flatMap((target, index) => {
      const result = results[index] ?? failure('temporary', '4.5.0', 'no result');
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
   * Queues a message for mailboxes. Targets whose account was deleted are skipped.
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
        // Each mailbox is a destination of its own: one over its quota delays no other.
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
    const { user, mailbox, recipient, refused, origin } = job.payload;
    if (refused && job.isFirst) return { result: 'permanent', error: refused };
    const states = await findAccountStates(database.read, [user.accountId]);
    const state = states.get(user.accountId);
    if (!state) {
      return { ...failure('permanent', '5.1.1', 'the account was deleted'), isGone: true };
    }
    // The server knows only addresses. The domain may now belong to another claim that has an account with
    // the same address, and this mail is not for that account. It is bounced after the last attempt, or
    // delivered if the first claim is active again.
    const holders = await findAccounts(database, [user.address]);
    if (holders.get(user.address) !== user.accountId) {
      return failure('temporary', '4.2.1', 'the address is not of this account at present');
    }
    const known = await this.#lookFor(job);
    if (known) return known;
    const body = await bodies.get(job.bodyId);
    const mail = { open: () => bodies.read(body), size: body.size, from: origin.from };
    const target = { user, mailbox, recipient, internalDate: origin.receivedAt };
    const [left] = await this.deliver(mail, [target], signal);
    if (!left) return { result: 'delivered' };
    // Mail of a suspended account is kept as long as the account may be resumed.
    const isClosed = state.status === 'suspended' && left.failure.result === 'permanent';
    return isClosed ? { ...left.failure, result: 'temporary' } : left.failure;
  }

  /** Nobody waits for this, and it may fail: apps see new mail at their next sync. */
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

  /** The result of an earlier attempt, if it can be known; undefined: the attempt is to be made. */
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
      // Two copies are better than none, and than one that is days late.
      if (job.isLast || job.attempt > DEFERRALS_MAX) return undefined;
      const text = 'it cannot be told whether an earlier attempt came through';
      return failure('temporary', '4.3.0', text);
    }
  }

  #isFirstForSure({ isFirst, createdAt }: Job): boolean {
    if (!isFirst || createdAt < this.#startedAt) return false;
    const age = this.#options.now() - createdAt;
    return age >= 0 && age < FIRST_FOR_SURE_MS;
  }
}

/** The answer to the sender for a recipient who did not get the message. */
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

/** The answer to the sender where nobody got it: a temporary one if a retry may help any recipient. */
export function refusalOfAll(left: readonly Left[]): Refusal {
  const telling = left.find(({ failure }) => failure.result === 'temporary') ?? left[0];
  if (!telling) throw new Error('nothing failed');
  return refusalOf(telling);
}

/** A failure to connect tells about our own network, so the sender does not see its text. */
function describe({ status, enhancedStatus, text }: MailboxFailure): string {
  return status === undefined ? 'is not available' : `says ${status} ${enhancedStatus} ${text}`;
}
