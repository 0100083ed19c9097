/**
 * SMTP (RFC 5321) and LMTP (RFC 2033) as a server speaks them: bytes in, replies and events out.
 *
 * One {@link ServerProtocol} is one connection, without its socket and without clocks. Its owner hands
 * it what the client sends ({@link ServerProtocol.receive}), asks what follows from that
 * ({@link ServerProtocol.next}), and sends the client what there is to say
 * ({@link ServerProtocol.takeOutput}). An event that asks something holds all others back until it is
 * answered: `mail`, `recipient` and `data` by {@link ServerProtocol.answer}, the last `content` of a
 * message by {@link ServerProtocol.finish}, `starttls` by {@link ServerProtocol.secured}.
 *
 * A message is passed on as it came, byte for byte, but for the dots that the protocol adds: bare CR
 * and bare LF in it are neither mended nor refused, and never end it.
 */
import { Refusal } from '../errors/errors.ts';
import { DotTransparency, formatReply, type Reply } from '../net/net.ts';
import {
  CommandLines,
  isHttp,
  isInternationalized,
  judgeCommand,
  readAddressCommand,
  readMailParameters,
  refusalReply,
  reply,
  unknownParameter,
  worstOf,
} from './commands.ts';

export interface ProtocolOptions {
  /** The name we go by. */
  readonly hostname: string;
  readonly protocol: 'smtp' | 'lmtp';
  /** Octets of the largest message (RFC 1870). */
  readonly maxMessageBytes: number;
  /** Recipients of one message. By SMTP, more refused ones without a message end a connection. */
  readonly recipientsMax: number;
  /** Wrong commands without a message between them that end a connection. */
  readonly errorsMax: number;
  /** Commands without a message between them that end a connection. */
  readonly commandsMax: number;
  /** Told of each command, in upper case, whatever becomes of it. */
  readonly onCommand?: ((verb: string) => void) | undefined;
}

/** What the client said of itself (RFC 5321 section 4.1.1.1). */
export interface Hello {
  readonly name: string;
  /** Whether by EHLO or LHLO. */
  readonly isExtended: boolean;
}

/** A mail transaction (RFC 5321 section 3.3) whose message is about to come. */
export interface Transaction {
  readonly hello: Hello;
  /** What {@link ServerProtocol.secured} was told; undefined in plaintext. */
  readonly tls: string | undefined;
  readonly from: string;
  /** What SIZE announced (RFC 1870); 0 where nothing was said. */
  readonly size: number;
  /** Whether the client asked for SMTPUTF8 (RFC 6531). */
  readonly isUtf8: boolean;
  /** Accepted recipients in their order, without repeats. */
  readonly to: readonly string[];
}

export type ProtocolEvent =
  /** May the client send a message of so many octets? 0 where it did not say how many. */
  | { readonly kind: 'mail'; readonly from: string; readonly size: number }
  /** May the message go to this recipient? */
  | {
      readonly kind: 'recipient';
      readonly recipient: string;
      readonly from: string;
      /** What MAIL says of the message, see {@link MailParameters}. */
      readonly size: number;
    }
  /** May the message come now? Where yes, `content` follows. */
  | { readonly kind: 'data'; readonly transaction: Transaction }
  /** The next octets of the message, and whether they are the last ones. The buffer is not used again. */
  | { readonly kind: 'content'; readonly bytes: Buffer; readonly isLast: boolean }
  /** Once the output is sent, what follows is TLS. */
  | { readonly kind: 'starttls' };

type OpenTransaction = Pick<Transaction, 'from' | 'size' | 'isUtf8'> & {
  /** One entry for each accepted RCPT, repeats included (RFC 2033 section 4.2). */
  readonly to: string[];
};

/** Of the connection, or since its last message that was taken. */
const NO_COUNTS = { commands: 0, errors: 0, refusedRecipients: 0 };

/** Extensions that are always offered (RFC 2920, RFC 6152, RFC 6531, RFC 2034). */
const EXTENSIONS = ['PIPELINING', '8BITMIME', 'SMTPUTF8', 'ENHANCEDSTATUSCODES'];

