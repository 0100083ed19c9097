/**
 * One connection: connects the socket, the protocol, and delivery. It does one thing after the other, so
 * nothing is read from a client that sends faster than delivery reads, or that does not read its replies.
 */
import { randomBytes } from 'node:crypto';
import type { Socket } from 'node:net';
import type { Logger } from 'pino';
import type {
  InboundEnvelope,
  MailReceiver,
  RecipientOutcome,
} from '../../mail/delivery/delivery.ts';
import { newMailId } from '../../mail/trace/trace.ts';
import { refusalOfFailure } from '../../platform/database/database.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import { Wire } from '../../platform/net/net.ts';
import type { GivenLogin } from '../../protocols/sasl/sasl.ts';
import type { Reply } from '../../protocols/smtp-client/smtp-client.ts';
import { loginReply } from './auth.ts';
import type { Client, ConnectionSettings, Submitter } from './clients.ts';
import { LOCAL_ERROR, refusalReply, reply, tooLarge } from './commands.ts';
import { ServerProtocol } from './protocol.ts';
import type { ProtocolEvent, Transaction } from './protocol-events.ts';
import { answerRefused, type Refused } from './refusals.ts';

/** A message, from `354` to the reply at its end. */
interface Incoming {
  readonly since: number;
  octets: number;
  /** Octets that count as unfinished. */
  staged: number;
  isWhole: boolean;
  /** Set where the message is refused, whatever delivery answers for the part that it read. */
  refusal: Refusal | undefined;
}

export class Connection {
  readonly #id = randomBytes(8).toString('hex');
  readonly #client: Client;
  readonly #settings: ConnectionSettings;
  readonly #logger: Logger;
  readonly #wire: Wire;
  readonly #protocol: ServerProtocol;
  /** Set after a login. */
  #submitter: Submitter | undefined;
  #message: Incoming | undefined;
  /** The id of the message of this transaction and of its refusals: a new one for each MAIL. */
  #mailId = newMailId(Date.now());
  #isDraining = false;
  /** When the client last sent what we wait for: a whole command, or a part of a message. */
  #activeAt = performance.now();
  /** How long we had waited for the client when its last message was accepted. */
  #waitedBefore = 0;

  constructor(socket: Socket, client: Client, settings: ConnectionSettings, logger: Logger) {
    this.#client = client;
    this.#settings = settings;
    this.#logger = logger.child({ sessionId: this.#id, remoteAddress: client.address });
    this.#wire = new Wire(socket);
    this.#protocol = new ServerProtocol({ ...settings, login: client.login });
  }

  /** Whether the client was told that the connection ends. */
  get isOver(): boolean {
    return this.#protocol.isOver;
  }

  get isLoggedIn(): boolean {
    return this.#submitter !== undefined;
  }

  /** Serves the client; resolves when nothing is under way for it any more. Never rejects. */
  async run(): Promise<void> {
    try {
      await this.#greet();
      for (let event = await this.#next(); event; event = await this.#next()) {
        await this.#act(event);
      }
    } catch (error) {
      this.#logger.error({ err: error }, 'a connection failed and is closed');
      this.#protocol.hangUp(reply(421, '4.3.0', 'Local error in processing'));
    }
    this.#wire.end(this.#protocol.takeOutput());
  }

  /**
   * Ends the connection as soon as no message is under way (421 may come at any time, RFC 5321 section 3.8).
   * A message that is coming in is finished first: to send it again would cost the client most.
   */
  drain(): void {
    this.#isDraining = true;
    if (!this.#message) this.#shutDown();
  }

  /** Ends the connection at once, whatever is under way. */
  destroy(): void {
    this.#shutDown();
    this.#wire.destroy();
  }

  /**
   * Ends the connection where the client keeps us waiting too long. Time in which it waits for us does not
   * count: it waits up to ten minutes (RFC 5321 section 4.5.3.2), and if we hung up it would send a message
   * again that delivery may still accept.
   *
   * @param now by the monotonic clock; what came until then has been read
   * @param idleTimeout milliseconds to wait for a command, or for the next part of a message
   * @param lifetime milliseconds to wait for a stranger in all, without an accepted message
   */
  checkTime(now: number, idleTimeout: number, lifetime: number): void {
    if (!this.#wire.isWaiting) return;
    const { messageTimeout } = this.#settings;
    // A message gets one millisecond for each octet: one that comes in at 1 kB/s or faster is not cut off.
    const allowed = lifetime + (this.#message?.octets ?? 0);
    const isIdle = now - this.#activeAt >= idleTimeout;
    const isSlow = this.#message !== undefined && now - this.#message.since >= messageTimeout;
    const isStranger = !this.#client.isTrusted && !this.isLoggedIn;
    const isUseless = isStranger && this.#wire.waitedUntil(now) - this.#waitedBefore >= allowed;
    if (isIdle || isSlow) this.#hangUp(reply(421, '4.4.2', 'Timeout - closing connection'));
    else if (isUseless) this.#hangUp(reply(421, '4.4.2', 'Too long without a message'));
  }

  /**
   * A client that sends before the greeting does not wait for replies either: it is spam software, or a
   * browser that a web page makes connect to us. RFC 5321 section 4.3.1 makes clients wait, so one that does
   * not is turned away. Only strangers get this delay.
   */
  async #greet(): Promise<void> {
    const { greetingDelay, isSecure, secureContext } = this.#settings;
    if (isSecure) {
      // Its handshake comes before the greeting: whoever does not wait for that cannot speak TLS.
      this.#wire.beginTls(secureContext());
      this.#protocol.secured('TLS');
      return this.#protocol.greet();
    }
    const isPolite =
      greetingDelay === 0 || this.#client.isTrusted || (await this.#wire.pause(greetingDelay));
    if (isPolite) this.#protocol.greet();
    else this.#protocol.hangUp(reply(554, '5.5.1', 'Wait for the greeting'));
  }

  /** The next event, once there are enough bytes for it; undefined at the end of the connection. */
  async #next(): Promise<ProtocolEvent | undefined> {
    for (;;) {
      await this.#client.enterTurn();
      const event = this.#protocol.next();
      if (event) return event;
      await this.#flush();
      const bytes = this.#protocol.isOver ? undefined : await this.#wire.read();
      if (!bytes) return undefined;
      this.#protocol.receive(bytes);
    }
  }

  async #flush(): Promise<void> {
    const output = this.#protocol.takeOutput();
    if (output === '') return;
    this.#activeAt = performance.now();
    await this.#wire.write(output);
  }

