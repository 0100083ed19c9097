/** The state of one connection (RFC 9051 section 3), and what commands have in common. */
import type { AccountChange } from '../../mailboxes/changes/changes.ts';
import type { RawConnection } from '../../mailboxes/mail-server/mail-server.ts';
import type {
  EmbeddedMailstore,
  ImapStore,
  MessageSet,
} from '../../mailboxes/mailstore/mailstore.ts';
import type { EpochMs } from '../../platform/time/time.ts';
import type { MailAccess } from '../../tenants/accounts/accounts.ts';
import type { CommandParts } from './command-reader.ts';
import type { Cursor } from './cursor.ts';
import type { RecentMessages } from './recent.ts';
import type { View } from './view.ts';
import type { Watches } from './watches.ts';
import type { Output } from './write.ts';

type Published = 'sync' | 'createMailbox' | 'renameMailbox' | 'deleteMailbox' | 'appendMessages';
type PublishedToo = 'replaceMessages' | 'setFlags' | 'move' | 'copy' | 'expunge';

/** The mail store, whose changes are published. */
export interface ImapMailstore extends Pick<EmbeddedMailstore, 'imap' | Published | PublishedToo> {
  readonly subscribe: ImapStore['subscribe'];
}

/** Who may open which account: the same rules and limits as for HTTP. */
export interface ImapLogins {
  /** @throws Refusal unauthorized, account_inactive, rate_limited, unavailable */
  withPassword(address: string, password: string, ip: string): Promise<MailAccess>;
  /** @throws Refusal unauthorized, account_inactive, unavailable */
  withToken(token: string): Promise<MailAccess>;
}

/** How much is done, of how much. */
export interface Progress {
  readonly done: number;
  readonly of: number;
}

export type State = 'not authenticated' | 'authenticated' | 'selected';

/** What a command may do with its connection. */
export interface Channel {
  /** Address of the client. */
  readonly address: string;
  readonly isSecure: boolean;
  /** Whether a login would be safe: by TLS, or from this machine. */
  readonly mayLogIn: boolean;
  /** Ends with the connection: for what waits for its turn. */
  readonly signal: AbortSignal;
  startTls(): void;
  /** Takes one of the slots of the account; false where it has none left. */
  admit(user: MailAccess): Promise<boolean>;
  /** Sends what was passed on until now. */
  flush(): Promise<void> | undefined;
  /** After this command, the session is one of a mail server. */
  passOnTo(opened: RawConnection): void;
  /** The next line; undefined where the client left, `interrupted` where {@link Session.isBehind} was set meanwhile. */
  nextLine(): Promise<string | 'interrupted' | undefined>;
  /** The message at the end of an APPEND, which is read as the command asks for it. */
  readonly literal: { readonly octets: number; readonly isBinary?: boolean } | undefined;
  /** Its octets; the client is told to send it first. @throws Bye where the client leaves */
  readLiteral(): AsyncIterable<Uint8Array>;
  /** What stands before one more message, after the last one was read; undefined at the end of the command. */
  nextMessage(): Promise<CommandParts | undefined>;
}

export interface ImapServices {
  readonly mailstore: ImapMailstore;
  readonly logins: ImapLogins;
  /** Of all listeners of the process. */
  readonly recents: RecentMessages;
  /** Octets of the largest message. */
  readonly maxMessageBytes: number;
  /** By which mail is dated and tokens end; of this machine where left out. */
  readonly now?: () => EpochMs;
  /**
   * Opens an account on the operator's mail server, where mailboxes are there.
   *
   * @param left aborts where the client leaves
   * @throws Refusal unavailable, account_inactive
   */
  readonly openOnServer?:
    | ((user: MailAccess, client: string, left: AbortSignal) => Promise<RawConnection>)
    | undefined;
  /** Extensions that are neither announced nor enabled, in upper case: {@link isExtension} has their names. */
  readonly disabled?: ReadonlySet<string>;
}

export class Session {
  readonly services: ImapServices;
  readonly channel: Channel;
  #user: MailAccess | undefined;
  /** By a token, which ends. */
  expiresAt = Number.POSITIVE_INFINITY;
  #view: View | undefined;
  /** RFC 7162: the client wants MODSEQ with flags; it wants VANISHED. */
  condstore = false;
  qresync = false;
  /** RFC 9051; names of mailboxes in UTF-8 (RFC 6855), which IMAP4rev2 has, too. */
  isRev2 = false;
  isUtf8 = false;
  /** Something changed in the account, and the client was not told yet. */
  isBehind = false;
  /** What it is told of at any time (RFC 5465); undefined before the first NOTIFY. */
  watches: Watches | undefined;
  /** New messages of the selected mailbox that this client stored itself, which are not told like those of others. */
  readonly made = new Set<number>();
  /** Flags that the answers of this command have told already: UID to MODSEQ. */
  readonly told = new Map<number, string>();
  /** The connection ends after this command. */
  isOver = false;
  failedLogins = 0;
  /** Commands before the login that were answered BAD. */
  mistakes = 0;
  /** Of the command that runs. */
  tag = '';
  /** How far the search that runs is. */
  progress: Progress | undefined;
  /** The last command, in upper case; `other` where it is not known. */
  command = 'other';
  commandAt: EpochMs = 0;
  openedAt: EpochMs = 0;
  /** What the client says that it is. */
  program: string | undefined;

