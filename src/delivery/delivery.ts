/**
 * Takes accepted mail from `smtp/` to where its domain's route says: checks its sender, stores it for
 * accounts, queues what has to go on, and decides what follows when that fails for good. Owns no
 * table: what it has taken is durable in the mail store and the queue, in one transaction.
 *
 * This file is the way of one message: recipients, sender checks, trace headers, source to disk, then
 * mailboxes and queue in one transaction.
 *
 * Crashes (where the mailboxes are a mail server's, see `server-mailboxes.ts`, too):
 * - Before the commit nothing was taken. The sender hears no 250 and sends again; a large body's file
 *   is left for the sweep.
 * - After the commit and before the 250 the sender sends again: a duplicate (RFC 1047).
 * - What comes after the commit is only for speed: an app that no change was published to sees it at
 *   its next sync, and a start of the queue looks at every row.
 */
import type { Bodies } from '../bodies/bodies.ts';
import type { MailboxChange } from '../changes/changes.ts';
import { type Database, isStorageFull, type Queries } from '../database/database.ts';
import { answerOf, Refusal } from '../errors/errors.ts';
import {
  describeMessage,
  type EmbeddedMailstore,
  type MailServer,
  type StagedMessage,
} from '../mailstore/mailstore.ts';
import { readHeader } from '../message/message.ts';
import { isLooping, type ReportReader } from '../outbound/outbound.ts';
import type { Queue } from '../queue/queue.ts';
import {
  type AcceptedMail,
  originOf,
  type QueuedMail,
  type QueueMailOptions,
  queueMail,
} from './queue-mail.ts';
import {
  type DeliveryPlan,
  type Destination,
  planDelivery,
  type RecipientSources,
  type ResolvedRecipient,
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
  type InboundEnvelope,
  isLmtp,
  type MailReceiver,
  type RecipientOutcome,
  type StagingOptions,
  stageMail,
} from './stage-mail.ts';

export { type CarryOutOptions, carryOut } from './carry-out.ts';
export { LocalDelivery } from './local-delivery.ts';
export { createSenderChecks } from './sender-checks/check-sender.ts';
export { readSenderResults } from './sender-checks/read-results.ts';
export type { InboundEnvelope, MailReceiver, RecipientOutcome } from './stage-mail.ts';

/** What delivery tells the log; a pino Logger fits. */
interface DeliveryLog {
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
}

export interface MailReceiverOptions extends RecipientSources, QueueMailOptions, StagingOptions {
  readonly database: Database;
  readonly bodies: Bodies;
  /** Our own mailboxes. */
  readonly mailstore: Pick<EmbeddedMailstore, 'append'>;
  /** Where the mailboxes are a mail server's. */
  readonly mailServer?: MailServer | undefined;
  /** Publishes a change once it is committed. */
  readonly publish: (change: MailboxChange) => void;
  readonly queue: Pick<Queue, 'enqueue' | 'wake'>;
  readonly log: DeliveryLog;
  /** Reads what comes back of messages that accounts sent. */
  readonly reports?: ReportReader | undefined;
  /** Told what became of each recipient of a message that was taken. */
  readonly count?: (result: RecipientOutcome['result']) => void;
  /** Told what the sender checks found, whatever becomes of the message then. */
  readonly onChecked?: (verdicts: Verdicts) => void;
  /** Milliseconds since 1970. */
  readonly now?: () => number;
}

/** A forward-path, and where its mail goes or why nobody takes it. */
interface Resolved {
  readonly forwardPath: string;
  readonly found: Destination | Refusal;
}

/** By account. */
type Refused = ReadonlyMap<number, Refusal>;

export function createMailReceiver(options: MailReceiverOptions): MailReceiver {
  return new RoutedReceiver(options);
}

class RoutedReceiver implements MailReceiver {
  readonly #options: MailReceiverOptions;
  readonly #now: () => number;
  readonly #serverMailboxes: ServerMailboxes | undefined;

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

