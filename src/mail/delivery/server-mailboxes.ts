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

import type { Bodies } from '../../mailboxes/bodies/bodies.ts';
import type { Changes } from '../../mailboxes/changes/changes.ts';
import type { ServerDelivery } from '../../mailboxes/mail-server/mail-server.ts';
import {
  type AppendTarget,
  describeStored,
  type MailboxFailure,
  type MailboxResult,
  type MessageTexts,
  type ServerMail,
} from '../../mailboxes/mailstore/mailstore.ts';
import type { Database, Queries } from '../../platform/database/database.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import type { EpochMs } from '../../platform/time/time.ts';
import { findAccountStates, findAccounts } from '../../tenants/accounts/accounts.ts';
import { writeEvents } from '../../tenants/events/events.ts';
import { failure } from '../outbound/outbound.ts';
import type { Job, NewDelivery, Queue } from '../queue/queue.ts';
import type { TraceEvent } from '../trace/trace.ts';
import {
  FIRST_RETRY_MS,
  MAILBOX,
  type MailboxPayload,
  type MailOrigin,
  mailboxPayloads,
} from './kinds.ts';
import {
  type MailboxAttempt,
  type MailboxStorage,
  type MailboxTarget,
  type MailToStore,
  NOTHING_STORED,
  type PreparedStoring,
  type StoredMail,
  type StoringOptions,
} from './mailbox-storage.ts';
import { queuedEvent, receivedEvent, storedEvent } from './record-mail.ts';

export interface ServerMailboxesOptions {
  readonly database: Database;
  readonly bodies: Bodies;
  readonly queue: Pick<Queue, 'enqueue' | 'wake'>;
  readonly mailServer: ServerDelivery;
  /** Publishes a change. */
  readonly changes: Pick<Changes, 'publish'>;
  readonly log: { warn(fields: object, message: string): void };
  readonly now: () => EpochMs;
}

type FailedResult = Exclude<MailboxResult, { readonly result: 'delivered' }>;

/** A target that did not get the message. */
interface Undelivered {
  readonly target: MailboxTarget;
  readonly failure: FailedResult;
}

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
const NO_EARLIER_ATTEMPT_MS = 5_000;
/** Attempts that are deferred while the mailbox cannot be searched. */
const DEFERRALS_MAX = 4;

export class ServerMailboxes implements MailboxStorage {
  /** The mail server has quotas of its own. */
  readonly quotas = undefined;
  readonly #options: ServerMailboxesOptions;
  readonly #startedAt: number;

  constructor(options: ServerMailboxesOptions) {
    this.#options = options;
    this.#startedAt = options.now();
  }

