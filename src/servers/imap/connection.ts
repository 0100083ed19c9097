/**
 * One connection: a socket on one side, a session on the other. Commands run one after another, whatever the client sends
 * at once; answers are asked for only as fast as the client reads them.
 */
import { randomBytes } from 'node:crypto';
import type { Socket } from 'node:net';
import type { Logger } from 'pino';
import type { AccountChange } from '../../mailboxes/changes/changes.ts';
import type { RawConnection } from '../../mailboxes/mail-server/mail-server.ts';
import { Wire } from '../../platform/net/net.ts';
import type { AccountAccess, MailAccess } from '../../tenants/accounts/accounts.ts';
import type { AnnouncedLiteral, CommandParts } from './command-reader.ts';
import {
  type ConnectionSettings,
  ENDED,
  LOST,
  REVOKED,
  reasonToEnd,
  timeouts,
} from './connection-settings.ts';
import { Incoming, LOGGED_IN } from './incoming.ts';
import { capabilities } from './log-in.ts';
import { describeSession, type OpenSession } from './open-sessions.ts';
import { Outgoing } from './outgoing.ts';
import { passOn } from './pass-on.ts';
import { type Ended, runCommand, tellUnasked } from './run-command.ts';
import { Bye, type Channel, Session } from './session.ts';
import { TellTimer } from './tell-changes.ts';
import { Traffic } from './traffic.ts';
import { line, type Output } from './write.ts';

