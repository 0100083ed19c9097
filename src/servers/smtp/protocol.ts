/**
 * SMTP (RFC 5321) and LMTP (RFC 2033) as a server speaks them: bytes in, replies and events out.
 *
 * One {@link ServerProtocol} is one connection, without its socket and without clocks. Its owner passes in
 * what the client sends ({@link ServerProtocol.receive}), asks for the next event
 * ({@link ServerProtocol.next}), and sends the output to the client ({@link ServerProtocol.takeOutput}). An
 * event that asks something holds back all others until it is answered: `login`, `mail`, `recipient` and `data` by
 * {@link ServerProtocol.answer}, the last `content` of a message by {@link ServerProtocol.finish}, `starttls`
 * by {@link ServerProtocol.secured}.
 *
 * A message is passed on byte for byte as it came, without the dots that dot-stuffing added. Bare CR and bare
 * LF in it are neither corrected nor refused, and never end it.
 */
import { Refusal } from '../../platform/errors/errors.ts';
import { ANSWER_MAX } from '../../protocols/sasl/sasl.ts';
import {
  DotTransparency,
  formatReply,
  isInternationalized,
  type Reply,
} from '../../protocols/smtp-client/smtp-client.ts';
import { AUTH_OFFER, type AuthAnswer, AuthExchange, FAILED_LOGINS_MAX } from './auth.ts';
import {
  CommandLines,
  isHttp,
  judgeCommand,
  type LoginState,
  readAddressCommand,
  readMailParameters,
  refusalReply,
  reply,
  unknownParameter,
  worstOf,
} from './commands.ts';
import type { Hello, ProtocolEvent, ProtocolOptions, Transaction } from './protocol-events.ts';

type OpenTransaction = Pick<Transaction, 'from' | 'size' | 'isUtf8'> & {
  /** One entry for each accepted RCPT, repeats included (RFC 2033 section 4.2). */
  readonly to: string[];
};

/** Counted since the connection began, or since its last accepted message. */
const NO_COUNTS = { commands: 0, errors: 0, refusedRecipients: 0 };

/** Extensions that are always offered (RFC 2920, RFC 6152, RFC 6531, RFC 2034). */
const EXTENSIONS = ['PIPELINING', '8BITMIME', 'SMTPUTF8', 'ENHANCEDSTATUSCODES'];

/** Octets of the name in a greeting: of a domain (RFC 5321 section 4.5.3.1.2), with reserve. */
const HELLO_MAX = 300;

export class ServerProtocol {
  readonly #options: ProtocolOptions;
  readonly #lines: CommandLines;
  #output = '';
  /** Continues after the answer to the last event. */
  #onAnswer: ((refusal: Reply | undefined) => void) | undefined;
  /** Set while a message comes in. */
  #content: DotTransparency | undefined;
  /** Whether the next event waits for the owner's answer. */
  #isWaiting = false;
  #isOver = false;
  #hello: Hello | undefined;
  #tls: string | undefined;
  #transaction: OpenTransaction | undefined;
  #counts = { ...NO_COUNTS };
  /** Set while the client answers a challenge. */
  #auth: AuthExchange | undefined;
  #isLoggedIn = false;
  #failedLogins = 0;

  constructor(options: ProtocolOptions) {
    this.#options = options;
    // "AUTH OAUTHBEARER " and CRLF need some octets more than an answer (RFC 4954 section 4).
    this.#lines = new CommandLines(options.login ? ANSWER_MAX + 32 : undefined);
  }

  /** Whether the connection ends after the output is sent: anything more from the client is ignored. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** Writes the greeting; called first, and once (RFC 5321 section 3.1). */
  greet(): void {
    const { hostname, protocol } = this.#options;
    this.#say({ code: 220, text: `${hostname} ${protocol === 'lmtp' ? 'LMTP' : 'ESMTP'}` });
  }