  async #act(event: ProtocolEvent): Promise<void> {
    if (event.kind === 'login') return this.#logIn(event.given);
    if (event.kind === 'starttls') return this.#startTls();
    const delivery = this.#receiver;
    switch (event.kind) {
      case 'mail': {
        this.#mailId = newMailId(Date.now());
        const { from, size } = event;
        const check = async () => (await this.#judgeSender(from)) ?? delivery.checkRoom(size);
        return this.#protocol.answer(await this.#judge(check, { from }));
      }
      case 'recipient': {
        const { recipient, from, size } = event;
        const check = () => delivery.checkRecipient(recipient, { from, octets: size });
        return this.#protocol.answer(await this.#judge(check, { from, to: [recipient] }));
      }
      case 'data': {
        const { transaction } = event;
        const check = () => delivery.checkRoom(transaction.size);
        const refusal = await this.#judge(check, transaction);
        this.#protocol.answer(refusal);
        if (!refusal && !this.#protocol.isOver) await this.#take(transaction);
        return;
      }
      case 'content':
        throw new Error('a message came without DATA');
    }
  }

  /** Asks delivery; returns the reply that refuses the request, if any. */
  async #judge(
    ask: () => Promise<Refusal | undefined>,
    about: Omit<Refused, 'mailId' | 'client'>,
  ): Promise<Reply | undefined> {
    try {
      const refusal = await ask();
      return refusal && this.#refuse(refusal, about);
    } catch (error) {
      return this.#refuse(error, about);
    }
  }

  #refuse(error: unknown, about: Omit<Refused, 'mailId' | 'client'>): Reply {
    const refused = { ...about, mailId: this.#mailId, client: this.#client.address };
    return answerRefused(error, refused, this.#settings, this.#logger);
  }

  get #receiver(): MailReceiver {
    const { delivery } = this.#settings;
    const receiver = 'logIn' in delivery ? this.#submitter : delivery;
    if (!receiver) throw new Error('a transaction began before a login');
    return receiver;
  }

