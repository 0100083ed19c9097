/**
 * Delivers accepted mail from `smtp/` as its domain's route says: checks its sender, stores it for accounts,
 * queues what has to go on, and decides what follows when that fails for good. Owns no table: the mail store
 * and the queue make an accepted message durable, in one transaction.
 *
 * This file takes one message through its steps: staging (`stage-mail.ts`), its recipients
 * (`resolve-recipient.ts`), then mailboxes and queue in one transaction.
 *
 * Crashes (where the mailboxes are a mail server's, see `server-mailboxes.ts`, too):
 * - Before the commit nothing was accepted. The sender gets no 250 and sends again; the next sweep removes
 *   the file of a large body.
 * - After the commit and before the 250 the sender sends again: a duplicate (RFC 1047).
 * - What comes after the commit is only for speed: an app that no change was published to sees the message at
 *   its next sync, and the queue reads every row when it starts.
 */
import { type Bodies, throwOrRefuse } from '../../mailboxes/bodies/bodies.ts';
import { describeMessage, type StagedMessage } from '../../mailboxes/mailstore/mailstore.ts';
import type { Queries } from '../../platform/database/database.ts';
import { answerOf, Refusal } from '../../platform/errors/errors.ts';
import { readHeader } from '../../protocols/message/message.ts';
import { writeEvents } from '../../tenants/events/events.ts';
import type { Usage } from '../../tenants/usage/usage.ts';
import { findLoop, type NotedReport, type ReadReport } from '../outbound/outbound.ts';
import type { Trace } from '../trace/trace.ts';
import type { LocalDeliveryOptions } from './local-delivery.ts';
import type { MailboxTarget, MailToStore, StoredMail } from './mailbox-storage.ts';
import { type Accepted, OneStatement, type Routed } from './own-mailboxes.ts';
import { type AcceptedMail, originOf, queueMail } from './queue-mail.ts';
import { bouncedEvent, queuedEvent, receivedEvents, usageOf } from './record-mail.ts';
import {
  type DeliveryPlan,
  leavesHost,
  planDelivery,
  type ResolvedRecipient,
  resolveRecipient,
  type Target,
} from './resolve-recipient.ts';
import { enterTurnOfMail, sentBy, type Verdicts } from './sender-checks/check-sender.ts';
import {
  type InboundEnvelope,
  isLmtp,
  type MailReceiver,
  type RecipientOutcome,
  refuseJudged,
  type StagingOptions,
  stageMail,
} from './stage-mail.ts';

export { type CarryOutOptions, carryOut } from './carry-out.ts';
export { LocalDelivery } from './local-delivery.ts';
export type { MailboxStorage } from './mailbox-storage.ts';
export { OwnMailboxes } from './own-mailboxes.ts';
export { enterTurnOfMail } from './sender-checks/check-sender.ts';
export { Unanswered } from './sender-checks/lookups.ts';
export { type CheckSettings, openSenderChecks } from './sender-checks/open-checks.ts';
export { readSenderResults } from './sender-checks/read-results.ts';
export { ServerMailboxes } from './server-mailboxes.ts';
export { SpamFilter, type SpamOutcome } from './spam-filter.ts';
export type {
  InboundEnvelope,
  MailReceiver,
  RecipientOutcome,
} from './stage-mail.ts';
export { StagingThread } from './staging.ts';

/** The part of a pino Logger that delivery uses. */
interface DeliveryLog {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
}

/** Counters of mail. */
interface ReceiverMetrics {
  /** Counts the outcome of a recipient of an accepted message. */
  countRecipient(result: RecipientOutcome['result']): void;
  /** Counts an accepted message. @param ms from the end of its checks until it was stored */
  countReceived(ms: number): void;
  /** Counts what the sender checks found, whatever happens to the message then. */
  countChecks(verdicts: Verdicts): void;
}

export interface MailReceiverOptions extends LocalDeliveryOptions, StagingOptions {
  readonly bodies: Bodies;
  /** Counts mail for billing. */
  readonly usage: Pick<Usage, 'count'>;
  readonly log: DeliveryLog;
  /** Where operators find what became of each message. */
  readonly trace?: Pick<Trace, 'isOn' | 'write' | 'rowsOf'> | undefined;
  /** Reads bounces of messages that accounts sent. */
  readonly readReport?: ReadReport | undefined;
  readonly metrics?: ReceiverMetrics;
}

