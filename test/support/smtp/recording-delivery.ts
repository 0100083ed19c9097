/**
 * A delivery that records what it gets, for one domain: `acme.test`.
 *
 * The local part of a recipient decides its outcome: `nobody` does not exist, `asleep` is suspended; `full`,
 * `broken`, `cut` (the database is away), `loop` and `picky` are accepted at RCPT and fail with the message, by LMTP each for itself.
 */
import type {
  InboundEnvelope,
  MailReceiver,
  RecipientOutcome,
} from '../../../src/mail/delivery/delivery.ts';
import { Refusal } from '../../../src/platform/errors/errors.ts';
import type { Submission, Submitter } from '../../../src/servers/smtp/smtp.ts';

export interface RecordedMessage {
  readonly envelope: InboundEnvelope;
  readonly content: Buffer;
}

export class RecordingDelivery implements MailReceiver {
  readonly messages: RecordedMessage[] = [];
  /** The errors of failed reads of a message. */
  readonly failures: unknown[] = [];
  /** A promise that holds messages back while they are read, until it settles. */
  gate: Promise<void> = Promise.resolve();
  #unseen = 0;
  #arrived: (() => void)[] = [];
  #recorded: (() => void)[] = [];

  /** Octets of messages that were read. */
  bytesRead = 0;
  /** Octets of messages that there is room for. */
  room = Number.POSITIVE_INFINITY;

  async checkRoom(octets: number): Promise<Refusal | undefined> {
    return octets < this.room ? undefined : new Refusal('storage_full', 'No space is left');
  }

  async checkRecipient(recipient: string): Promise<Refusal | undefined> {
    const [local = '', domain] = recipient.split('@');
    if (recipient === 'postmaster@mail.test') return undefined;
    if (local === 'bug') throw new Error('the database said too much');
    if (domain === 'pending.test') return new Refusal('domain_not_active', 'Not active yet');
    if (domain !== 'acme.test') return new Refusal('relay_denied', `${domain} is not hosted here`);
    if (local === 'nobody') return new Refusal('account_not_found', 'No such account');
    if (local === 'asleep') return new Refusal('account_inactive', 'The account is asleep');
    return undefined;
  }

  async receive(
    envelope: InboundEnvelope,
    source: AsyncIterable<Uint8Array>,
  ): Promise<RecipientOutcome[]> {
    if (envelope.to.includes('loop@acme.test')) {
      throw new Refusal('message_looping', 'Seen before');
    }
    const chunks: Uint8Array[] = [];
    try {
      for await (const chunk of source) {
        chunks.push(chunk);
        this.bytesRead += chunk.length;
      }
    } catch (error) {
      this.failures.push(error);
      throw error;
    } finally {
      for (const arrived of this.#arrived.splice(0)) arrived();
    }
    await this.gate;
    if (envelope.to.includes('broken@acme.test')) throw new Error('the database said too much');
    if (envelope.to.includes('cut@acme.test')) {
      throw Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' });
    }
    if (envelope.to.includes('full@acme.test')) {
      throw new Refusal('storage_full', 'There is no space left for the message');
    }
    this.messages.push({ envelope, content: Buffer.concat(chunks) });
    for (const recorded of this.#recorded.splice(0)) recorded();
    return envelope.to.map((recipient) => this.#outcome(recipient));
  }

  /** Resolves when a message has been read, or has failed while it was. */
  settled(): Promise<void> {
    return new Promise((resolve) => this.#arrived.push(resolve));
  }

  /** The next message that was not returned yet, on one line. */
  async next(): Promise<string> {
    let message = this.messages[this.#unseen];
    while (message === undefined) {
      await new Promise<void>((resolve) => this.#recorded.push(resolve));
      message = this.messages[this.#unseen];
    }
    this.#unseen += 1;
    const { arrival, from, to } = message.envelope;
    const paths = [from, ...to].map((path) => `<${path}>`).join(' ');
    return `${arrival.protocol} ${paths} ${JSON.stringify(message.content.toString())}`;
  }

  #outcome(recipient: string): RecipientOutcome {
    if (recipient === 'picky@acme.test') {
      const refusal = new Refusal('relay_denied', 'Not from you');
      return { recipient, result: 'permanent', refusal };
    }
    if (recipient === 'slow@acme.test') {
      const refusal = new Refusal('unavailable', 'Try again later');
      return { recipient, result: 'temporary', refusal };
    }
    return { recipient, result: 'delivered' };
  }
}

/** Lets in `ada@acme.test` with the password `secret`, or the token `token`; each of its messages has the id `first`. */
export function submissionTo(delivery: RecordingDelivery): Submission {
  const submitter: Submitter = {
    accountId: 1,
    userId: 'u',
    checkRoom: (octets) => delivery.checkRoom(octets),
    checkRecipient: async () => undefined,
    checkSender: async (from) =>
      /^(?:ada(?:\+\w+)?@acme\.test)?$/.test(from)
        ? undefined
        : new Refusal('sender_rejected', 'Not you'),
    receive: async (envelope, source) => {
      const outcomes = await delivery.receive(envelope, source);
      return outcomes.map(({ recipient }) => ({ recipient, result: 'delivered', id: 'first' }));
    },
  };
  return {
    async logIn(given) {
      const isRight =
        given.kind === 'token'
          ? given.token === 'token'
          : given.address === 'ada@acme.test' && given.password === 'secret';
      if (!isRight) throw new Refusal('unauthorized', 'wrong');
      return submitter;
    },
  };
}