  async #logIn(given: GivenLogin): Promise<void> {
    const { delivery } = this.#settings;
    if (!('logIn' in delivery)) throw new Error('a login came where none is offered');
    try {
      const submitter = await delivery.logIn(given, this.#client.address);
      if (!this.#client.logIn(submitter)) {
        return this.#protocol.hangUp(
          reply(421, '4.7.0', 'The account or its user has too many connections'),
        );
      }
      this.#submitter = submitter;
      this.#protocol.answer();
    } catch (error) {
      const refusal = error instanceof Refusal ? error : refusalOfFailure(error);
      if (!refusal) this.#logger.error({ err: error }, 'a login failed: the client got 454');
      this.#protocol.answer(refusal ? loginReply(refusal) : { ...LOCAL_ERROR, code: 454 });
    }
  }

  async #judgeSender(from: string): Promise<Refusal | undefined> {
    return this.#submitter ? this.#submitter.checkSender(from) : this.#findBlock(from);
  }

  /** Mail of the operator's relays is not blocked: they have accepted it already and would have to bounce it. */
  #findBlock(from: string): Refusal | undefined {
    const { address, isTrusted } = this.#client;
    return isTrusted ? undefined : this.#settings.findBlock?.(address, from);
  }

  async #startTls(): Promise<void> {
    await this.#flush();
    this.#wire.startTls(this.#settings.secureContext());
    // The first bytes come after the handshake.
    const bytes = await this.#wire.read();
    if (!bytes) return;
    this.#protocol.secured(this.#wire.tls ?? '');
    this.#protocol.receive(bytes);
  }

  /** Receives the message that follows `354`, and answers it. */
  async #take(transaction: Transaction): Promise<void> {
    const message: Incoming = {
      since: performance.now(),
      octets: 0,
      staged: 0,
      isWhole: false,
      refusal: undefined,
    };
    this.#message = message;
    try {
      await this.#flush();
      const content = this.#content(message);
      const replyFor = await this.#deliver(transaction, content);
      // The rest that delivery did not read is skipped.
      await content.return();
      while (!message.isWhole && (await this.#nextPart(message)));
      this.#finish(message, replyFor);
    } finally {
      this.#client.unstage(message.staged);
      this.#message = undefined;
    }
    if (this.#isDraining) this.#shutDown();
  }

  #finish({ isWhole, refusal, octets }: Incoming, replyFor: (recipient: string) => Reply): void {
    if (!isWhole) {
      this.#logger.info(
        { bytes: octets },
        'the connection ended in the middle of a message: the message was discarded',
      );
      return;
    }
    const refused = refusal && refusalReply(refusal);
    const isTaken = this.#protocol.finish(refused ? () => refused : replyFor);
    if (isTaken) this.#waitedBefore = this.#wire.waitedUntil(performance.now());
  }

  /**
   * Yields the message to delivery.
   *
   * @throws Refusal where the message is too large, or the connection ends before it does
   */
  async *#content(message: Incoming): AsyncGenerator<Buffer, void, undefined> {
    while (!message.isWhole) {
      const part = await this.#nextPart(message);
      if (!part) {
        throw new Refusal('unavailable', 'The connection ended before the end of the message');
      }
      if (message.refusal) throw message.refusal;
      if (part.length > 0) yield part;
    }
  }

  async #nextPart(message: Incoming): Promise<Buffer | undefined> {
    // Until now the client may have waited until delivery read on.
    this.#activeAt = performance.now();
    const event = await this.#next();
    if (event?.kind !== 'content') return undefined;
    const { length } = event.bytes;
    message.octets += length;
    message.isWhole = event.isLast;
    message.refusal ??= this.#stage(message, length);
    return event.bytes;
  }

  /** Counts octets of a message; returns the refusal where they are too many. */
  #stage(message: Incoming, octets: number): Refusal | undefined {
    const { maxMessageBytes } = this.#settings;
    if (message.octets > maxMessageBytes) return tooLarge(maxMessageBytes);
    if (!this.#client.stage(octets)) {
      return new Refusal('storage_full', 'Too many messages are under way, try again later');
    }
    message.staged += octets;
    return undefined;
  }

  /** Passes the message to delivery; returns the reply for each recipient. */
  async #deliver(
    transaction: Transaction,
    content: AsyncIterable<Uint8Array>,
  ): Promise<(recipient: string) => Reply> {
    const envelope = this.#envelope(transaction);
    try {
      const outcomes = await this.#receiver.receive(envelope, content);
      this.#settings.outage.worked();
      for (const outcome of outcomes) {
        if (outcome.result === 'delivered') continue;
        this.#refuse(outcome.refusal, { ...transaction, to: [outcome.recipient] });
      }
      const replies = new Map(
        outcomes.map((outcome) => [outcome.recipient, outcomeReply(outcome, envelope.id)]),
      );
      return (recipient) =>
        replies.get(recipient) ??
        this.#refuse(new Error(`delivery said nothing of ${recipient}`), transaction);
    } catch (error) {
      const refused = this.#refuse(error, transaction);
      return () => refused;
    }
  }

  #envelope(transaction: Transaction): InboundEnvelope {
    const { from, to, hello, tls } = transaction;
    const { protocol } = this.#settings;
    return {
      id: this.#mailId,
      from,
      to,
      arrival: {
        protocol: receivedWith(protocol, transaction),
        heloName: hello.name,
        remoteAddress: this.#client.address,
        sessionId: this.#id,
        ...(tls !== undefined && { tls }),
      },
    };
  }

  #hangUp(said: Reply): void {
    this.#protocol.hangUp(said);
    this.#wire.end(this.#protocol.takeOutput());
  }

  #shutDown(): void {
    this.#hangUp(reply(421, '4.3.2', 'The server is shutting down'));
  }
}

function outcomeReply(outcome: RecipientOutcome, id: string): Reply {
  return outcome.result === 'delivered'
    ? reply(250, '2.0.0', `Accepted as ${outcome.id ?? id}`)
    : refusalReply(outcome.refusal);
}

/** "with" of the Received field (RFC 3848, RFC 6531 section 4.3); HELO over TLS has no keyword of its own. */
function receivedWith(
  protocol: 'smtp' | 'lmtp',
  { hello, tls, isUtf8, isLoggedIn }: Transaction,
): string {
  const name = protocol.toUpperCase();
  const added = `${tls === undefined ? '' : 'S'}${isLoggedIn ? 'A' : ''}`;
  if (isUtf8) return `UTF8${name}${added}`;
  if (protocol === 'lmtp') return `LMTP${added}`;
  return hello.isExtended ? `ESMTP${added}` : 'SMTP';
}