/** A forward-path, and where its mail goes or why it is refused. */
interface Resolved {
  readonly forwardPath: string;
  readonly found: Target | Refusal;
}

/** By account. */
type Refused = StoredMail['refused'];

/** The most octets of the fields that we put on top of a message. */
const TRACE_MAX = 4_096;

export function createMailReceiver(options: MailReceiverOptions): MailReceiver {
  return new RoutedReceiver(options);
}

class RoutedReceiver implements MailReceiver {
  readonly #options: MailReceiverOptions;
  readonly #now: () => number;
  readonly #oneStatement: OneStatement;
  /** Messages that are being received. */
  #underWay = 0;

  constructor(options: MailReceiverOptions) {
    this.#options = options;
    this.#oneStatement = new OneStatement(options);
    this.#now = options.now ?? Date.now;
  }

  checkRoom(octets: number): Promise<Refusal | undefined> {
    return this.#options.bodies.checkRoom(octets);
  }

  async checkRecipient(
    recipient: string,
    { from, octets }: { readonly from: string; readonly octets: number },
  ): Promise<Refusal | undefined> {
    // What passes here has room with our fields on top: a refusal after DATA is for all recipients.
    const about = { from, octets: octets > 0 ? octets + TRACE_MAX : 1 };
    const found = await resolveRecipient(this.#options, recipient, about);
    return found instanceof Refusal ? found : undefined;
  }

  async receive(
    envelope: InboundEnvelope,
    source: AsyncIterable<Uint8Array>,
  ): Promise<RecipientOutcome[]> {
    this.#underWay += 1;
    try {
      return await this.#receive(envelope, source);
    } finally {
      this.#underWay -= 1;
    }
  }

  async #receive(
    envelope: InboundEnvelope,
    source: AsyncIterable<Uint8Array>,
  ): Promise<RecipientOutcome[]> {
    const arrived = { envelope, receivedAt: this.#now() };
    const isAlone = this.#underWay === 1;
    const staged = await stageMail(this.#options, arrived, source, isAlone).catch(throwOrRefuse);
    const { metrics } = this.#options;
    // The checks of a burst end together: by the answers of the thread, or because DNS gives none.
    const waits = enterTurnOfMail(sentBy(envelope.arrival.remoteAddress));
    if (waits) await waits;
    if (staged.verdicts) metrics?.countChecks(staged.verdicts);
    const stagedAt = performance.now();
    const mail: AcceptedMail = { ...arrived, ...staged };
    const resolved = await this.#deliverOrDiscard(mail);
    const outcomes = resolved.map(outcomeOf);
    for (const { result } of outcomes) metrics?.countRecipient(result);
    const delivered = outcomes.filter(({ result }) => result === 'delivered').length;
    if (delivered > 0) metrics?.countReceived(performance.now() - stagedAt);
    const { sessionId, remoteAddress, protocol } = envelope.arrival;
    const { size } = mail.message.parsed;
    const { spf, dmarc, action } = mail.verdicts ?? {};
    this.#options.log.info(
      {
        mailId: envelope.id,
        sessionId,
        remoteAddress,
        protocol,
        from: envelope.from,
        size,
        delivered,
        refused: outcomes.length - delivered,
        ...(action && { spf: spf?.result, dmarc: dmarc?.result, action }),
        ...(staged.spam && { spamScore: staged.spam.score }),
      },
      'message delivered',
    );
    return outcomes;
  }

  /** Brings the message to every recipient; if none accepts it, nothing of it stays on disk. */
  async #deliverOrDiscard(mail: AcceptedMail): Promise<Resolved[]> {
    const { bodies } = this.#options;
    try {
      refuseJudged(mail);
      const resolved = await this.#resolveAll(mail);
      const recipients = resolved.flatMap(({ forwardPath, found }) =>
        found instanceof Refusal ? [] : [{ forwardPath, target: found }],
      );
      await this.#refuseLoops(mail.message, recipients);
      if (recipients.length === 0) {
        await bodies.discard(mail.message.body);
        return resolved;
      }
      const refused = await this.#deliver(mail, recipients);
      return resolved.map((one) => withRefusal(one, refused));
    } catch (error) {
      // After any other error the commit may have happened: the sweep at the next start decides.
      if (error instanceof Refusal) await bodies.discard(mail.message.body);
      return throwOrRefuse(error);
    }
  }