  async checkRecipient(recipient: string, from: string): Promise<Refusal | undefined> {
    const resolved = await resolveRecipient(this.#options, recipient, from);
    return resolved instanceof Refusal ? resolved : undefined;
  }

  async receive(
    envelope: InboundEnvelope,
    source: AsyncIterable<Uint8Array>,
  ): Promise<RecipientOutcome[]> {
    const arrived = { envelope, receivedAt: this.#now() };
    const staged = await stageMail(this.#options, arrived, source).catch(sayWhenFull);
    if (staged.verdicts) this.#options.onChecked?.(staged.verdicts);
    const mail: AcceptedMail = { ...arrived, ...staged };
    const resolved = await this.#deliverOrDiscard(mail);
    const outcomes = resolved.map(outcomeOf);
    for (const { result } of outcomes) this.#options.count?.(result);
    const delivered = outcomes.filter(({ result }) => result === 'delivered').length;
    const { sessionId, remoteAddress, protocol } = envelope.arrival;
    const { size } = mail.message.parsed;
    const { spf, dmarc, action } = mail.verdicts ?? {};
    this.#options.log.info(
      {
        messageId: envelope.id,
        sessionId,
        remoteAddress,
        protocol,
        from: envelope.from,
        size,
        delivered,
        refused: outcomes.length - delivered,
        ...(action && { spf: spf?.result, dmarc: dmarc?.result, action }),
      },
      'message delivered',
    );
    return outcomes;
  }

  /** Brings the message to every recipient; what nobody took leaves nothing on disk. */
  async #deliverOrDiscard(mail: AcceptedMail): Promise<Resolved[]> {
    const { bodies } = this.#options;
    try {
      refuseSender(mail.verdicts);
      const resolved = await this.#resolveAll(mail.envelope);
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
      // After any other failure the commit may have happened: the sweep at start decides then.
      if (error instanceof Refusal) await bodies.discard(mail.message.body);
      return sayWhenFull(error);
    }
  }

  /** Asks again who takes the mail: an account may have gone while the message came in. */
  async #resolveAll(envelope: InboundEnvelope): Promise<Resolved[]> {
    const resolved: Resolved[] = [];
    for (const forwardPath of envelope.to) {
      const found = await resolveRecipient(this.#options, forwardPath, envelope.from);
      if (found instanceof Refusal && !isLmtp(envelope)) {
        throw refuseWhole(found, envelope.to.length);
      }
      resolved.push({ forwardPath, found });
    }
    return resolved;
  }

  /** RFC 5321 section 6.3: a message that we forwarded once comes back no second time. */
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

  /** @returns by LMTP, why a mailbox did not take it, by account */
  async #deliver(mail: AcceptedMail, recipients: readonly ResolvedRecipient[]): Promise<Refused> {
    const plan = planDelivery(recipients);
    const queued = await queueMail(this.#options, plan, mail);
    const mailbox = mail.verdicts?.action === 'quarantine' ? 'Junk' : 'INBOX';
    const internalDate = mail.receivedAt;
    const report = await this.#readReport(mail, plan);
    const targets = [...plan.users.values()].map(
      ({ recipient, ...user }): MailboxTarget => ({ user, recipient, mailbox, internalDate }),
    );
    return this.#serverMailboxes
      ? this.#toServer(this.#serverMailboxes, mail, targets, queued, report)
      : this.#store(mail, targets, queued, report);
  }

  /** What a bounce says of messages that the accounts it came to have sent. */
  async #readReport(
    { envelope, message }: AcceptedMail,
    { users, webhooks, forwards }: DeliveryPlan,
  ): Promise<((tx: Queries) => Promise<void>) | undefined> {
    const { bodies, reports } = this.#options;
    // RFC 3464 section 2: nothing else is a report.
    if (envelope.from !== '') return undefined;
    const report = await reports?.read(message.parsed, (range) => bodies.read(message.body, range));
    if (!report) return undefined;
    const others = [...webhooks.values(), ...forwards.values()].map((one) => one.users);
    const accountIds = [users, ...others].flatMap((some) => [...some.keys()]);
    return (tx) => report.apply(tx, accountIds);
  }