  /** Adds bytes of the client; the buffer is changed in place. */
  receive(bytes: Buffer): void {
    if (!this.#isOver) this.#lines.add(bytes);
  }

  /** Removes and returns the output: replies to pipelined commands are sent together (RFC 2920). */
  takeOutput(): string {
    const output = this.#output;
    this.#output = '';
    return output;
  }

  /** The next event; undefined where more bytes or an answer are needed first. */
  next(): ProtocolEvent | undefined {
    while (!this.#isWaiting && !this.#isOver) {
      if (this.#content) return this.#readContent(this.#content);
      const line = this.#lines.next();
      if (line === undefined) return undefined;
      if (++this.#counts.commands > this.#options.commandsMax) {
        this.hangUp(reply(421, '4.7.0', 'Too many commands without a message'));
      } else if (typeof line === 'string') {
        const event = this.#auth ? this.#stepLogin(this.#auth, line) : this.#run(line);
        if (event) return event;
      } else if (line.isFatal) this.hangUp(line.reply);
      else {
        this.#auth = undefined;
        this.#refuse(line.reply);
      }
    }
    return undefined;
  }

  /** Answers `login`, `mail`, `recipient` or `data`: accepted, or the reply that refuses it. */
  answer(refusal?: Reply): void {
    const onAnswer = this.#onAnswer;
    if (this.#isOver) return;
    if (!onAnswer) throw new Error('nothing was asked');
    this.#onAnswer = undefined;
    this.#isWaiting = false;
    onAnswer(refusal);
  }

  /**
   * Answers a message that has come in, and reads commands again. By LMTP each accepted RCPT gets a reply, in
   * order, repeats included (RFC 2033 section 4.2); by SMTP there is one for all.
   *
   * @param replyFor the reply for a recipient
   * @returns whether the message was accepted for any recipient
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
   * Answers `starttls`. Everything from before TLS is forgotten (RFC 3207 section 4.2). Plaintext that came
   * after STARTTLS is dropped: an attacker may have added it (section 6).
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

  /** Ends the connection with this reply, whatever is under way. */
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

  /** Runs a command line; returns its event, if it has one. */
  #run(line: string): ProtocolEvent | undefined {
    if (isHttp(line)) return this.hangUp(reply(421, '4.7.0', 'HTTP requests are not allowed'));
    const verb = /^[a-z]+(?= |$)/i.exec(line)?.[0].toUpperCase() ?? '';
    this.#options.onCommand?.(verb);
    const argument = line.slice(verb.length).trim();
    const refusal = judgeCommand(verb, argument !== '', {
      protocol: this.#options.protocol,
      isGreeted: this.#hello !== undefined,
      isSecure: this.#tls !== undefined,
      login: this.#login,
    });
    if (refusal) return this.#refuse(refusal);
    switch (verb) {
      case 'EHLO':
      case 'LHLO':
      case 'HELO':
        return this.#greet(verb, argument);
      case 'AUTH':
        return this.#logIn(argument);
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

  /** EHLO, HELO (RFC 5321 section 4.1.1.1) and LHLO. Each ends a transaction (section 4.1.4). */
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
    const auth = this.#login === 'offered' ? [AUTH_OFFER] : [];
    const size = `SIZE ${maxMessageBytes}`;
    const offered = isExtended ? [...EXTENSIONS, ...tls, ...auth, size] : [];
    this.#say({ code: 250, text: [hostname, ...offered].join('\n') });
  }

  get #login(): LoginState {
    const { login } = this.#options;
    if (!login) return 'none';
    if (this.#isLoggedIn) return 'done';
    return login === 'anywhere' || this.#tls !== undefined ? 'offered' : 'needs TLS';
  }

  /** AUTH (RFC 4954 section 4). */
  #logIn(argument: string): ProtocolEvent | undefined {
    const begun = AuthExchange.begin(argument);
    return 'code' in begun ? this.#refuse(begun) : this.#stepLogin(begun);
  }

  #stepLogin(exchange: AuthExchange, line?: string): ProtocolEvent | undefined {
    const step = exchange.next(line);
    if (step.kind !== 'login') return this.#sayStep(exchange, step);
    this.#auth = undefined;
    return this.#ask({ kind: 'login', given: step.given }, (refusal) => {
      if (refusal) return this.#sayStep(exchange, exchange.refuse(refusal));
      this.#isLoggedIn = true;
      this.#say(reply(235, '2.7.0', 'Logged in'));
    });
  }

  #sayStep(exchange: AuthExchange, step: AuthAnswer): undefined {
    this.#auth = step.kind === 'challenge' ? exchange : undefined;
    if (step.kind === 'challenge') return this.#say({ code: 334, text: step.text });
    // Also where nothing was checked: a client that cannot write base64 never logs in.
    if (++this.#failedLogins < FAILED_LOGINS_MAX) return this.#refuse(step.reply);
    return this.hangUp(reply(421, '4.7.0', 'Too many failed logins'));
  }

  /** MAIL (RFC 5321 section 4.1.1.2). */
  #mail(line: string): ProtocolEvent | undefined {
    if (this.#transaction) return this.#refuse(reply(503, '5.5.1', 'MAIL was sent already'));
    const command = readAddressCommand(line, 'FROM');
    if ('code' in command) return this.#refuse(command);
    const { maxMessageBytes, login } = this.#options;
    const takesAuth = login !== undefined;
    const parameters = readMailParameters(command.parameters, maxMessageBytes, takesAuth);
    if ('code' in parameters) return this.#refuse(parameters);
    const { path: from } = command;
    const { size, isUtf8 } = parameters;
    if (!isUtf8 && isInternationalized(from)) return this.#refuse(NEEDS_SMTPUTF8);
    return this.#ask({ kind: 'mail', from, size }, (refusal) => {
      if (refusal) return this.#refuse(refusal);
      this.#transaction = { from, size, isUtf8, to: [] };
      this.#say(reply(250, '2.1.0', 'Sender accepted'));
    });
  }

  /** RCPT (RFC 5321 section 4.1.1.3). */
  #recipient(line: string): ProtocolEvent | undefined {
    const transaction = this.#transaction;
    if (!transaction) return this.#refuse(reply(503, '5.5.1', 'Send MAIL first'));
    // The recipients so far stay accepted; the client sends the rest in another transaction (RFC 5321 section
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
    // "Postmaster" alone, in any case, is that of our own name (RFC 5321 sections 4.1.1.3 and 4.5.1). An account has to say
    // whose it writes to: what it sends to our own name bounces.
    const { hostname, login } = this.#options;
    const recipient = path.includes('@') || login ? path : `postmaster@${hostname}`;
    return this.#ask({ kind: 'recipient', from, size, recipient }, (refusal) => {
      if (refusal) return this.#refuseRecipient(refusal);
      transaction.to.push(recipient);
      this.#say(reply(250, '2.1.5', 'Recipient accepted'));
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
      isLoggedIn: this.#isLoggedIn,
    };
    return this.#ask({ kind: 'data', transaction: asked }, (refusal) => {
      if (refusal) return this.#refuse(refusal);
      this.#content = new DotTransparency();
      this.#say({ code: 354, text: 'End the message with a line that is a single dot' });
    });
  }

  /** VRFY. It does not tell which addresses exist (RFC 5321 section 7.3). */
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

  /** A stranger who guesses many recipients collects addresses: the connection ends. */
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
