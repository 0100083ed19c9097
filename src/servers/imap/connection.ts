/**
 * One connection: a socket on one side, a session on the other. Commands run one after another, whatever the client sends
 * at once; answers are asked for only as fast as the client reads them.
 */
import { randomBytes } from 'node:crypto';
import type { Socket } from 'node:net';
import type { Logger } from 'pino';
import type { AccountChange } from '../../mailboxes/changes/changes.ts';
import { Wire } from '../../platform/net/net.ts';
import type { AccountAccess, MailAccess } from '../../tenants/accounts/accounts.ts';
import type { AnnouncedLiteral, CommandParts } from './command-reader.ts';
import { type ConnectionSettings, ENDED, LOST, REVOKED, timeouts } from './connection-settings.ts';
import { Incoming, LOGGED_IN } from './incoming.ts';
import { capabilities } from './log-in.ts';
import type { OpenSession } from './open-sessions.ts';
import { Outgoing } from './outgoing.ts';
import { runCommand, tellUnasked } from './run-command.ts';
import { Bye, type Channel, Session } from './session.ts';
import { line, type Output } from './write.ts';

/** Milliseconds between two looks at what changed. */
const TELL_EVERY = 100;

export class Connection implements Channel {
  readonly address: string;
  /** Random, for log lines and operators. */
  readonly #id = randomBytes(8).toString('hex');
  readonly #settings: ConnectionSettings;
  readonly #logger: Logger;
  readonly #wire: Wire;
  readonly #session: Session;
  readonly #incoming: Incoming;
  #mayLogIn: boolean;
  #isSecure = false;
  #mustStartTls = false;
  readonly #since = performance.now();
  #activeAt = this.#since;
  #received = 0;
  #sent = 0;
  #isWriting = false;
  readonly #outgoing = new Outgoing((octets) => this.#write(octets));
  #release: (() => void) | undefined;
  #unsubscribe: (() => void) | undefined;
  #toldAt = 0;
  readonly #left = new AbortController();
  #timer: NodeJS.Timeout | undefined;
  #ending: string | undefined;

