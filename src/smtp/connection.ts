/**
 * Where Postroom and the smtp-server library meet: the only file that overrides members which the
 * library does not document, but for the parser in line-parser.ts and connect() in smtp.ts.
 *
 * Read against smtp-server 3.21.6; connection.test.ts fails when another version is installed or an
 * overridden member is gone. The library keeps sockets, TLS, HELO, EHLO, NOOP, RSET, QUIT, HELP and
 * VRFY. Ours are: who may connect and when it is greeted, the parser, MAIL, RCPT and DATA, enhanced
 * status codes, deadlines, limits, and how a connection ends.
 */
import type { Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import type { Logger } from 'pino';
import type { SMTPServer } from 'smtp-server';
import { SMTPConnection, type SMTPConnectionOptions } from 'smtp-server/lib/smtp-connection.js';
import { answerOf } from '../errors/errors.ts';
import { refuseLine, withoutTrailingSpace } from './command-line.ts';
import type { IncomingMessage } from './incoming-message.ts';
import { type LineFault, LineParser } from './line-parser.ts';
import type { Reply } from './reply.ts';
import type { ReplyTurns } from './reply-turns.ts';
import { type Client, Session, type SessionSettings } from './session.ts';

export const READ_AGAINST = '3.21.6';

export interface ConnectionSettings extends SessionSettings {
  /** Milliseconds without a byte, or without a whole command line, after which we hang up. */
  readonly idleTimeout: number;
  /** Milliseconds that a message may take from `354` to its end. */
  readonly messageTimeout: number;
  /** Milliseconds before the greeting in which the client has to be silent. */
  readonly greetingDelay: number;
  /** Clients that are greeted at once. */
  readonly trusted: (address: string) => boolean;
  /** Wrong commands, since the last message taken, after which we hang up. */
  readonly errorsMax: number;
  /** Commands, since the last message taken, after which we hang up. */
  readonly commandsMax: number;
}

export class Connection extends SMTPConnection {
  readonly #settings: ConnectionSettings;
  readonly #session: Session;
  readonly #replyTurns: ReplyTurns;
  readonly #ended: () => void;
  #greeting: NodeJS.Timeout | undefined;
  #deadline: NodeJS.Timeout | undefined;
  #message: IncomingMessage | undefined;
  /** Settles when no message is with delivery any more. */
  #taking: Promise<void> = Promise.resolve();
  /** The socket, while replies are held back in it. */
  #held: Socket | undefined;
  /** Whether they are about to leave. */
  #joined = false;
  #draining = false;
  #errors = 0;
  #commands = 0;
  #refusedRecipients = 0;

  /** @param ended called once, when the socket is closed */
  constructor(
    server: SMTPServer,
    socket: Socket | TLSSocket,
    options: SMTPConnectionOptions | null | undefined,
    ours: {
      settings: ConnectionSettings;
      logger: Logger;
      replyTurns: ReplyTurns;
      ended: () => void;
    },
  ) {
    // Calls _createParser(), when no field of ours exists yet.
    super(server, socket, options ?? null);
    this.#settings = ours.settings;
    this.#replyTurns = ours.replyTurns;
    this.#ended = ours.ended;
    const logger = ours.logger.child({ session: this.id, remoteAddress: this.remoteAddress });
    this.#session = new Session(this.id, ours.settings, () => this.#client(), logger);
  }

  /** The message that is with delivery now, if any. */
  get taking(): Promise<void> {
    return this.#taking;
  }

  /**
   * Greets the client.
   *
   * A client that talks before it is greeted does not wait for answers either: spam software, or a
   * browser made to talk to us. RFC 5321 section 4.3.1 has clients wait, so those that do not are
   * turned away. To see it, the library waits 100 ms with every client; here only strangers wait, since
   * the delay would be most of the time that a message from our own MTA takes.
   */
  override init(): void {
    this._setListeners(() => {
      const { greetingDelay, trusted, idleTimeout } = this.#settings;
      this.#arm(idleTimeout);
      const parser = this.#parser();
      if (greetingDelay === 0 || trusted(this.remoteAddress) || parser === undefined) {
        this.connectionReady();
        return;
      }
      parser.onearly = () => this.#hangUp(554, '5.5.1 Wait for the greeting');
      this.#greeting = setTimeout(() => {
        parser.onearly = undefined;
        this.connectionReady();
      }, greetingDelay);
    });
  }

  /** Turns the client away instead of greeting it. */
  refuse(): void {
    this._setListeners(() => {
      const { code, enhanced } = answerOf('too_many_connections').smtp;
      this.#hangUp(code, `${enhanced} Too many connections, try again later`);
    });
  }

  /**
   * Ends the connection as soon as no message is under way (RFC 5321 section 3.8: 421, at any time; a
   * message that is being received is finished first, since it costs the client most to send again).
   */
  drain(): void {
    this.#draining = true;
    if (this.#message === undefined) this.#shutDown();
  }

  /** Ends the connection now, whatever is under way. */
  destroy(): void {
    if (!this._closing) this.#shutDown();
    this._socket.destroy();
  }

  override close(): void {
    super.close();
    this.#release();
  }

  override _onClose(): void {
    super._onClose();
    this.#release();
    this.#ended();
  }

  override send(code: number, text?: string | string[] | null, context?: string | false): void {
    // Our texts bring their enhanced status code.
    const ours = typeof text === 'string' && /^[245]\.\d{1,3}\.\d{1,3} /.test(text);
    this.#hold();
    super.send(code, text, ours ? false : context);
    if ((code >= 500 && code <= 504) || code === 555) this.#countError();
  }

  /** Looks a code up, and never one of another class than the reply's (RFC 3463 section 2). */
  override _getEnhancedStatusCode(code: number, context?: string | false): string {
    const status = super._getEnhancedStatusCode(code, context);
    // The library also looks the name of an unknown command up among its contexts: a client that sends
    // the command DATA_OK would be answered "500 2.6.0".
    const agrees = status === '' || status.charAt(0) === String(code).charAt(0);
    return agrees ? status : super._getEnhancedStatusCode(code);
  }

  override _createParser(): LineParser {
    const parser = new LineParser();
    parser.oncommand = (line, resume) => this._onCommand(line, resume ?? (() => {}));
    parser.onfault = (fault, resume) => this.#onFault(fault, resume);
    parser.onidle = () => this.#flushInTurn();
    return parser;
  }

  /** Judges a line as a line, then leaves it to the library to find its command. */
  override _onCommand(line: Buffer, resume: () => void): void {
    this.#deadline?.refresh();
    this.#commands += 1;
    if (this.#commands > this.#settings.commandsMax) {
      this.#hangUp(421, '4.7.0 Too many commands without a message');
      return;
    }
    // Errors are counted in send(), for all commands alike.
    this._unrecognizedCommands = 0;
    const command = withoutTrailingSpace(line);
    const fault = refuseLine(command, this.#settings.protocol);
    if (fault === undefined) {
      super._onCommand(command, resume);
    } else {
      this.#reply(fault);
      this._whenWritable(resume);
    }
  }

  override handler_MAIL(command: Buffer, resume: () => void): void {
    this.#reply(this.#session.mail(command.toString()));
    resume();
  }

  override handler_RCPT(command: Buffer, resume: () => void): void {
    void this.#session.rcpt(command.toString()).then((reply) => {
      this.#reply(reply);
      if (reply.code >= 550) this.#countRefusedRecipient();
      resume();
    });
  }

  override handler_DATA(_command: Buffer, resume: () => void): void {
    const refusal = this.#session.refuseData();
    const parser = this.#parser();
    if (refusal !== undefined || parser === undefined) {
      if (refusal !== undefined) this.#reply(refusal);
      resume();
      return;
    }
    this.#message = parser.startMessage(this.#settings.maxMessageBytes);
    this.#arm(this.#settings.messageTimeout);
    this.send(354, 'End the message with a line that is a single dot');
    this.#taking = this.#take(this.#message, parser);
    resume();
  }

  /** RSET, HELO, EHLO, LHLO and STARTTLS all come by here (RFC 5321 section 4.1.4, RFC 3207). */
  override _resetSession(): void {
    super._resetSession();
    this.#session.reset();
  }

  override _onTimeout(): void {
    if (this.#waitsForUs && !this._closing) this._armTimeout();
    else super._onTimeout();
  }

  override _whenWritable(next: () => void): void {
    // What is held back would never drain.
    if (this._socket.writableNeedDrain) this.#flush();
    super._whenWritable(next);
  }

  override upgrade(resume: () => void, secured?: () => void): void {
    // The reply to STARTTLS has to leave in plaintext.
    this.#flush();
    // The library is about to remove all listeners of the socket; of one that is already gone, it
    // would never hear again, and neither would the count of connections.
    if (this._socket.destroyed) resume();
    else super.upgrade(resume, secured);
  }

  /** Takes the message that follows `354`, answers it, and reads commands again. */
  async #take(message: IncomingMessage, parser: LineParser): Promise<void> {
    const replies = await this.#session.take(message);
    for (const reply of replies) this.#reply(reply);
    if (replies.some((reply) => reply.code === 250)) {
      this.#errors = 0;
      this.#commands = 0;
      this.#refusedRecipients = 0;
    }
    this.#message = undefined;
    this._resetSession();
    if (this._closing || this._closed) return;
    this.#arm(this.#settings.idleTimeout);
    if (this.#draining) this.#shutDown();
    else this._whenWritable(() => parser.continue());
  }

  #client(): Client {
    const socket = this._socket;
    const cipher = this.tlsOptions;
    return {
      remoteAddress: this.remoteAddress,
      heloName: this.hostNameAppearsAs || '',
      extended: this.openingCommand !== 'HELO',
      // A socket that has just been closed has forgotten its protocol.
      tls:
        cipher && socket instanceof TLSSocket
          ? `${socket.getProtocol() ?? 'TLS'} ${cipher.name}`
          : undefined,
    };
  }

  /** The parser, which the library replaces at STARTTLS and drops at the end. */
  #parser(): LineParser | undefined {
    return this._parser instanceof LineParser ? this._parser : undefined;
  }

  #onFault(fault: LineFault, resume: () => void): void {
    if (fault === 'too long') {
      this.send(500, '5.5.2 The line is too long');
      this._whenWritable(resume);
    } else if (fault === 'bare LF') {
      // Whether more lines follow depends on what ends a line for the client: the two sides do not
      // agree on what is a command, so there is nothing safe to go on with.
      this.#hangUp(500, '5.5.2 A line ends with CRLF, not with LF');
    } else {
      this.#hangUp(500, '5.5.2 The line does not end');
    }
  }

  #reply(reply: Reply): void {
    this.send(reply.code, reply.text);
  }

  /**
   * Holds replies back until all that came has been answered, so that those to pipelined commands leave
   * together (RFC 2920 section 3.2), and those to clients that wait for each at the end of the turn: a
   * write costs more than all else that is done for a command.
   */
  #hold(): void {
    if (this.#held !== undefined) return;
    this.#held = this._socket;
    this.#held.cork();
    if (this.#parser()?.pipelined !== true) this.#flushInTurn();
  }

  #flushInTurn(): void {
    if (this.#held === undefined || this.#joined) return;
    this.#joined = true;
    this.#replyTurns.join(() => {
      this.#joined = false;
      this.#flush();
    });
  }

  #flush(): void {
    this.#held?.uncork();
    this.#held = undefined;
  }

  #hangUp(code: number, text: string): void {
    if (this._closing) return;
    super.send(code, text, false);
    this.close();
  }

  #shutDown(): void {
    this.#hangUp(421, '4.3.2 The server is shutting down');
  }

  #countError(): void {
    this.#errors += 1;
    if (this.#errors >= this.#settings.errorsMax) this.#hangUp(421, '4.7.0 Too many errors');
  }

  /** A stranger who keeps guessing recipients is collecting addresses. */
  #countRefusedRecipient(): void {
    this.#refusedRecipients += 1;
    if (this.#settings.protocol === 'lmtp') return;
    if (this.#refusedRecipients > this.#settings.recipientsMax) {
      this.#hangUp(421, '4.7.0 Too many unknown recipients');
    }
  }

  /** Arms the deadline of what the client owes us now: a command, or a message. */
  #arm(milliseconds: number): void {
    clearTimeout(this.#deadline);
    this.#deadline = setTimeout(() => {
      if (this.#waitsForUs) this.#deadline?.refresh();
      else super._onTimeout();
    }, milliseconds);
  }

  /**
   * Whether the client is silent because it waits for us. It has ten minutes of patience (RFC 5321
   * section 4.5.3.2), and hanging up would have it send again what delivery may yet take.
   */
  get #waitsForUs(): boolean {
    return this._handlerPending || this.#message?.over === true;
  }

  /** The client will send nothing more that counts. */
  #release(): void {
    clearTimeout(this.#greeting);
    clearTimeout(this.#deadline);
    this.#message?.cutOff();
  }
}
