/**
 * Delivers accepted mail from `smtp/` as its domain's route says: checks its sender, stores it for accounts,
 * queues what has to go on, and decides what follows when that fails for good. Owns no table: the mail store
 * and the queue make an accepted message durable, in one transaction.
 *
 * This file is the way of one message: recipients, sender checks, trace headers, source to disk, then
 * mailboxes and queue in one transaction.
 *
 * Crashes (where the mailboxes are a mail server's, see `server-mailboxes.ts`, too):
 * - Before the commit nothing was accepted. The sender gets no 250 and sends again; the next sweep removes
 *   the file of a large body.
 * - After the commit and before the 250 the sender sends again: a duplicate (RFC 1047).
 * - What comes after the commit is only for speed: an app that no change was published to sees the message at
 *   its next sync, and the queue reads every row when it starts.
 */
import { type Bodies, throwOrRefuse } from '../bodies/bodies.ts';
import type { Changes } from '../changes/changes.ts';
import type { Database, Queries } from '../database/database.ts';
import { answerOf, Refusal } from '../errors/errors.ts';
import {
  describeMessage,
  type EmbeddedMailstore,
  type MailServer,
  quotaExceeded,
  type StagedMessage,
} from '../mailstore/mailstore.ts';
import { readHeader } from '../message/message.ts';
import { isLooping, type ReadReport } from '../outbound/outbound.ts';
import type { Queue } from '../queue/queue.ts';
import type { Trace, TraceEvent } from '../trace/trace.ts';
import type { Usage } from '../usage/usage.ts';
import {
  type AcceptedMail,
  originOf,
  type QueuedMail,
  type QueueMailOptions,
  queueMail,
} from './queue-mail.ts';
import { queuedEvent, receivedEvents, storedEvent, storedEvents, usageOf } from './record-mail.ts';
import {
  type DeliveryPlan,
  type Destination,
  goesOn,
  planDelivery,
  type RecipientSources,
  type ResolvedRecipient,
  RoomMarks,
  resolveRecipient,
} from './resolve-recipient.ts';
import type { Verdicts } from './sender-checks/check-sender.ts';
import {
  type MailboxTarget,
  refusalOf,
  refusalOfAll,
  ServerMailboxes,
} from './server-mailboxes.ts';
import {
  type FoundRecipient,
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
export { createSenderChecks } from './sender-checks/check-sender.ts';
export { readSenderResults } from './sender-checks/read-results.ts';
export { SpamFilter, type SpamOutcome } from './spam-filter.ts';
export type {
  FoundRecipient,
  InboundEnvelope,
  MailReceiver,
  RecipientOutcome,
} from './stage-mail.ts';

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

export interface MailReceiverOptions extends RecipientSources, QueueMailOptions, StagingOptions {
  readonly database: Database;
  readonly bodies: Bodies;
  /** Our own mailboxes. */
  readonly mailstore: Pick<EmbeddedMailstore, 'append' | 'quotas'>;
  /** Where the mailboxes are a mail server's. */
  readonly mailServer?: MailServer | undefined;
  /** Publishes a change once it is committed. */
  readonly changes: Pick<Changes, 'publish'>;
  readonly queue: Pick<Queue, 'enqueue' | 'wake'>;
  /** Counts mail for billing. */
  readonly usage: Pick<Usage, 'count'>;
  readonly log: DeliveryLog;
  /** Where operators find what became of each message. */
  readonly trace?: Pick<Trace, 'write'> | undefined;
  /** Reads bounces of messages that accounts sent. */
  readonly readReport?: ReadReport | undefined;
  readonly metrics?: ReceiverMetrics;
  /** Milliseconds since 1970. */
  readonly now?: () => number;
}

/** A forward-path, and where its mail goes or why it is refused. */
interface Resolved {
  readonly forwardPath: string;
  readonly found: Destination | Refusal;
}

/** What to do with a message whose recipients are resolved. */
interface Routed {
  readonly recipients: readonly ResolvedRecipient[];
  readonly plan: DeliveryPlan;
  readonly targets: readonly MailboxTarget[];
  readonly queued: readonly QueuedMail[];
  readonly report: ((tx: Queries) => Promise<void>) | undefined;
}

/** How long the result of RCPT may be used, in milliseconds. */
const FOUND_MS = 5_000;

/** By account. */
type Refused = ReadonlyMap<number, Refusal>;

export function createMailReceiver(options: MailReceiverOptions): MailReceiver {
  return new RoutedReceiver(options);
}

class RoutedReceiver implements MailReceiver {
  readonly #options: MailReceiverOptions;
  readonly #now: () => number;
  readonly #serverMailboxes: ServerMailboxes | undefined;
  readonly #roomMarks = new RoomMarks();

  constructor(options: MailReceiverOptions) {
    this.#options = options;
    this.#now = options.now ?? Date.now;
    const { mailServer } = options;
    this.#serverMailboxes =
      mailServer && new ServerMailboxes({ ...options, mailServer, now: this.#now });
  }

  checkRoom(octets: number): Promise<Refusal | undefined> {
    return this.#options.bodies.checkRoom(octets);
  }

  async checkRecipient(
    recipient: string,
    { from, octets }: { readonly from: string; readonly octets: number },
  ): Promise<Refusal | FoundRecipient | undefined> {
    const foundAt = this.#now();
    const octetsFor = (accountId: number) => this.#roomMarks.octetsFor(accountId, from, octets);
    const found = await resolveRecipient(this.#options, recipient, { from, octetsFor });
    if (found instanceof Refusal) return found;
    // An account with a quota is checked again with the real size of the message.
    const isSure = found.kind === 'mailbox' && !found.isLimited;
    return isSure ? { from, destination: found, foundAt } : undefined;
  }

  async receive(
    envelope: InboundEnvelope,
    source: AsyncIterable<Uint8Array>,
    foundAtRcpt: ReadonlyMap<string, FoundRecipient> = new Map(),
  ): Promise<RecipientOutcome[]> {
    const arrived = { envelope, receivedAt: this.#now() };
    const staged = await stageMail(this.#options, arrived, source).catch(throwOrRefuse);
    const { metrics } = this.#options;
    if (staged.verdicts) metrics?.countChecks(staged.verdicts);
    const stagedAt = performance.now();
    const mail: AcceptedMail = { ...arrived, ...staged };
    const resolved = await this.#deliverOrDiscard(mail, foundAtRcpt);
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
  async #deliverOrDiscard(
    mail: AcceptedMail,
    foundAtRcpt: ReadonlyMap<string, FoundRecipient>,
  ): Promise<Resolved[]> {
    const { bodies } = this.#options;
    try {
      refuseJudged(mail);
      const resolved = await this.#resolveAll(mail, foundAtRcpt);
      const recipients = resolved.flatMap(({ forwardPath, found }) =>
        found instanceof Refusal ? [] : [{ forwardPath, destination: found }],
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

  /** Resolves the recipients again if the message took long: an account may have been deleted meanwhile. */
  async #resolveAll(
    mail: AcceptedMail,
    foundAtRcpt: ReadonlyMap<string, FoundRecipient>,
  ): Promise<Resolved[]> {
    const resolved: Resolved[] = [];
    const { envelope, message } = mail;
    const { size } = message.parsed;
    const { from, to } = envelope;
    const about = {
      from,
      octetsFor: () => size,
      onFull: (accountId: number) => this.#noteFull(mail, accountId),
    };
    const since = this.#now() - FOUND_MS;
    for (const forwardPath of to) {
      const known = foundAtRcpt.get(forwardPath);
      const found =
        known?.from === from && known.foundAt > since
          ? known.destination
          : await resolveRecipient(this.#options, forwardPath, about);
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
    const forwarded = recipients.filter(({ destination }) => destination.kind === 'forward');
    if (forwarded.length === 0) return;
    const header = await readHeader(this.#options.bodies.read(message.body));
    if (!header.isWhole) {
      throw new Refusal('message_too_large', 'the header is too long to be passed on');
    }
    if (forwarded.some(({ forwardPath }) => isLooping(header, forwardPath))) {
      throw new Refusal('message_looping', 'this message was forwarded from here before');
    }
  }

  /** @returns by LMTP, why a mailbox did not accept it, by account */
  async #deliver(mail: AcceptedMail, recipients: readonly ResolvedRecipient[]): Promise<Refused> {
    const plan = planDelivery(recipients);
    const queued = goesOn(plan) ? await queueMail(this.#options, plan, mail) : [];
    const mailbox = mail.verdicts?.action === 'quarantine' ? 'Junk' : 'INBOX';
    const internalDate = mail.receivedAt;
    const report = await this.#readReport(mail, plan);
    const targets = [...plan.users.values()].map(
      ({ recipient, ...user }): MailboxTarget => ({ user, recipient, mailbox, internalDate }),
    );
    const routed = { recipients, plan, targets, queued, report };
    return this.#serverMailboxes
      ? this.#toServer(this.#serverMailboxes, mail, routed)
      : this.#store(mail, routed);
  }

  /** What a bounce reports about messages that its recipient accounts have sent. */
  async #readReport(
    { envelope, message }: AcceptedMail,
    { users, webhooks, forwards }: DeliveryPlan,
  ): Promise<((tx: Queries) => Promise<void>) | undefined> {
    const { bodies, readReport } = this.#options;
    // RFC 3464 section 2: nothing else is a report.
    if (envelope.from !== '') return undefined;
    const note = await readReport?.(message.parsed, (range) => bodies.read(message.body, range));
    if (!note) return undefined;
    const others = [...webhooks.values(), ...forwards.values()].map((one) => one.users);
    const accountIds = [users, ...others].flatMap((some) => [...some.keys()]);
    return (tx) => note(tx, accountIds);
  }

  /** Stores in our own mailboxes: body, messages and queue in one transaction. */
  async #store(mail: AcceptedMail, routed: Routed): Promise<Refused> {
    const { plan, targets, queued, report } = routed;
    const { database, bodies, mailstore, queue, usage, changes } = this.#options;
    const { parsed, body } = mail.message;
    const { size } = parsed;
    const texts = await describeMessage(bodies, { parsed, body });
    const { appended, refused } = await database.write(async (tx) => {
      const full = await mailstore.quotas.findFull(tx, [...plan.limited], size);
      const fitting = targets.filter(({ user }) => !full.has(user.accountId));
      const refused = new Map([...full].map((id) => [id, quotaExceeded()]));
      this.#refuseForAll(mail, refused);
      if (fitting.length + queued.length === 0) return { appended: [], refused };
      const bodyId = await bodies.commit(tx, body);
      const appended = await mailstore.append(tx, { ...texts, bodyId }, fitting);
      for (const { user } of fitting) {
        // The account was deleted after it was resolved.
        if (!appended.some((one) => one.user === user)) refused.set(user.accountId, goneRefusal());
      }
      this.#refuseForAll(mail, refused);
      if (appended.length + queued.length === 0) {
        await bodies.release(tx, [bodyId]);
        return { appended, refused };
      }
      const stored = storedEvents(mail.envelope.id, appended);
      await this.#enqueue(tx, { mail, routed, refused, bodyId }, stored);
      await report?.(tx);
      await usage.count(tx, usageOf(plan, size, refused), mail.receivedAt);
      return { appended, refused };
    });
    if (appended.length + queued.length === 0) await bodies.discard(body);
    for (const { change } of appended) changes.publish(change);
    if (queued.length > 0) queue.wake(queued);
    return refused;
  }

  /** By SMTP, one mailbox that refuses the message rolls everything back. */
  #refuseForAll(mail: AcceptedMail, refused: Refused): void {
    const { envelope } = mail;
    const [first] = refused.values();
    if (!first || isLmtp(envelope)) return;
    for (const [accountId, { code }] of refused) {
      if (code === 'quota_exceeded') this.#noteFull(mail, accountId);
    }
    throw refuseWhole(first, envelope.to.length);
  }

  #noteFull({ envelope, message }: AcceptedMail, accountId: number): void {
    if (envelope.to.length > 1) this.#roomMarks.note(accountId, envelope.from, message.parsed.size);
  }

  /**
   * Delivers to the mailboxes of a mail server. Its answers come first. Then what it did not accept is queued
   * together with the rest, or, by LMTP, answered for each recipient.
   */
  async #toServer(server: ServerMailboxes, mail: AcceptedMail, routed: Routed): Promise<Refused> {
    const { plan, targets, queued, report } = routed;
    const { database, bodies, queue, usage } = this.#options;
    const { body } = mail.message;
    const source = { open: () => bodies.read(body), size: body.size, from: mail.envelope.from };
    const left = await server.deliver(source, targets);
    const refused = isLmtp(mail.envelope) ? left : [];
    const retried = isLmtp(mail.envelope) ? [] : left;
    if (retried.length > 0 && retried.length === targets.length && queued.length === 0) {
      throw refusalOfAll(retried);
    }
    const refusals = new Map(refused.map((one) => [one.target.user.accountId, refusalOf(one)]));
    const notStored = new Set(left.map(({ target }) => target));
    const stored = targets
      .filter((target) => !notStored.has(target))
      .map(({ user, mailbox }) =>
        storedEvent(mail.envelope.id, user.address, `${mailbox}, by the mail server`),
      );
    const note = async (tx: Queries, bodyId?: number) => {
      await this.#enqueue(tx, { mail, routed, refused: refusals, bodyId }, stored);
      await report?.(tx);
      await usage.count(tx, usageOf(plan, body.size, refusals), mail.receivedAt);
    };
    if (retried.length + queued.length === 0) {
      // The server has the message already: after a refusal the sender would send it a second time.
      await database
        .write((tx) => note(tx))
        .catch((err: unknown) => {
          const left =
            'a message was stored, but its trace, its usage and what it says as a bounce could not be recorded';
          this.#options.log.warn({ err }, left);
        });
      await bodies.discard(body);
    } else {
      const origin = await originOf(this.#options, mail);
      const rows = await database.write(async (tx) => {
        const bodyId = await bodies.commit(tx, body);
        await note(tx, bodyId);
        return server.enqueue(tx, retried, { bodyId, origin });
      });
      queue.wake([...queued, ...rows]);
    }
    return refusals;
  }

  /** Queues what goes on, and writes the whole trace of the message. */
  async #enqueue(
    tx: Queries,
    { mail, routed, refused, bodyId }: Enqueued,
    stored: readonly TraceEvent[],
  ): Promise<void> {
    const { queue, trace } = this.#options;
    const traced = receivedEvents(mail, pathsWithout(routed.recipients, refused));
    traced.push(...stored);
    if (bodyId !== undefined) {
      for (const delivery of routed.queued) {
        traced.push(queuedEvent(delivery, await queue.enqueue(tx, { ...delivery, bodyId })));
      }
    }
    await trace?.write(tx, traced);
  }
}

/** An accepted message, and what is queued and traced of it. */
interface Enqueued {
  readonly mail: AcceptedMail;
  readonly routed: Routed;
  readonly refused: Refused;
  /** Absent where no copy of it is kept here. */
  readonly bodyId: number | undefined;
}

/** Forward-paths that were accepted: all but those of mailboxes that refused. */
function pathsWithout(recipients: readonly ResolvedRecipient[], refused: Refused): string[] {
  return recipients.flatMap(({ forwardPath, destination }) => {
    const isRefused = destination.kind === 'mailbox' && refused.has(destination.user.accountId);
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

function goneRefusal(): Refusal {
  return new Refusal('account_not_found', 'there is no such account any more');
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