export class Connection implements Channel {
  readonly address: string;
  /** Random, for log lines and operators. */
  readonly #id = randomBytes(8).toString('hex');
  readonly #settings: ConnectionSettings;
  readonly #logger: Logger;
  readonly #wire: Wire;
  readonly #session: Session;
  readonly #incoming: Incoming;
  mayLogIn: boolean;
  isSecure: boolean;
  #mustStartTls = false;
  readonly #since = performance.now();
  readonly #traffic: Traffic;
  readonly #outgoing = new Outgoing((octets) => this.#traffic.write(octets));
  /** What gives back its slot, and ends its subscription. */
  readonly #held: (() => void)[] = [];
  readonly #left = new AbortController();
  readonly #telling = new TellTimer(() => this.#wire.interrupt());
  #ending: string | undefined;
  /** On the mail server that has the mailboxes. */
  #opened: RawConnection | undefined;
  /** Whether a BYE of ours would follow a whole line of the mail server's. */
  #mayTell = true;

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
    this.#traffic = new Traffic(this.#wire, settings.onOctets);
    socket.once('close', () => this.#left.abort(new Bye('The client left')));
    this.#incoming = new Incoming({
      wire: this.#wire,
      maxMessageBytes: settings.maxMessageBytes,
      flush: () => this.#outgoing.flush(),
      write: (text) => this.#traffic.write(text),
      onBytes: (amount) => this.#traffic.take(amount),
      user: () => this.user,
      longCommands: settings.longCommands,
      signal: this.signal,
    });
    this.isSecure = client.isSecure;
    this.mayLogIn = client.isLocal || client.isSecure;
    this.#session = new Session(settings, this);
    if (client.isSecure) this.#wire.beginTls(settings.secureContext());
  }

  get literal(): AnnouncedLiteral | undefined {
    return this.#incoming.literal;
  }

  get signal(): AbortSignal {
    return this.#left.signal;
  }

  /** Serves the client until it leaves. Never rejects. */
  async run(): Promise<void> {
    try {
      const able = `[CAPABILITY ${capabilities(this.#session)}]`;
      await this.#wire.write(`* OK ${able} ${this.#settings.hostname} ready\r\n`);
      while (!this.#session.isOver && this.#ending === undefined) {
        const parts = await this.#incoming.next();
        if (parts === undefined) break;
        await this.#answer(parts);
        if (this.#opened && this.#ending === undefined) await this.#passOn(this.#opened);
      }
    } catch (error) {
      const failure = error instanceof Bye ? error.cause : error;
      this.#ending ??= error instanceof Bye ? error.message : 'Something failed on our side';
      if (failure !== undefined)
        this.#logger.error({ err: failure }, 'an IMAP connection failed and is closed');
    }
    this.#leave();
    await this.#session.closeMailbox();
    const text = this.#mayTell && this.#outgoing.isAtStart ? this.#ending : undefined;
    this.#wire.end(text ? `* BYE ${text.startsWith('[') ? text : line(text)}\r\n` : '');
  }

  /** Ends the connection: at once where it waits for the client, else after the command that runs. */
  end(reason: string): void {
    this.#ending ??= reason;
    this.#opened?.destroy();
    this.#wire.interrupt();
  }

  destroy(): void {
    this.#leave();
    this.#wire.destroy();
  }

  /**
   * Ends the connection of a client that is silent for too long, does not read, as its mail server must, sends a message too
   * slowly, or does not log in: whatever a stranger sends, it has no more time.
   *
   * @param now by the monotonic clock
   */
  checkTime(now: number): void {
    if (this.#session.expiresAt <= this.#session.now()) this.end('The token has expired');
    const silent = now - this.#traffic.activeAt;
    if (this.#traffic.isWriting && silent > timeouts.blocked) this.destroy();
    if (this.#incoming.isSlow(now)) this.#wire.interrupt();
    if (this.#traffic.isStuck(now)) this.end('The mail server does not read');
    if (this.#session.isLoggedIn) {
      if (silent > timeouts.idle) this.end('Silent for too long');
    } else if (now - this.#since > timeouts.stranger) {
      this.end('Too long without a login');
      if (this.#traffic.isWriting) this.destroy();
    }
  }

  /** Who has logged in; undefined before that. */
  get user(): MailAccess | undefined {
    return this.#session.isLoggedIn ? this.#session.user : undefined;
  }

  /** What operators see of it; undefined before a login, and once it ends. */
  describe(): Omit<OpenSession, 'host'> | undefined {
    const session = this.#session;
    if (!session.isLoggedIn || this.#ending !== undefined || session.isOver) return undefined;
    const { received, sent } = this.#traffic;
    const at = { id: this.#id, client: this.address, isSecure: this.isSecure, received, sent };
    return { ...at, ...describeSession(session) };
  }

  /**
   * Makes up for events that were lost: ends the connection where its account may not be open any more, else looks for
   * changes.
   *
   * @param access undefined where the account does not exist
   * @param appPasswords those that still open an account
   */
  recheck(access: AccountAccess | undefined, appPasswords: ReadonlySet<number>): void {
    const lost = reasonToEnd(this.#session.user, access, appPasswords);
    if (lost !== undefined) {
      this.#loseAccess(lost);
      return;
    }
    this.#session.isBehind = true;
    this.#session.watches?.onChange();
    this.#wire.interrupt();
  }

  startTls(): void {
    // What a client sends before it knows that TLS begins could be somebody else's (RFC 3207 section 6).
    if (this.#incoming.waiting > 0) throw new Bye('Nothing may follow STARTTLS');
    this.#mustStartTls = true;
  }

  async admit(user: MailAccess): Promise<boolean> {
    const release = await this.#settings.admit(user);
    if (!release) return false;
    // It is called once more at the end of the connection, also where that ended meanwhile.
    this.#held.push(release);
    this.#incoming.limits = LOGGED_IN;
    const { changes } = this.#settings;
    this.#held.push(changes.subscribe(user.accountId, (change) => this.#onChange(change)));
    return true;
  }

  passOnTo(opened: RawConnection): void {
    this.#opened = opened;
  }

  async nextLine(): Promise<string | 'interrupted' | undefined> {
    await this.#outgoing.flush();
    const parts = await this.#incoming.next();
    if (parts === undefined || parts === 'interrupted') {
      return this.#ending === undefined ? parts : undefined;
    }
    return parts.length === 1 && typeof parts[0] === 'string' ? parts[0] : '*';
  }

  readonly flush: Channel['flush'] = () => this.#outgoing.flush();
  readonly readLiteral: Channel['readLiteral'] = () => this.#incoming.readLiteral();
  readonly nextMessage: Channel['nextMessage'] = () => this.#incoming.nextMessage();

  async #answer(parts: CommandParts | 'interrupted'): Promise<void> {
    try {
      if (parts === 'interrupted') await tellUnasked(this.#session, this.#send);
      else await runCommand(this.#session, parts, this.#send, this.#onEnd);
    } finally {
      // What a command was answered before the session cannot go on is sent, too.
      const waits = this.#outgoing.flush();
      if (waits) await waits;
    }
    if (this.#incoming.literal) await this.#incoming.finish();
    if (this.#mustStartTls) this.#secure();
  }

  readonly #send = (output: Output) => this.#outgoing.add(output);

  readonly #onEnd = (ended: Ended): void => {
    this.#settings.onCommand?.(ended);
    const { name, error } = ended;
    if (error === undefined) return;
    this.#logger.error({ err: error, command: name }, 'a command failed: the client was told NO');
  };

  #secure(): void {
    this.#mustStartTls = false;
    this.isSecure = true;
    this.mayLogIn = true;
    this.#wire.startTls(this.#settings.secureContext());
  }

  #onChange(change: AccountChange): void {
    if (change.kind === 'access') this.#loseAccess(LOST);
    if (change.kind === 'mail_sessions') {
      const [own, reason] =
        change.by === 'session' ? [this.#id, ENDED] : [String(this.user?.appPasswordId), REVOKED];
      if (change.id === own) this.#loseAccess(reason);
    }
    if (this.#session.noteChange(change)) this.#telling.start();
  }

  /** Lets the client and the mail server talk, until one of them leaves. */
  async #passOn(opened: RawConnection): Promise<void> {
    const session = this.#session;
    // Its commands are not read.
    session.command = 'other';
    const seen = await passOn(
      {
        wire: this.#wire,
        early: this.#incoming.takeWaiting(),
        write: (octets) => this.#traffic.write(octets),
        onSending: (isSending) => this.#traffic.passes(isSending),
        onBytes: (amount) => {
          this.#traffic.take(amount);
          session.commandAt = session.now();
        },
      },
      opened,
    );
    session.isOver = true;
    this.#mayTell = seen.isAtStart;
    if (!seen.saidBye) this.#ending ??= 'The mail server ended the connection';
  }

  #loseAccess(reason: string): void {
    this.end(reason);
    // A command that has begun ends its batch.
    this.#left.abort(new Bye(reason));
    // It must not read on what it has asked for before.
    if (this.#traffic.isWriting) this.destroy();
  }

  #leave(): void {
    this.#left.abort(new Bye('The client left'));
    this.#telling.stop();
    for (const end of this.#held.splice(0)) end();
    this.#incoming.release();
    this.#opened?.destroy();
  }
}