/** Octets of a name that a client gives itself: of a domain (RFC 5321 section 4.5.3.1.2), and slack. */
const HELLO_MAX = 300;

export class ServerProtocol {
  readonly #options: ProtocolOptions;
  readonly #lines = new CommandLines();
  #output = '';
  /** Does what an answer to the event that was given leads to. */
  #onAnswer: ((refusal: Reply | undefined) => void) | undefined;
  /** Set while a message comes in. */
  #content: DotTransparency | undefined;
  /** Whether the client has to wait for the owner. */
  #isWaiting = false;
  #isOver = false;
  #hello: Hello | undefined;
  #tls: string | undefined;
  #transaction: OpenTransaction | undefined;
  #counts = { ...NO_COUNTS };

  constructor(options: ProtocolOptions) {
    this.#options = options;
  }

  /** Whether the connection ends once the output is sent: what the client sends does not count. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** Says who we are; comes first, and once (RFC 5321 section 3.1). */
  greet(): void {
    const { hostname, protocol } = this.#options;
    this.#say({ code: 220, text: `${hostname} ${protocol === 'lmtp' ? 'LMTP' : 'ESMTP'}` });
  }

  /** Takes bytes from the client; they are changed in place. */
  receive(bytes: Buffer): void {
    if (!this.#isOver) this.#lines.add(bytes);
  }

  /** Takes what there is to send: replies to pipelined commands leave together (RFC 2920). */
  takeOutput(): string {
    const output = this.#output;
    this.#output = '';
    return output;
  }

  /** What follows from what came; undefined where more bytes or an answer are needed first. */
  next(): ProtocolEvent | undefined {
    while (!this.#isWaiting && !this.#isOver) {
      if (this.#content) return this.#readContent(this.#content);
      const line = this.#lines.next();
      if (line === undefined) return undefined;
      if (++this.#counts.commands > this.#options.commandsMax) {
        this.hangUp(reply(421, '4.7.0', 'Too many commands without a message'));
      } else if (typeof line === 'string') {
        const event = this.#run(line);
        if (event) return event;
      } else if (line.isFatal) this.hangUp(line.reply);
      else this.#refuse(line.reply);
    }
    return undefined;
  }

  /** Answers `mail`, `recipient` or `data`: yes, or the reply that refuses it. */
  answer(refusal?: Reply): void {
    const onAnswer = this.#onAnswer;
    if (this.#isOver) return;
    if (!onAnswer) throw new Error('nothing was asked');
    this.#onAnswer = undefined;
    this.#isWaiting = false;
    onAnswer(refusal);
  }

  /**
   * Answers a message that is in, and reads commands again. By LMTP each accepted RCPT has a reply, in
   * their order, repeats included (RFC 2033 section 4.2); by SMTP there is one for all.
   *
   * @param replyFor what is said of a recipient
   * @returns whether the message was taken for somebody
   */
  finish(replyFor: (recipient: string) => Reply): boolean {
    const transaction = this.#transaction;
    if (this.#isOver) return false;
    if (!transaction || !this.#isWaiting) throw new Error('no message waits for its reply');
    const replies = transaction.to.map(replyFor);
    const said = this.#options.protocol === 'lmtp' ? replies : [worstOf(replies)];
    for (const reply of said) this.#say(reply);
    const isTaken = said.some(({ code }) => code === 250);
    if (isTaken) this.#counts = { ...NO_COUNTS };
    this.#transaction = undefined;
    this.#isWaiting = false;
    return isTaken;
  }

  /**
   * Answers `starttls`. What was said in plaintext is forgotten (RFC 3207 section 4.2); what came in
   * plaintext behind STARTTLS is dropped: it may be somebody else's (section 6).
   *
   * @param tls protocol and cipher, for the Received field
   */
  secured(tls: string): void {
    this.#lines.takeAll();
    this.#tls = tls;
    this.#hello = undefined;
    this.#transaction = undefined;
    this.#isWaiting = false;
  }

  /** Ends the connection with a reply, whatever is under way. */
  hangUp(lastReply: Reply): undefined {
    if (this.#isOver) return;
    this.#say(lastReply);
    this.#isOver = true;
    this.#lines.takeAll();
  }

  #readContent(content: DotTransparency): ProtocolEvent | undefined {
    const input = this.#lines.takeAll();
    if (input.length === 0) return undefined;
    const { content: bytes, rest } = content.take(input);
    const isLast = rest !== undefined;
    if (isLast) {
      this.#lines.add(rest);
      this.#content = undefined;
      this.#isWaiting = true;
    }
    return { kind: 'content', bytes, isLast };
  }

  /** Runs a command line; answers the event that it leads to, if any. */
  #run(line: string): ProtocolEvent | undefined {
    if (isHttp(line)) return this.hangUp(reply(421, '4.7.0', 'HTTP requests are not allowed'));
    const verb = /^[a-z]+(?= |$)/i.exec(line)?.[0].toUpperCase() ?? '';
    this.#options.onCommand?.(verb);
    const argument = line.slice(verb.length).trim();
    const refusal = judgeCommand(verb, argument !== '', {
      protocol: this.#options.protocol,
      isGreeted: this.#hello !== undefined,
      isSecure: this.#tls !== undefined,
    });
    if (refusal) return this.#refuse(refusal);
    switch (verb) {
      case 'EHLO':
      case 'LHLO':
      case 'HELO':
        return this.#greet(verb, argument);
      case 'MAIL':
        return this.#mail(line);
      case 'RCPT':
        return this.#recipient(line);
      case 'DATA':
        return this.#data();
      case 'STARTTLS':
        this.#say(reply(220, '2.0.0', 'Ready to start TLS'));
        this.#isWaiting = true;
        return { kind: 'starttls' };
      case 'RSET':
        this.#transaction = undefined;
        return this.#say(reply(250, '2.0.0', 'Flushed'));
      case 'NOOP':
        return this.#say(reply(250, '2.0.0', 'OK'));
      case 'HELP':
        return this.#say(reply(214, '2.0.0', 'See https://www.rfc-editor.org/rfc/rfc5321'));
      case 'VRFY':
        return this.#verify(argument);
      case 'QUIT':
        return this.hangUp(reply(221, '2.0.0', 'Bye'));
      default:
        return this.#refuse(reply(500, '5.5.2', 'The command is not known'));
    }
  }

  /** EHLO, HELO (RFC 5321 section 4.1.1.1) and LHLO. A transaction ends with it (section 4.1.4). */
  #greet(verb: string, name: string): undefined {
    // Replies to a greeting have no enhanced status code (RFC 2034 section 3).
    if (name === '' || name.includes(' ') || name.length > HELLO_MAX) {
      return this.#refuse({ code: 501, text: `Syntax: ${verb} host.name` });
    }
    const isExtended = verb !== 'HELO';
    this.#hello = { name: name.toLowerCase(), isExtended };
    this.#transaction = undefined;
    const { hostname, maxMessageBytes } = this.#options;
    const tls = this.#tls === undefined ? ['STARTTLS'] : [];
    const offered = isExtended ? [...EXTENSIONS, ...tls, `SIZE ${maxMessageBytes}`] : [];
    this.#say({ code: 250, text: [hostname, ...offered].join('\n') });
  }

  /** MAIL (RFC 5321 section 4.1.1.2). */
  #mail(line: string): ProtocolEvent | undefined {
    if (this.#transaction) return this.#refuse(reply(503, '5.5.1', 'MAIL was sent already'));
    const command = readAddressCommand(line, 'FROM');
    if ('code' in command) return this.#refuse(command);
    const parameters = readMailParameters(command.parameters, this.#options.maxMessageBytes);
    if ('code' in parameters) return this.#refuse(parameters);
    const { path: from } = command;
    const { size, isUtf8 } = parameters;
    if (!isUtf8 && isInternationalized(from)) return this.#refuse(NEEDS_SMTPUTF8);
    return this.#ask({ kind: 'mail', from, size }, (refusal) => {
      if (refusal) return this.#refuse(refusal);
      this.#transaction = { from, size, isUtf8, to: [] };
      this.#say(reply(250, '2.1.0', 'Sender taken'));
    });
  }

  /** RCPT (RFC 5321 section 4.1.1.3). */
  #recipient(line: string): ProtocolEvent | undefined {
    const transaction = this.#transaction;
    if (!transaction) return this.#refuse(reply(503, '5.5.1', 'Send MAIL first'));
    // The earlier recipients stay, the client sends the rest in another transaction (RFC 5321 section
    // 4.5.3.1.10).
    const { recipientsMax } = this.#options;
    if (transaction.to.length >= recipientsMax) return this.#refuse(TOO_MANY_RECIPIENTS);
    const command = readAddressCommand(line, 'TO');
    if ('code' in command) return this.#refuseRecipient(command);
    const [unknown] = command.parameters.keys();
    if (unknown !== undefined) return this.#refuseRecipient(unknownParameter(unknown));
    const { from, size } = transaction;
    const { path } = command;
    const isUnfit = !transaction.isUtf8 && isInternationalized(path);
    if (isUnfit) return this.#refuseRecipient(NEEDS_SMTPUTF8);
    // "Postmaster" alone is the same in any case (RFC 5321 section 4.1.1.3).
    const recipient = path.includes('@') ? path : path.toLowerCase();
    return this.#ask({ kind: 'recipient', from, size, recipient }, (refusal) => {
      if (refusal) return this.#refuseRecipient(refusal);
      transaction.to.push(recipient);
      this.#say(reply(250, '2.1.5', 'Recipient taken'));
    });
  }

  /** DATA (RFC 5321 section 4.1.1.4). */
  #data(): ProtocolEvent | undefined {
    const hello = this.#hello;
    const transaction = this.#transaction;
    if (!hello || !transaction) return this.#refuse(reply(503, '5.5.1', 'Send MAIL first'));
    // 503, which RFC 5321 allows, is what RFC 2033 section 4.2 demands.
    const isEmpty = transaction.to.length === 0;
    if (isEmpty) return this.#refuse(reply(503, '5.5.1', 'No valid recipients'));
    const asked: Transaction = {
      ...transaction,
      to: [...new Set(transaction.to)],
      hello,
      tls: this.#tls,
    };
    return this.#ask({ kind: 'data', transaction: asked }, (refusal) => {
      if (refusal) return this.#refuse(refusal);
      this.#content = new DotTransparency();
      this.#say({ code: 354, text: 'End the message with a line that is a single dot' });
    });
  }

  /** VRFY. Nobody is told which addresses there are (RFC 5321 section 7.3). */
  #verify(address: string): undefined {
    if (address === '') return this.#refuse(reply(501, '5.5.4', 'Syntax: VRFY address'));
    this.#say(reply(252, '2.1.5', 'Cannot verify, but will take mail and try to deliver it'));
  }

  #ask(event: ProtocolEvent, onAnswer: (refusal: Reply | undefined) => void): ProtocolEvent {
    this.#isWaiting = true;
    this.#onAnswer = onAnswer;
    return event;
  }

  #say(said: Reply): undefined {
    this.#output += formatReply(said);
  }

  #refuse(refusal: Reply): undefined {
    const { code } = refusal;
    this.#say(refusal);
    const isClientsError = (code >= 500 && code <= 504) || code === 555;
    if (isClientsError && ++this.#counts.errors >= this.#options.errorsMax) {
      this.hangUp(reply(421, '4.7.0', 'Too many errors'));
    }
  }

  /** A stranger who keeps guessing recipients is collecting addresses. */
  #refuseRecipient(refusal: Reply): undefined {
    this.#refuse(refusal);
    if (refusal.code < 550 || this.#options.protocol === 'lmtp') return;
    if (++this.#counts.refusedRecipients > this.#options.recipientsMax) {
      this.hangUp(reply(421, '4.7.0', 'Too many unknown recipients'));
    }
  }
}

/** RFC 6531 section 3.5. */
const NEEDS_SMTPUTF8 = reply(553, '5.6.7', 'A non-ASCII address needs the SMTPUTF8 parameter');

const TOO_MANY_RECIPIENTS = refusalReply(
  new Refusal('too_many_recipients', 'Send the rest in one more transaction'),
);
