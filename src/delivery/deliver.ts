/** The way of one message: recipients, trace headers, source to disk, mail store. */
import { randomUUID } from 'node:crypto';
import type { Bodies } from '../bodies/bodies.ts';
import { isStorageFull } from '../database/database.ts';
import { answerOf, Refusal } from '../errors/errors.ts';
import {
  type AppendTarget,
  type Mailstore,
  type StagedMessage,
  stageMessage,
} from '../mailstore/mailstore.ts';
import type { Delivery, InboundEnvelope, RecipientOutcome } from './envelope.ts';
import { type Recipient, type RecipientSources, resolveRecipient } from './resolve-recipient.ts';
import { traceHeaders } from './trace-headers.ts';

/** What delivery tells the log; a pino Logger fits. */
export interface DeliveryLog {
  info(fields: object, message: string): void;
}

export interface DeliveryOptions extends RecipientSources {
  readonly mailstore: Mailstore;
  readonly bodies: Bodies;
  /** Our name in Received headers. */
  readonly hostname: string;
  readonly log: DeliveryLog;
  /** Told what became of each recipient of a message that was taken. */
  readonly count?: (result: RecipientOutcome['result']) => void;
  /** Milliseconds since 1970. */
  readonly now?: () => number;
}

/** A forward-path, and whose mailbox it means or why nobody takes it. */
interface Resolved {
  readonly forwardPath: string;
  readonly found: Recipient | Refusal;
}

export function createDelivery(options: DeliveryOptions): Delivery {
  const now = options.now ?? Date.now;

  async function receive(
    envelope: InboundEnvelope,
    source: AsyncIterable<Uint8Array>,
  ): Promise<RecipientOutcome[]> {
    const id = randomUUID();
    const at = new Date(now());
    const head = traceHeaders(envelope, { hostname: options.hostname, id, at });
    const message = await stageMessage(options.bodies, source, head).catch(sayWhenFull);
    const resolved = await takeOrDiscard(envelope, message, at);
    const outcomes = resolved.map(outcomeOf);
    for (const { result } of outcomes) options.count?.(result);
    const delivered = outcomes.filter(({ result }) => result === 'delivered').length;
    const refused = outcomes.length - delivered;
    const { sessionId } = envelope.arrival;
    options.log.info(
      { messageId: id, sessionId, size: message.parsed.size, delivered, refused },
      'message taken',
    );
    return outcomes;
  }

  /** Brings the message to every recipient; what nobody took leaves nothing on disk. */
  async function takeOrDiscard(
    envelope: InboundEnvelope,
    message: StagedMessage,
    at: Date,
  ): Promise<Resolved[]> {
    try {
      const resolved = await resolveAll(envelope);
      const recipients = resolved.flatMap(({ found }) => (found instanceof Refusal ? [] : [found]));
      if (recipients.length === 0) await options.bodies.discard(message.body);
      else await store(message, recipients, at);
      return resolved;
    } catch (error) {
      // After any other failure the commit may have happened: the sweep at start decides then.
      if (error instanceof Refusal) await options.bodies.discard(message.body);
      return sayWhenFull(error);
    }
  }

  /** Asks again who takes the mail: an account may have gone while the message came in. */
  async function resolveAll({ to, arrival }: InboundEnvelope): Promise<Resolved[]> {
    const resolved: Resolved[] = [];
    for (const forwardPath of to) {
      const found = await resolveRecipient(options, forwardPath);
      if (found instanceof Refusal && !isLmtp(arrival.protocol))
        throw refuseWhole(found, to.length);
      resolved.push({ forwardPath, found });
    }
    return resolved;
  }

  async function store(
    message: StagedMessage,
    recipients: readonly Recipient[],
    at: Date,
  ): Promise<void> {
    // Two forward-paths of one account (`ann@`, `ann+list@`) are one mailbox: one copy.
    const targets = new Map<number, AppendTarget>();
    for (const { user } of recipients) {
      targets.set(user.accountId, { user, mailbox: 'INBOX', internalDate: at.getTime() });
    }
    await options.mailstore.append(message, [...targets.values()]);
  }

  return {
    async checkRecipient(recipient) {
      const resolved = await resolveRecipient(options, recipient);
      return resolved instanceof Refusal ? resolved : undefined;
    },
    receive,
  };
}

function isLmtp(protocol: string): boolean {
  return protocol.includes('LMTP');
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

function outcomeOf({ forwardPath, found }: Resolved): RecipientOutcome {
  if (!(found instanceof Refusal)) return { recipient: forwardPath, result: 'delivered' };
  const result = answerOf(found.code).smtp.startsWith('4') ? 'temporary' : 'permanent';
  return { recipient: forwardPath, result, refusal: found };
}

function sayWhenFull(error: unknown): never {
  if (!isStorageFull(error)) throw error;
  throw new Refusal('storage_full', 'there is no space left for this message', { cause: error });
}