  constructor(
    socket: Socket,
    client: { readonly address: string; readonly isLocal: boolean; readonly isSecure: boolean },
    settings: ConnectionSettings,
    logger: Logger,
  ) {
    this.address = client.address;
    this.#settings = settings;
    this.#logger = logger.child({ sessionId: this.#id, remoteAddress: client.address });
    this.#wire = new Wire(socket);
    socket.once('close', () => this.#left.abort(new Bye('The client left')));
    this.#incoming = new Incoming({
      wire: this.#wire,
      maxMessageBytes: settings.maxMessageBytes,
      flush: () => this.#outgoing.flush(),
      write: (text) => this.#write(text),
      onBytes: (amount) => {
        this.#activeAt = performance.now();
        this.#received += amount;
        settings.onOctets?.('received', amount);
      },
      isLoggedIn: () => this.#session.isLoggedIn,
    });
    this.#mayLogIn = client.isLocal || client.isSecure;
    this.#session = new Session(settings, this);
    if (client.isSecure) this.#secure();
  }

  get literal(): AnnouncedLiteral | undefined {
    return this.#incoming.literal;
  }

  get signal(): AbortSignal {
    return this.#left.signal;
  }

  get isSecure(): boolean {
    return this.#isSecure;
  }

  get mayLogIn(): boolean {
    return this.#mayLogIn;
  }

  /** Serves the client until it leaves. Never rejects. */
  async run(): Promise<void> {
    try {
      const { hostname } = this.#settings;
      await this.#wire.write(
        `* OK [CAPABILITY ${capabilities(this.#session)}] ${hostname} ready\r\n`,
      );
      while (!this.#session.isOver && this.#ending === undefined) {
        const parts = await this.#incoming.next();
        if (parts === undefined) break;
        if (parts !== 'interrupted') await this.#run(parts);
        else await this.#send(tellUnasked(this.#session));
      }
    } catch (error) {
      if (error instanceof Bye) this.#ending ??= error.message;
      else {
        this.#ending ??= 'Something failed on our side';
        this.#logger.error({ err: error }, 'an IMAP connection failed and is closed');
      }
    }
    this.#leave();
    const text = this.#ending;
    await this.#session.closeMailbox();
    this.#wire.end(
      text === undefined ? '' : `* BYE ${text.startsWith('[') ? text : line(text)}\r\n`,
    );
  }

  /** Ends the connection: at once where it waits for the client, else after the command that runs. */
  end(reason: string): void {
    this.#ending ??= reason;
    this.#wire.interrupt();
  }

  destroy(): void {
    this.#leave();
    this.#wire.destroy();
  }

  /**
   * Ends the connection of a client that is silent for too long, does not read, sends a message too slowly, or does not log
   * in: whatever a stranger sends, it has no more time.
   *
   * @param now by the monotonic clock
   */
  checkTime(now: number, time: number): void {
    if (this.#session.expiresAt <= time) this.end('The token has expired');
    const silent = now - this.#activeAt;
    if (this.#isWriting && silent > timeouts.blocked) this.destroy();
    if (this.#incoming.isSlow(now)) this.#wire.interrupt();
    if (this.#session.isLoggedIn) {
      if (silent > timeouts.idle) this.end('Silent for too long');
    } else if (now - this.#since > timeouts.stranger) {
      this.end('Too long without a login');
      if (this.#isWriting) this.destroy();
    }
  }

  /** The account that is open; undefined before a login. */
  get accountId(): number | undefined {
    return this.#session.isLoggedIn ? this.#session.user.accountId : undefined;
  }

  /** What operators see of it; undefined before a login, and once it ends. */
  describe(): Omit<OpenSession, 'host'> | undefined {
    const { isLoggedIn, openedAt, program, view, command, commandAt } = this.#session;
    if (!isLoggedIn || this.#ending !== undefined || this.#session.isOver) return undefined;
    const { accountId, address, appPasswordId } = this.#session.user;
    return {
      id: this.#id,
      accountId,
      address,
      client: this.address,
      since: openedAt,
      isSecure: this.#isSecure,
      ...(program !== undefined && { program }),
      ...(appPasswordId !== undefined && { appPasswordId }),
      ...(view && { mailbox: view.mailbox.name }),
      command,
      commandAt,
      received: this.#received,
      sent: this.#sent,
    };
  }

  /** The app password that opened it; undefined where something else did, and before a login. */
  get appPasswordId(): number | undefined {
    return this.#session.isLoggedIn ? this.#session.user.appPasswordId : undefined;
  }

  /**
   * Makes up for events that were lost: ends the connection where its account may not be open any more, else looks for
   * changes.
   *
   * @param access undefined where the account does not exist
   * @param appPasswords those that still open an account
   */
  lookAgain(access: AccountAccess | undefined, appPasswords: ReadonlySet<number>): void {
    const { credentialVersion, appPasswordId } = this.#session.user;
    if (access?.status !== 'active' || credentialVersion < access.credentialVersion) {
      this.#loseAccess(LOST);
      return;
    }
    if (appPasswordId !== undefined && !appPasswords.has(appPasswordId)) {
      this.#loseAccess(REVOKED);
      return;
    }
    this.#session.isBehind = true;
    this.#session.watches?.onChange();
    this.#wire.interrupt();
  }

  /* What commands may do with the connection. */

  startTls(): void {
    // What a client sends before it knows that TLS begins could be somebody else's (RFC 3207 section 6).
    if (this.#incoming.waiting > 0) throw new Bye('Nothing may follow STARTTLS');
    this.#mustStartTls = true;
  }

  admit(user: MailAccess): boolean {
    const release = this.#settings.admit(user);
    if (!release) return false;
    this.#release = release;
    this.#incoming.limits = LOGGED_IN;
    this.#unsubscribe = this.#settings.changes.subscribe(user.accountId, (change) =>
      this.#onChange(change),
    );
    return true;
  }

  async nextLine(): Promise<string | 'interrupted' | undefined> {
    await this.#outgoing.flush();
    const parts = await this.#incoming.next();
    if (parts === undefined || parts === 'interrupted') {
      return this.#ending === undefined ? parts : undefined;
    }
    return parts.length === 1 && typeof parts[0] === 'string' ? parts[0] : '*';
  }

  flush(): Promise<void> {
    return this.#outgoing.flush();
  }

  readLiteral(): AsyncIterable<Uint8Array> {
    return this.#incoming.readLiteral();
  }

  nextMessage(): Promise<CommandParts | undefined> {
    return this.#incoming.nextMessage();
  }

  async #run(parts: CommandParts): Promise<void> {
    const { onCommand } = this.#settings;
    const answers = runCommand(this.#session, parts, (ended) => {
      onCommand?.(ended);
      if (ended.error === undefined) return;
      const { name, error } = ended;
      this.#logger.error({ err: error, command: name }, 'a command failed: the client was told NO');
    });
    await this.#send(answers);
    await this.#incoming.finish();
    if (this.#mustStartTls) this.#secure();
  }

  /** Writes answers; the next one is made when the client has read enough of those before. */
  async #send(answers: AsyncGenerator<Output>): Promise<void> {
    for await (const part of answers) await this.#outgoing.add(part);
    await this.#outgoing.flush();
  }

  async #write(octets: string | Uint8Array): Promise<void> {
    this.#isWriting = true;
    await this.#wire.write(octets);
    this.#isWriting = false;
    // What else the command would read is for nobody.
    if (this.#wire.isClosed) throw new Bye('The client left');
    this.#activeAt = performance.now();
    this.#sent += octets.length;
    this.#settings.onOctets?.('sent', octets.length);
  }

  #secure(): void {
    this.#mustStartTls = false;
    this.#isSecure = true;
    this.#mayLogIn = true;
    this.#wire.startTls(this.#settings.secureContext());
  }

  #onChange(change: AccountChange): void {
    if (change.kind === 'access') this.#loseAccess(LOST);
    if (change.kind === 'mail_sessions') {
      const [own, reason] =
        change.by === 'session' ? [this.#id, ENDED] : [String(this.appPasswordId), REVOKED];
      if (change.id === own) this.#loseAccess(reason);
    }
    if (!this.#session.noteChange(change) || this.#timer) return;
    // The first change is told at once, then all that came in between.
    const wait = Math.max(0, this.#toldAt + TELL_EVERY - performance.now());
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#toldAt = performance.now();
      this.#wire.interrupt();
    }, wait);
  }

  #loseAccess(reason: string): void {
    this.end(reason);
    // It must not read on what it has asked for before.
    if (this.#isWriting) this.destroy();
  }

  #leave(): void {
    this.#left.abort(new Bye('The client left'));
    clearTimeout(this.#timer);
    this.#unsubscribe?.();
    this.#unsubscribe = undefined;
    this.#release?.();
    this.#release = undefined;
  }
}
