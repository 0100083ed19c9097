/**
 * Delivers mail between accounts of this service without SMTP: the recipients are resolved by their domain's
 * route as for incoming mail. The sender is not checked: it is one of our accounts.
 *
 * Crashes: everything is written in the transaction that ends the attempt, or that accepts the message, so it happens
 * once.
 */
import { randomUUID } from 'node:crypto';
import {
  describeMessage,
  type MailUser,
  type StagedMessage,
  stageMessage,
} from '../../mailboxes/mailstore/mailstore.ts';
import type { Database, Queries } from '../../platform/database/database.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import type { EpochMs } from '../../platform/time/time.ts';
import { MessageParser } from '../../protocols/message/message.ts';
import {
  type DeliveredLocal,
  type LocalMail,
  type LocalMailDelivery,
  MailboxClosed,
  type PlainLocal,
  type PreparedLocal,
} from '../outbound/outbound.ts';
import type { Queue } from '../queue/queue.ts';
import type { Trace, TraceEvent } from '../trace/trace.ts';
import type { MailOrigin } from './kinds.ts';
import {
  type MailboxStorage,
  type MailboxTarget,
  mailToStore,
  type PlainStoring,
  type PreparedStoring,
} from './mailbox-storage.ts';
import { type QueuedMail, type QueueMailOptions, queueMail } from './queue-mail.ts';
import { queuedEvent, receivedData, storedIn, usageOf } from './record-mail.ts';
import {
  leavesHost,
  planDelivery,
  type RecipientSources,
  type ResolvedRecipient,
  resolveRecipient,
} from './resolve-recipient.ts';
import { type InboundEnvelope, returnPath } from './stage-mail.ts';

export interface LocalDeliveryOptions extends RecipientSources, QueueMailOptions {
  readonly database: Database;
  readonly storage: MailboxStorage;
  readonly queue: Pick<Queue, 'enqueue' | 'wake'>;
  readonly trace?: Pick<Trace, 'write'> | undefined;
  readonly now?: () => EpochMs;
}

export class LocalDelivery implements LocalMailDelivery {
  readonly #options: LocalDeliveryOptions;
  readonly #now: () => number;

  constructor(options: LocalDeliveryOptions) {
    this.#options = options;
    this.#now = options.now ?? Date.now;
  }

  async prepare(mail: LocalMail): Promise<PreparedLocal> {
    const refused = new Map<string, Refusal>();
    const resolved: ResolvedRecipient[] = [];
    const path = returnPath(mail);
    const about = { from: mail.from, octets: path.length + mail.size };
    for (const forwardPath of mail.recipients) {
      const found = await resolveRecipient(this.#options, forwardPath, about);
      if (found instanceof Refusal) refused.set(forwardPath, found);
      else resolved.push({ forwardPath, target: found });
    }
    if (resolved.length === 0) return { refused, ...NOTHING };
    const envelope = envelopeOf(mail);
    const message = await stageMessage(this.#options.bodies, mail.open(), path);
    const plan = planDelivery(resolved);
    const { acceptedAt: receivedAt } = mail;
    const accepted = { envelope, message, receivedAt };
    const queued = leavesHost(plan) ? await queueMail(this.#options, plan, accepted) : [];
    const stored = { mailbox: 'INBOX', internalDate: this.#now() };
    const targets = [...plan.users.values()].map(
      ({ recipient, ...user }): MailboxTarget => ({ user, recipient, ...stored }),
    );
    const origin = { from: mail.from, bounceTo: mail.from, id: mail.id, receivedAt };
    const storing = await this.#prepare(message, targets, origin, plan.limited);
    const { plain } = storing;
    return {
      refused,
      plain: plain && queued.length === 0 ? plainLocal(mail, message, plain) : undefined,
      counted: usageOf(plan, message.parsed.size, new Set()),
      hold: async (tx, senderId) => {
        if (plan.limited.size === 0) return;
        await this.#options.storage.quotas?.hold(tx, [...plan.limited, senderId]);
      },
      commit: (tx) => this.#write(tx, { message, storing, queued }),
      discard: () => this.#options.bodies.discard(message.body),
    };
  }

  async report(tx: Queries, user: MailUser, source: Buffer, about: string): Promise<() => void> {
    const parser = new MessageParser();
    parser.write(source);
    const message = { parsed: parser.end(), body: { size: source.length, content: source } };
    const receivedAt = this.#now();
    const target = { user, recipient: user.address, mailbox: 'INBOX', internalDate: receivedAt };
    const origin = { from: '', id: randomUUID(), receivedAt };
    const storing = await this.#prepare(message, [target], origin);
    const detail = `the sender is told, by message ${origin.id}`;
    const told = { mailId: about, event: 'reported', recipient: user.address, detail };
    const { traced, afterCommit } = await this.#write(tx, { message, storing, queued: [] });
    await this.#options.trace?.write(tx, [told, ...traced]);
    return afterCommit;
  }

  #prepare(
    message: StagedMessage,
    targets: readonly MailboxTarget[],
    origin: MailOrigin,
    limited?: ReadonlySet<number>,
  ): Promise<PreparedStoring> {
    const { bodies, storage } = this.#options;
    const mail = mailToStore(origin, message.body, () => describeMessage(bodies, message));
    return storage.prepare(mail, targets, { answers: 'none', ...(limited && { limited }) });
  }

  async #write(tx: Queries, { message, storing, queued }: Writing): Promise<DeliveredLocal> {
    const { bodies, queue } = this.#options;
    const bodyId = await bodies.commit(tx, message.body);
    const traced: TraceEvent[] = [];
    for (const delivery of queued) {
      traced.push(queuedEvent(delivery, await queue.enqueue(tx, { ...delivery, bodyId })));
    }
    const stored = await storing.commit(tx, async () => bodyId);
    if (stored.refused.size > 0) throw new MailboxClosed();
    return {
      traced: [...traced, ...stored.traced],
      afterCommit() {
        stored.afterCommit();
        queue.wake(queued);
      },
    };
  }
}

function plainLocal(
  mail: LocalMail,
  { body }: StagedMessage,
  { message, texts, target: { user }, afterCommit }: PlainStoring,
): PlainLocal {
  const { name: mailbox } = message;
  const received = receivedData(mail, user, texts);
  const stored = (uid: string) => storedIn(mail.id, user, { mailbox, uid });
  return { message, body, received, stored, afterCommit };
}

/** Of a message that all recipients refuse. */
const NOTHING: Omit<PreparedLocal, 'refused'> = {
  counted: [],
  hold: async () => {},
  commit: async () => ({ traced: [], afterCommit() {} }),
  discard: async () => {},
};

interface Writing {
  readonly message: StagedMessage;
  readonly storing: PreparedStoring;
  readonly queued: readonly QueuedMail[];
}

/** An envelope as if the message had come by SMTP: webhooks and forwarding then treat it the same. */
function envelopeOf({ id, from, recipients }: LocalMail): InboundEnvelope {
  const arrival = { protocol: 'HTTP', heloName: '', remoteAddress: '', sessionId: id };
  return { id, from, to: recipients, arrival };
}