  /**
   * Where somebody waits for an answer, the mail server is asked here, before the transaction. What it does not accept
   * is queued by the transaction, or, where each recipient has an answer of his own, refused.
   */
  async prepare(
    mail: MailToStore,
    targets: readonly MailboxTarget[],
    { answers, isAlone = false }: StoringOptions,
  ): Promise<PreparedStoring> {
    const { bodies } = this.#options;
    if (answers === 'none') {
      const origin = await mail.origin();
      const queued = targets.map((target) => ({ target }));
      return { commit: (tx, keepBody) => this.#queue(tx, queued, { keepBody, origin }) };
    }
    const { id, body, from } = mail;
    // Read first: after the server has the message, nothing may fail.
    const texts = await mail.describe();
    const source = { open: () => bodies.read(body), size: body.size, from };
    const left = await this.#deliver(source, targets);
    const missed = new Set(left.map(({ target }) => target));
    const taken = targets.filter((target) => !missed.has(target));
    const traced = taken.map(({ user, mailbox }) =>
      storedEvent(id, user.address, `${mailbox}, by the mail server`),
    );
    const tell = (tx: Queries) => this.#tell(tx, mail, taken, texts);
    if (answers !== 'each' && left.length > 0) {
      if (isAlone && left.length === targets.length) throw refusalOfAll(left);
      const origin = await mail.origin();
      return {
        commit: async (tx, keepBody) => {
          await tell(tx);
          const queued = await this.#queue(tx, left, { keepBody, origin });
          return { ...queued, traced: [...traced, ...queued.traced] };
        },
      };
    }
    const refused = new Map(left.map((one) => [one.target.user.accountId, refusalOf(one)]));
    const done = { ...NOTHING_STORED, refused, traced };
    return {
      done,
      commit: async (tx) => {
        await tell(tx);
        return done;
      },
    };
  }

  /** Writes the events of a message that the server has taken. */
  #tell(
    tx: Queries,
    mail: Pick<MailToStore, 'id' | 'from'>,
    targets: readonly AppendTarget[],
    texts: MessageTexts,
  ): Promise<void> {
    const events = targets.map(({ user, mailbox }) =>
      receivedEvent(mail, user, texts, { mailbox }),
    );
    return writeEvents(tx, events, this.#options.now());
  }

  /**
   * Makes one attempt for each target, and notifies the apps of those that got the message.
   *
   * @returns the targets that did not get it
   */
  async #deliver(
    mail: ServerMail,
    targets: readonly MailboxTarget[],
    signal?: AbortSignal,
  ): Promise<Undelivered[]> {
    const { mailServer, log } = this.#options;
    const results = await mailServer.deliver(mail, targets, signal);
    const left = targets.flatMap((target, index) => {
      const result = results[index] ?? failure('temporary', '4.5.0', 'no result');
      if (result.result !== 'delivered') return [{ target, failure: result }];
      this.#publish(target);
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

  /** Queues a message for mailboxes. Targets whose account was deleted are skipped. */
  async #queue(
    tx: Queries,
    targets: readonly QueuedTarget[],
    { keepBody, origin }: { readonly keepBody: () => Promise<number>; readonly origin: MailOrigin },
  ): Promise<StoredMail> {
    const { queue } = this.#options;
    const ids = targets.map(({ target }) => target.user.accountId);
    const states = await findAccountStates(tx, ids);
    const rows: NewDelivery[] = [];
    const traced: TraceEvent[] = [];
    for (const { target, failure } of targets) {
      const state = states.get(target.user.accountId);
      if (!state) continue;
      const { domainId, userId } = state;
      const row = { ...rowOf(target, failure, origin), domainId, userId, bodyId: await keepBody() };
      const deliveryId = await queue.enqueue(tx, row);
      rows.push(row);
      traced.push(queuedEvent(row, deliveryId, failure?.error.text));
    }
    const afterCommit = () => queue.wake(rows);
    return { refused: new Map(), traced, namesBody: rows.length > 0, afterCommit };
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
    const body = await bodies.get(job.bodyId);
    const texts = await describeStored(bodies, body);
    const told: MailboxAttempt = {
      result: 'delivered',
      storing: {
        commit: async (tx) => {
          await this.#tell(tx, origin, [{ user, mailbox }], texts);
          return NOTHING_STORED;
        },
      },
    };
    const known = await this.#lookFor(job);
    if (known) return known.result === 'delivered' ? told : known;
    const mail = { open: () => bodies.read(body), size: body.size, from: origin.from };
    const target = { user, mailbox, recipient, internalDate: origin.receivedAt };
    const [left] = await this.#deliver(mail, [target], signal);
    if (!left) return told;
    // Mail of a suspended account is kept as long as the account may be resumed.
    const isClosed = state.status === 'suspended' && left.failure.result === 'permanent';
    return isClosed ? { ...left.failure, result: 'temporary' } : left.failure;
  }

  /** Nobody waits for this, and it may fail: apps see new mail at their next sync. */
  #publish({ user, mailbox }: AppendTarget): void {
    const { mailServer, changes, log } = this.#options;
    mailServer.imap
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
      const has = await mailServer.imap.hasReceived(user, mailbox, origin.id);
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
    return age >= 0 && age < NO_EARLIER_ATTEMPT_MS;
  }
}

/** The delivery that is queued for a target. */
function rowOf(
  { user: { accountId, address }, mailbox, recipient }: QueuedTarget['target'],
  failed: FailedResult | undefined,
  origin: MailOrigin,
) {
  const refused = failed?.result === 'permanent' && { refused: failed.error };
  const user = { accountId, address };
  return {
    kind: MAILBOX,
    accountId,
    // Each mailbox is a destination of its own: one over its quota delays no other.
    destination: address,
    mailId: origin.id,
    recipients: [recipient],
    mailFrom: origin.from,
    payload: mailboxPayloads.write({ user, mailbox, recipient, origin, ...refused }),
    ...(failed?.result === 'temporary' && {
      tried: { error: failed.error, retryMs: FIRST_RETRY_MS },
    }),
  };
}

/** The answer to the sender for a recipient who did not get the message. */
function refusalOf({ failure: { result, error }, target: { recipient } }: Undelivered): Refusal {
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
function refusalOfAll(left: readonly Undelivered[]): Refusal {
  const telling = left.find(({ failure }) => failure.result === 'temporary') ?? left[0];
  if (!telling) throw new Error('nothing failed');
  return refusalOf(telling);
}

/** A failure to connect tells about our own network, so the sender does not see its text. */
function describe({ status, enhancedStatus, text }: MailboxFailure): string {
  return status === undefined ? 'is not available' : `says ${status} ${enhancedStatus} ${text}`;
}