  constructor(services: ImapServices, channel: Channel) {
    this.services = services;
    this.channel = channel;
  }

  readonly now = (): EpochMs => (this.services.now ?? Date.now)();

  get state(): State {
    if (!this.#user) return 'not authenticated';
    return this.#view ? 'selected' : 'authenticated';
  }

  get isLoggedIn(): boolean {
    return this.#user !== undefined;
  }

  get user(): MailAccess {
    if (!this.#user) throw new Error('a command ran before its session was logged in');
    return this.#user;
  }

  logIn(user: MailAccess): void {
    this.#user = user;
    this.openedAt = this.now();
  }

  get view(): View | undefined {
    return this.#view;
  }

  get selected(): View {
    if (!this.#view) throw new Error('a command ran without a selected mailbox');
    return this.#view;
  }

  openMailbox(view: View): void {
    this.#view = view;
    this.isBehind = true;
  }

  /** Something changed in the account. @returns whether the client waits to be told of it */
  noteChange(change: AccountChange): boolean {
    if (change.kind === 'mailboxes' || change.kind === 'subscriptions') {
      return this.watches?.onChange() ?? false;
    }
    if (change.kind !== 'mailbox') return false;
    this.isBehind = true;
    const isWatched = this.watches?.onChange(change.mailbox) ?? false;
    return isWatched || change.mailbox === this.#view?.mailbox.name;
  }

  /** A command of this client stored messages, or changed the name of a mailbox. */
  wrote(mailbox: string, uids: readonly number[] = []): void {
    this.watches?.wrote(mailbox);
    if (!this.watches?.request.selected?.fetch || mailbox !== this.#view?.mailbox.name) return;
    for (const uid of uids) this.made.add(uid);
  }

  /** The line that says that the selected mailbox is closed, for clients that know it (RFC 7162 section 3.2.11). */
  get closed(): string {
    const isKnown = this.condstore || this.qresync || this.isRev2;
    return this.#view && isKnown ? '* OK [CLOSED] Closed\r\n' : '';
  }

  /** This client renamed a mailbox: one that it has selected there, or below, stays selected. */
  renamed(from: string, to: string): void {
    const name = this.#view?.mailbox.name ?? '';
    if (name === from || name.startsWith(`${from}/`))
      this.#view?.rename(to + name.slice(from.length));
  }

  /** Closes the selected mailbox, if there is one. */
  async closeMailbox(): Promise<void> {
    this.made.clear();
    const { recents, mailstore } = this.services;
    const recent = this.#view?.recent;
    this.#view = undefined;
    if (recent) await recents.close(recent, mailstore.imap);
  }

  /**
   * The client has used CONDSTORE (RFC 7162 section 3.1): it gets MODSEQs from now on.
   *
   * @returns the line that tells it of the first one
   */
  enableCondstore(): string {
    if (this.condstore) return '';
    this.condstore = true;
    const { view } = this;
    return view ? `* OK [HIGHESTMODSEQ ${view.highestModseq}] Changes have numbers\r\n` : '';
  }

  /** The messages of the selected mailbox that a change names. */
  setOf(uids: readonly number[]): MessageSet {
    const { name, uidvalidity } = this.selected.mailbox;
    return { mailbox: name, uids, uidvalidity: String(uidvalidity) };
  }
}

/** What a command answers; it returns the text of its OK, with a code in front where it has one. */
export type Answer = AsyncGenerator<Output, string>;

/** ImapTest does not read the code (RFC 5530) of a STORE: it knows by these words that this is no failure of the server. */
const DELETED = 'Some of the messages have been deleted';
/** Some of the messages that a command names by their numbers were removed by others. */
export const GONE = `[EXPUNGEISSUED] ${DELETED}`;
export const gone = (): No => new No('EXPUNGEISSUED', DELETED);

export interface Command<Answering = Answer | Promise<string>> {
  /**
   * What is told of others' changes before the tagged answer (RFC 9051 section 5.5): removals only where the client knows
   * that sequence numbers may change.
   */
  readonly tells: 'everything' | 'no removals' | 'nothing';
  /** @returns also a promise of the text of its OK, where it tells nothing else */
  run(session: Session, command: Cursor): Answering;
}

/** The command failed: NO, with a code (RFC 5530). */
export class No extends Error {
  override readonly name = 'No';
  readonly code: string | undefined;

  constructor(code: string | undefined, text: string) {
    super(text);
    this.code = code;
  }
}

/** The session cannot go on: BYE, and why. */
export class Bye extends Error {
  override readonly name: string = 'Bye';
}

/** The same where an answer was not told to its end: what came behind it, the tagged answer too, would stand within its line. */
export class CutOff extends Bye {
  override readonly name = 'CutOff';

  /** @param cause a Bye says itself why the session cannot go on */
  constructor(cause: unknown) {
    if (cause instanceof Bye) super(cause.message, { cause: cause.cause });
    else super('An answer could not be told to its end', { cause });
  }
}
