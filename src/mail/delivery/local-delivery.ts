/**
 * Delivers mail between accounts of this service without SMTP: the recipients are resolved by their domain's
 * route as for incoming mail. The sender is not checked: it is one of our accounts.
 *
 * Crashes: everything is written in the transaction that ends the attempt, so it happens once. Where the
 * mailboxes are a mail server's, that transaction queues the message for them.
 */
import { randomUUID } from 'node:crypto';
import type { Changes } from '../changes/changes.ts';
import type { Queries } from '../database/database.ts';
import { Refusal } from '../errors/errors.ts';
import {
  describeMessage,
  type EmbeddedMailstore,
  type MailServer,
  type MailUser,
  type MessageTexts,
  type StagedMessage,
  stageMessage,
} from '../mailstore/mailstore.ts';
import { MessageParser } from '../message/message.ts';
import type { LocalMail, LocalMailDelivery, PreparedLocal } from '../outbound/outbound.ts';
import type { Queue } from '../queue/queue.ts';
import type { Trace, TraceEvent } from '../trace/trace.ts';
import type { Usage } from '../usage/usage.ts';
import type { MailOrigin } from './kinds.ts';
import { type QueuedMail, type QueueMailOptions, queueMail } from './queue-mail.ts';
import { queuedEvent, storedEvents, usageOf } from './record-mail.ts';
import {
  goesOn,
  planDelivery,
  type RecipientSources,
  type ResolvedRecipient,
  resolveRecipient,
} from './resolve-recipient.ts';
import {
  type MailboxTarget,
  ServerMailboxes,
  type ServerMailboxesOptions,
} from './server-mailboxes.ts';
import { type InboundEnvelope, returnPath } from './stage-mail.ts';

export interface LocalDeliveryOptions
  extends RecipientSources,
    QueueMailOptions,
    Pick<ServerMailboxesOptions, 'database' | 'log'> {
  /** Our own mailboxes. */
  readonly mailstore: Pick<EmbeddedMailstore, 'append' | 'quotas'>;
  /** Where the mailboxes are a mail server's. */
  readonly mailServer?: MailServer | undefined;
  readonly queue: Pick<Queue, 'enqueue' | 'wake'>;
  /** Counts mail for billing. */
  readonly usage: Pick<Usage, 'count'>;
  readonly trace?: Pick<Trace, 'write'> | undefined;
  /** Publishes a change once it is committed. */
  readonly changes: Pick<Changes, 'publish'>;
  /** Milliseconds since 1970. */
  readonly now?: () => number;
}

export class LocalDelivery implements LocalMailDelivery {
  readonly #options: LocalDeliveryOptions;
  readonly #now: () => number;
  readonly #serverMailboxes: ServerMailboxes | undefined;

  constructor(options: LocalDeliveryOptions) {
    this.#options = options;
    const now = options.now ?? Date.now;
    this.#now = now;
    const { mailServer } = options;
    this.#serverMailboxes = mailServer && new ServerMailboxes({ ...options, mailServer, now });
  }

  async prepare(mail: LocalMail): Promise<PreparedLocal> {
    const refused = new Map<string, Refusal>();
    const resolved: ResolvedRecipient[] = [];
    const path = returnPath(mail);
    const octetsFor = () => path.length + mail.size;
    for (const forwardPath of mail.recipients) {
      const about = { from: mail.from, octetsFor };
      const found = await resolveRecipient(this.#options, forwardPath, about);
      if (found instanceof Refusal) refused.set(forwardPath, found);
      else resolved.push({ forwardPath, destination: found });
    }
    if (resolved.length === 0) return { refused, commit: async () => () => {} };
    const envelope = envelopeOf(mail);
    const message = await stageMessage(this.#options.bodies, mail.open(), path);
    const plan = planDelivery(resolved);
    const { acceptedAt: receivedAt } = mail;
    const accepted = { envelope, message, receivedAt };
    const queued = goesOn(plan) ? await queueMail(this.#options, plan, accepted) : [];
    const targets = [...plan.users.values()].map(
      ({ recipient, ...user }): MailboxTarget => ({
        user,
        recipient,
        mailbox: 'INBOX',
        internalDate: this.#now(),
      }),
    );
    const origin = { from: mail.from, bounceTo: mail.from, id: mail.id, receivedAt };
    const texts = await describeMessage(this.#options.bodies, message);
    return {
      refused,
      commit: async (tx) => {
        const { size } = texts;
        const full = await this.#options.mailstore.quotas.findFull(tx, [...plan.limited], size);
        // The next attempt finds that there is no room.
        if (full.size > 0) throw new Error('a mailbox became full while mail was delivered to it');
        const afterCommit = await this.#write(tx, { message, texts, targets, queued, origin });
        await this.#options.usage.count(tx, usageOf(plan, size, new Set()));
        return afterCommit;
      },
    };
  }

  async report(tx: Queries, user: MailUser, source: Buffer, about: string): Promise<() => void> {
    const parser = new MessageParser();
    parser.write(source);
    const message = { parsed: parser.end(), body: { size: source.length, content: source } };
    const receivedAt = this.#now();
    const target = { user, recipient: user.address, mailbox: 'INBOX', internalDate: receivedAt };
    const origin = { from: '', id: randomUUID(), receivedAt };
    // The texts are in memory before the transaction: no other write waits for a file.
    const texts = await describeMessage(this.#options.bodies, message);
    const detail = `the sender is told, by message ${origin.id}`;
    const told = { mailId: about, event: 'reported', recipient: user.address, detail };
    await this.#options.trace?.write(tx, [told]);
    return this.#write(tx, { message, texts, targets: [target], queued: [], origin });
  }

  async #write(
    tx: Queries,
    { message, texts, targets, queued, origin }: Writing,
  ): Promise<() => void> {
    const { bodies, mailstore, queue, changes, trace } = this.#options;
    const bodyId = await bodies.commit(tx, message.body);
    const traced: TraceEvent[] = [];
    for (const delivery of queued) {
      traced.push(queuedEvent(delivery, await queue.enqueue(tx, { ...delivery, bodyId })));
    }
    if (this.#serverMailboxes) {
      const left = targets.map((target) => ({ target }));
      const rows = await this.#serverMailboxes.enqueue(tx, left, { bodyId, origin });
      await trace?.write(tx, traced);
      return () => queue.wake([...queued, ...rows]);
    }
    const appended = await mailstore.append(tx, { ...texts, bodyId }, targets);
    if (appended.length < targets.length) {
      // The next attempt finds that the account does not exist.
      throw new Error('an account was deleted while mail was delivered to it');
    }
    await trace?.write(tx, [...traced, ...storedEvents(origin.id, appended)]);
    return () => {
      for (const { change } of appended) changes.publish(change);
      queue.wake(queued);
    };
  }
}

interface Writing {
  readonly message: StagedMessage;
  readonly texts: MessageTexts;
  readonly targets: readonly MailboxTarget[];
  readonly queued: readonly QueuedMail[];
  readonly origin: MailOrigin;
}

/** An envelope as if the message had come by SMTP: webhooks and forwarding then treat it the same. */
function envelopeOf({ id, from, recipients }: LocalMail): InboundEnvelope {
  const arrival = { protocol: 'HTTP', heloName: '', remoteAddress: '', sessionId: id };
  return { id, from, to: recipients, arrival };
}