  /** Into our own mailboxes: body, messages and queue in one transaction. */
  async #store(
    mail: AcceptedMail,
    targets: readonly MailboxTarget[],
    queued: readonly QueuedMail[],
    report: ((tx: Queries) => Promise<void>) | undefined,
  ): Promise<Refused> {
    const { database, bodies, mailstore, queue, publish } = this.#options;
    const { parsed, body } = mail.message;
    const texts = await describeMessage(bodies, { parsed, body });
    const { appended, gone } = await database.write(async (tx) => {
      const bodyId = await bodies.commit(tx, body);
      const appended = await mailstore.append(tx, { ...texts, bodyId }, targets);
      const gone = targets.filter(({ user }) => !appended.some((one) => one.user === user));
      // Deleted since it was resolved. By SMTP that takes everything back.
      if (gone.length > 0 && !isLmtp(mail.envelope)) {
        throw refuseWhole(goneRefusal(), mail.envelope.to.length);
      }
      for (const delivery of queued) await queue.enqueue(tx, { ...delivery, bodyId });
      await report?.(tx);
      return { appended, gone };
    });
    for (const { change } of appended) publish(change);
    queue.wake(queued);
    return new Map(gone.map(({ user }) => [user.accountId, goneRefusal()]));
  }

  /**
   * To the mailboxes of a mail server. Its answers come first; then what it did not take is queued
   * together with what else follows from the message, or, by LMTP, answered for each recipient.
   */
  async #toServer(
    server: ServerMailboxes,
    mail: AcceptedMail,
    targets: readonly MailboxTarget[],
    queued: readonly QueuedMail[],
    report: ((tx: Queries) => Promise<void>) | undefined,
  ): Promise<Refused> {
    const { database, bodies, queue } = this.#options;
    const { body } = mail.message;
    const source = { open: () => bodies.read(body), size: body.size, from: mail.envelope.from };
    const left = await server.deliver(source, targets);
    const refused = isLmtp(mail.envelope) ? left : [];
    const retried = isLmtp(mail.envelope) ? [] : left;
    if (retried.length > 0 && retried.length === targets.length && queued.length === 0) {
      throw refusalOfAll(retried);
    }
    if (retried.length + queued.length === 0) {
      if (report) {
        // The server has it: refused now, it would come twice.
        await database.write(report).catch((err: unknown) => {
          this.#options.log.warn({ err }, 'a bounce is stored, and what it says is not noted');
        });
      }
      await bodies.discard(body);
    } else {
      const origin = await originOf(this.#options, mail);
      const rows = await database.write(async (tx) => {
        const bodyId = await bodies.commit(tx, body);
        for (const delivery of queued) await queue.enqueue(tx, { ...delivery, bodyId });
        await report?.(tx);
        return server.enqueue(tx, retried, { bodyId, origin });
      });
      queue.wake([...queued, ...rows]);
    }
    return new Map(refused.map((one) => [one.target.user.accountId, refusalOf(one)]));
  }
}

/** RFC 7489 section 6.3: the owner of the domain asks for it, and the operator for it to count. */
function refuseSender(verdicts: Verdicts | undefined): void {
  if (verdicts?.action !== 'reject') return;
  const { domain } = verdicts.dmarc;
  throw new Refusal(
    'sender_rejected',
    verdicts.dmarc.result === 'permerror'
      ? 'its From does not say clearly who it is from (RFC 5322 section 3.6.2)'
      : `${domain} asks to refuse mail that fails DMARC as this does`,
  );
}

/**
 * SMTP has one answer for all recipients: where one of several is refused after it was taken at
 * RCPT, the client is asked to come again, and then learns at RCPT which one it is.
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

/** What the mail server says of one recipient stands for the other addresses of the account, too. */
function withRefusal(resolved: Resolved, refused: Refused): Resolved {
  const { found } = resolved;
  if (found instanceof Refusal || found.kind !== 'mailbox') return resolved;
  return { ...resolved, found: refused.get(found.user.accountId) ?? found };
}

function sayWhenFull(error: unknown): never {
  if (!isStorageFull(error)) throw error;
  throw new Refusal('storage_full', 'there is no space left for this message', { cause: error });
}
