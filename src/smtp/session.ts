/**
 * Mail transactions of one connection: what MAIL, RCPT and the end of the message are answered. Knows
 * neither sockets nor the library.
 */
import type { Logger } from 'pino';
import type { Arrival, Delivery, InboundEnvelope, RecipientOutcome } from '../delivery/delivery.ts';
import { Refusal } from '../errors/errors.ts';
import { type AddressFault, isInternationalized, readAddressCommand } from './address-command.ts';
import { type IncomingMessage, sizeLimit } from './incoming-message.ts';
import { expectedRefusal, type Reply, refusalReply } from './reply.ts';

export interface SessionSettings {
  readonly delivery: Delivery;
  readonly protocol: 'smtp' | 'lmtp';
  readonly maxMessageBytes: number;
  readonly recipientsMax: number;
}

/** The connection as it is now; STARTTLS and EHLO change it. */
export interface Client {
  readonly remoteAddress: string;
  readonly heloName: string;
  /** Whether the client opened with EHLO or LHLO. */
  readonly extended: boolean;
  readonly tls: string | undefined;
}

interface Transaction {
  readonly from: string;
  readonly smtputf8: boolean;
  /** One entry per accepted RCPT, in order, repeats included (RFC 2033 section 4.2). */
  readonly to: string[];
}

const LOCAL_ERROR: Reply = { code: 451, text: '4.3.0 Local error in processing' };

export class Session {
  readonly #id: string;
  readonly #settings: SessionSettings;
  readonly #client: () => Client;
  readonly #logger: Logger;
  #transaction: Transaction | undefined;

  /** @param id said in replies and in the log */
  constructor(id: string, settings: SessionSettings, client: () => Client, logger: Logger) {
    this.#id = id;
    this.#settings = settings;
    this.#client = client;
    this.#logger = logger;
  }

  /** Drops the transaction (RFC 5321 section 4.1.4). */
  reset(): void {
    this.#transaction = undefined;
  }