  /**
   * Resolves the recipients again, now that the size is known: a message may end an hour after its RCPT. An account that was
   * suspended meanwhile gets no mail, and a message is accepted under the route of now; the commit would notice neither.
   */
  async #resolveAll({ envelope, message }: AcceptedMail): Promise<Resolved[]> {
    const resolved: Resolved[] = [];
    const { from, to } = envelope;
    const about = { from, octets: message.parsed.size };
    for (const forwardPath of to) {
      const found = await resolveRecipient(this.#options, forwardPath, about);
      if (found instanceof Refusal && !isLmtp(envelope)) {
        throw refuseWhole(found, to.length);
      }
      resolved.push({ forwardPath, found });
    }
    return resolved;
  }

  /** Refuses a message that we forwarded before (RFC 5321 section 6.3). */
  async #refuseLoops(
    message: StagedMessage,
    recipients: readonly ResolvedRecipient[],
  ): Promise<void> {
    const forwarded = recipients.filter(({ target }) => target.kind === 'forward');
    if (forwarded.length === 0) return;
    const header = await readHeader(this.#options.bodies.read(message.body));
    if (!header.isWhole) {
      throw new Refusal('message_too_large', 'the header is too long to be passed on');
    }
    for (const { forwardPath } of forwarded) {
      const loop = findLoop(header, forwardPath);
      if (loop) throw new Refusal('message_looping', loop);
    }
  }

  /** @returns by LMTP, why a mailbox did not accept it, by account */
  async #deliver(mail: AcceptedMail, recipients: readonly ResolvedRecipient[]): Promise<Refused> {
    const plan = planDelivery(recipients);
    const queued = leavesHost(plan) ? await queueMail(this.#options, plan, mail) : [];
    const mailbox = mail.verdicts?.action === 'quarantine' ? 'Junk' : 'INBOX';
    const internalDate = mail.receivedAt;
    const report = await this.#readReport(mail, plan);
    const targets = [...plan.users.values()].map(
      ({ recipient, ...user }): MailboxTarget => ({ user, recipient, mailbox, internalDate }),
    );
    const storing = await this.#options.storage.prepare(this.#toStore(mail), targets, {
      answers: isLmtp(mail.envelope) ? 'each' : 'one',
      isAlone: queued.length === 0,
      limited: plan.limited,
    });
    return this.#commit(mail, { recipients, plan, queued, report, storing });
  }

  #toStore(mail: AcceptedMail): MailToStore {
    const { id, from } = mail.envelope;
    const { parsed, body } = mail.message;
    const describe = () => describeMessage(this.#options.bodies, { parsed, body });
    return { id, from, body, describe, origin: () => originOf(this.#options, mail) };
  }

  /** What a bounce reports about messages that its recipient accounts have sent. */
  async #readReport(
    { envelope, message }: AcceptedMail,
    { users, webhooks, forwards }: DeliveryPlan,
  ): Promise<((tx: Queries) => Promise<NotedReport>) | undefined> {
    const { bodies, readReport } = this.#options;
    // RFC 3464 section 2: nothing else is a report.
    if (envelope.from !== '') return undefined;
    const note = await readReport?.(message.parsed, (range) => bodies.read(message.body, range));
    if (!note) return undefined;
    const others = [...webhooks.values(), ...forwards.values()].map((one) => one.users);
    const accountIds = [users, ...others].flatMap((some) => [...some.keys()]);
    return (tx) => note(tx, accountIds);
  }

  /** Accepts the message: body, messages and queue in one transaction. */
  async #commit(mail: AcceptedMail, routed: Routed): Promise<Refused> {
    const { database, bodies, queue, log } = this.#options;
    const { done, inLine = atOnce } = routed.storing;
    const write = async () =>
      (await this.#oneStatement.accept(mail, routed)) ??
      (await database.write((tx) => this.#write(tx, mail, routed)));
    const accepted = await inLine(write).catch((err: unknown) => {
      if (!done || routed.queued.length > 0) throw err;
      // The mail server has the message already: after a refusal the sender would send it a second time.
      const lost =
        'a message was stored, but its trace, its usage and what it says as a bounce could not be recorded';
      log.warn({ err }, lost);
      return { ...done, keepsBody: false };
    });
    if (!accepted.keepsBody) await bodies.discard(mail.message.body);
    accepted.afterCommit();
    if (routed.queued.length > 0) queue.wake(routed.queued);
    return accepted.refused;
  }

  async #write(
    tx: Queries,
    mail: AcceptedMail,
    { recipients, plan, queued, report, storing }: Routed,
  ): Promise<Accepted> {
    const { bodies, queue, trace, usage } = this.#options;
    const { body, parsed } = mail.message;
    let bodyId: number | undefined;
    const keepBody = async () => {
      bodyId ??= await bodies.commit(tx, body);
      return bodyId;
    };
    const stored = await storing.commit(tx, keepBody);
    const { refused, afterCommit } = stored;
    this.#refuseForAll(mail, refused);
    const keepsBody = stored.namesBody || queued.length > 0;
    // The accounts were deleted meanwhile: nothing names it.
    if (bodyId !== undefined && !keepsBody) await bodies.release(tx, [bodyId]);
    const traced = receivedEvents(mail, pathsWithout(recipients, refused));
    traced.push(...stored.traced);
    for (const delivery of queued) {
      const row = { ...delivery, bodyId: await keepBody() };
      traced.push(queuedEvent(delivery, await queue.enqueue(tx, row)));
    }
    const noted = await report?.(tx);
    const bounces = noted?.bounces ?? [];
    for (const { accountId: _, ...bounce } of bounces) traced.push({ ...bounce, event: 'bounced' });
    await writeEvents(tx, bounces.map(bouncedEvent), this.#now());
    await trace?.write(tx, traced);
    const counted = [...usageOf(plan, parsed.size, refused), ...(noted?.counted ?? [])];
    await usage.count(tx, counted, mail.receivedAt);
    return { refused, keepsBody, afterCommit };
  }

  /** By SMTP, one mailbox that refuses the message rolls everything back. */
  #refuseForAll(mail: AcceptedMail, refused: Refused): void {
    const { envelope } = mail;
    const [first] = refused.values();
    if (!first || isLmtp(envelope)) return;
    throw refuseWhole(first, envelope.to.length);
  }
}

/** Forward-paths that were accepted: all but those of mailboxes that refused. */
function pathsWithout(recipients: readonly ResolvedRecipient[], refused: Refused): string[] {
  return recipients.flatMap(({ forwardPath, target }) => {
    const isRefused = target.kind === 'mailbox' && refused.has(target.user.accountId);
    return isRefused ? [] : forwardPath;
  });
}

/**
 * SMTP has one answer for all recipients. Where one of several is refused after its RCPT was accepted, the
 * client is asked to try again; then RCPT tells it which one.
 */
function refuseWhole(refusal: Refusal, recipients: number): Refusal {
  if (recipients === 1) return refusal;
  return new Refusal('unavailable', 'a recipient is not available any more, try again', {
    cause: refusal,
  });
}

function outcomeOf({ forwardPath, found }: Resolved): RecipientOutcome {
  if (!(found instanceof Refusal)) return { recipient: forwardPath, result: 'delivered' };
  const result = answerOf(found.code).smtp.code < 500 ? 'temporary' : 'permanent';
  return { recipient: forwardPath, result, refusal: found };
}

/** The mail server's answer for one recipient also holds for the other addresses of the same account. */
function withRefusal(resolved: Resolved, refused: Refused): Resolved {
  const { found } = resolved;
  if (found instanceof Refusal || found.kind !== 'mailbox') return resolved;
  return { ...resolved, found: refused.get(found.user.accountId) ?? found };
}

function atOnce<T>(write: () => Promise<T>): Promise<T> {
  return write();
}