  /** MAIL (RFC 5321 section 4.1.1.2). */
  mail(line: string): Reply {
    if (this.#transaction !== undefined) return { code: 503, text: '5.5.1 MAIL was sent already' };
    const command = readAddressCommand(line, 'FROM');
    if (typeof command === 'string') return faultReply(command, '5.1.7', 'MAIL FROM:<address>');
    const { path, parameters } = command;
    const refused = this.#judgeParameters(parameters);
    if (refused !== undefined) return refused;
    const smtputf8 = parameters.has('SMTPUTF8');
    if (!smtputf8 && isInternationalized(path)) return NEEDS_SMTPUTF8;
    this.#transaction = { from: path, smtputf8, to: [] };
    return { code: 250, text: '2.1.0 Sender taken' };
  }

  /** RCPT (RFC 5321 section 4.1.1.3). */
  async rcpt(line: string): Promise<Reply> {
    const transaction = this.#transaction;
    if (transaction === undefined) return { code: 503, text: '5.5.1 Send MAIL first' };
    // The earlier recipients stay, the client sends the rest in another transaction (RFC 5321 section
    // 4.5.3.1.10).
    if (transaction.to.length >= this.#settings.recipientsMax) {
      return refusalReply(
        new Refusal('too_many_recipients', 'Send the rest in a transaction more'),
      );
    }
    const command = readAddressCommand(line, 'TO');
    if (typeof command === 'string') return faultReply(command, '5.1.3', 'RCPT TO:<address>');
    const [unknown] = command.parameters.keys();
    if (unknown !== undefined) return unknownParameter(unknown);
    if (!transaction.smtputf8 && isInternationalized(command.path)) return NEEDS_SMTPUTF8;

    const recipient = command.path.includes('@') ? command.path : command.path.toLowerCase();
    try {
      const refusal = await this.#settings.delivery.checkRecipient(recipient, transaction.from);
      if (refusal !== undefined) {
        this.#logger.info({ from: transaction.from, recipient, code: refusal.code }, 'refused');
        return refusalReply(refusal);
      }
    } catch (error) {
      return this.#failure(error);
    }
    transaction.to.push(recipient);
    return { code: 250, text: '2.1.5 Recipient taken' };
  }

  /** Whether DATA may come now, or what it is answered (RFC 5321 section 4.1.1.4). */
  refuseData(): Reply | undefined {
    if (this.#transaction === undefined) return { code: 503, text: '5.5.1 Send MAIL first' };
    // 503, which RFC 5321 allows, is what RFC 2033 section 4.2 demands.
    if (this.#transaction.to.length === 0) return { code: 503, text: '5.5.1 No valid recipients' };
    return undefined;
  }

  /**
   * Hands the message to delivery.
   *
   * @returns what to answer once the message is in: by SMTP one reply, by LMTP one for each accepted
   *   RCPT in their order (RFC 2033 section 4.2); none where the client went away before the end
   */
  async take(message: IncomingMessage): Promise<readonly Reply[]> {
    const transaction = this.#transaction;
    if (transaction === undefined) throw new Error('There is no transaction to take a message for');
    const [replies, whole] = await Promise.all([
      this.#deliver(transaction, message),
      message.arrived,
    ]);
    if (!whole) {
      this.#logger.info({ from: transaction.from, bytes: message.bytes }, 'message was cut off');
      return [];
    }
    // Whatever delivery made of the part it saw, the message as a whole was not taken.
    if (message.tooLarge) {
      const refusal = new Refusal('message_too_large', sizeLimit(this.#settings.maxMessageBytes));
      return replies.map(() => refusalReply(refusal));
    }
    return replies;
  }

  async #deliver(transaction: Transaction, message: IncomingMessage): Promise<readonly Reply[]> {
    const places = this.#settings.protocol === 'lmtp' ? transaction.to : transaction.to.slice(0, 1);
    try {
      const envelope = this.#envelope(transaction);
      const outcomes = await this.#settings.delivery.receive(envelope, message);
      const replies = new Map(outcomes.map((one) => [one.recipient, this.#outcomeReply(one)]));
      if (this.#settings.protocol === 'lmtp') {
        return places.map((recipient) => replies.get(recipient) ?? this.#missing(recipient));
      }
      const all = envelope.to.map(
        (recipient) => replies.get(recipient) ?? this.#missing(recipient),
      );
      return [worst(all)];
    } catch (error) {
      const reply = this.#failure(error);
      return places.map(() => reply);
    } finally {
      // What delivery left unread nobody wants: it is skipped instead of waiting for a reader.
      message.destroy();
    }
  }

  #envelope(transaction: Transaction): InboundEnvelope {
    const { remoteAddress, heloName, extended, tls } = this.#client();
    const arrival: Arrival = {
      protocol: withKeyword(this.#settings.protocol, extended, tls !== undefined, transaction),
      heloName,
      remoteAddress,
      sessionId: this.#id,
      ...(tls === undefined ? {} : { tls }),
    };
    return { from: transaction.from, to: [...new Set(transaction.to)], arrival };
  }

  #judgeParameters(parameters: ReadonlyMap<string, string | undefined>): Reply | undefined {
    for (const [keyword, value] of parameters) {
      if (keyword === 'SIZE') {
        // size-value ::= 1*20DIGIT (RFC 1870 section 6)
        if (value === undefined || !/^\d{1,20}$/.test(value)) return badParameter(keyword);
        if (Number(value) > this.#settings.maxMessageBytes) {
          const detail = sizeLimit(this.#settings.maxMessageBytes);
          return refusalReply(new Refusal('message_too_large', detail));
        }
      } else if (keyword === 'BODY') {
        // RFC 6152 section 2; BINARYMIME would need CHUNKING (RFC 3030), which is not offered.
        if (!/^(?:7BIT|8BITMIME)$/i.test(value ?? '')) return badParameter(keyword);
      } else if (keyword === 'SMTPUTF8') {
        // Takes no value (RFC 6531 section 3.4).
        if (value !== undefined) return badParameter(keyword);
      } else {
        return unknownParameter(keyword);
      }
    }
    return undefined;
  }

  #outcomeReply(outcome: RecipientOutcome): Reply {
    return outcome.result === 'delivered'
      ? { code: 250, text: `2.0.0 Taken as ${this.#id}` }
      : refusalReply(outcome.refusal);
  }

  #missing(recipient: string): Reply {
    return this.#failure(new Error(`Delivery said nothing of ${recipient}`));
  }

  /** What a failure is answered; one that nobody expected tells the client nothing. */
  #failure(error: unknown): Reply {
    const refusal = expectedRefusal(error);
    if (refusal === undefined) {
      this.#logger.error({ err: error }, 'mail could not be taken');
      return LOCAL_ERROR;
    }
    this.#logger.info({ code: refusal.code, detail: refusal.message }, 'refused');
    return refusalReply(refusal);
  }
}

const NEEDS_SMTPUTF8: Reply = {
  // RFC 6531 section 3.5
  code: 553,
  text: '5.6.7 A non-ASCII address needs the SMTPUTF8 parameter',
};

/**
 * The one reply of SMTP. Delivery takes all recipients or none, so they agree; if they ever do not, a
 * temporary failure wins, since a message that comes twice is better than one that is lost.
 */
function worst(replies: readonly Reply[]): Reply {
  const bad = replies.filter((reply) => reply.code >= 400);
  return bad.find((reply) => reply.code < 500) ?? bad[0] ?? replies[0] ?? LOCAL_ERROR;
}

function faultReply(fault: AddressFault, status: string, form: string): Reply {
  if (fault === 'syntax') return { code: 501, text: `${status} Syntax: ${form}` };
  if (fault === 'address') return { code: 553, text: `${status} The address is not valid` };
  return { code: 501, text: '5.5.4 A parameter is malformed or given twice' };
}

function badParameter(keyword: string): Reply {
  return { code: 501, text: `5.5.4 The value of ${keyword} is not valid` };
}

/** RFC 5321 section 4.1.1.11. */
function unknownParameter(keyword: string): Reply {
  return { code: 555, text: `5.5.4 The parameter ${keyword.slice(0, 64)} is not known` };
}

/** "with" of the Received header (RFC 3848, RFC 6531 section 4.3); SMTP over TLS has none of its own. */
function withKeyword(
  protocol: 'smtp' | 'lmtp',
  extended: boolean,
  secure: boolean,
  transaction: Transaction,
): string {
  const name = protocol.toUpperCase();
  if (transaction.smtputf8) return `UTF8${name}${secure ? 'S' : ''}`;
  if (protocol === 'lmtp') return secure ? 'LMTPS' : 'LMTP';
  if (!extended) return 'SMTP';
  return secure ? 'ESMTPS' : 'ESMTP';
}
