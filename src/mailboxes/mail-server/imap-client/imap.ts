/**
 * The mail store on an IMAP server (RFC 3501) that the operator runs: the mailboxes are the server's,
 * Postroom logs in as each account with a master's password, and keeps nothing of a message.
 *
 * Reads and changes use a pool of connections (`pool.ts`). How a sync finds the changes depends on what the server
 * offers:
 *
 * - CONDSTORE and QRESYNC (RFC 7162): the server reports them; one EXAMINE is the question and the answer
 *   (`sync-modseq.ts`). Nothing is stored.
 * - otherwise the shadow: the last known state of the mailbox is in the database (tables `shadow_mailboxes`,
 *   `shadow_messages`, `shadow_tombstones`), is compared with the server at each sync, and every difference gets a
 *   synthetic MODSEQ (`sync-shadow.ts`).
 *
 * Tokens have one form in both cases (`token.ts`). Mailbox names are the server's own, with its own hierarchy
 * separator (`INBOX.Sent` on Courier), decoded from modified UTF-7. Where the server fails, callers get the refusal
 * `unavailable`, and one log line names the failure (`failure.ts`). `server-delivery.ts` delivers incoming mail to
 * the server.
 */

import type { Database } from '../../../platform/database/database.ts';
import { when } from '../../../platform/errors/errors.ts';
import { Turns } from '../../../platform/net/net.ts';
import { type MailboxChange, mailboxChange } from '../../changes/changes.ts';
import type {
  MailboxSummary,
  Mailstore,
  MailUser,
  MessageSet,
  SyncRequest,
  SyncResult,
} from '../../mailstore/mailstore.ts';
import {
  canonicalMailboxName,
  partiesOf,
  pruneTombstones,
  readToken,
} from '../../mailstore/mailstore.ts';
import { type ImapAppend, MessageAppender } from './append-message.ts';
import { type Connection, isMissing } from './connection.ts';
import { type EditorOptions, MailboxEditor } from './edit-mailboxes.ts';
import { ImapFailure } from './failure.ts';
import { Guard, type ImapOptions } from './guard.ts';
import { type KnownState, type ListedMailbox, listMailboxes, readState } from './list-mailboxes.ts';
import { type ImapServer, logIn, openAs, openRaw, type RawConnection } from './log-in.ts';
import { Pool, type UseOptions } from './pool.ts';
import { Readiness } from './probe.ts';
import { MessageReader } from './read-message.ts';
import { searchMailboxes } from './search-messages.ts';
import { listShadows, type ShadowRow, shadowState, shadowTombstones } from './shadow-rows.ts';
import { stateOf, syncByModseq } from './sync-modseq.ts';
import { Shadows } from './sync-shadow.ts';
import { formatState, parseImapToken } from './token.ts';

export type { ImapOptions, ImapServer, RawConnection };

const imapDefaults = {
  timeoutMs: 20_000,
  connections: 100,
  idleMs: 120_000,
} as const;

/** Logins for mail programs at a time, in all and of one party. */
const RAW_LOGINS = 10;
const RAW_LOGIN_SHARES = { account: 2, tenant: 6 };

export class ImapMailstore implements Mailstore {
  readonly #server: ImapServer;
  readonly #database: Database;
  readonly #guard: Guard;
  readonly #now: () => number;
  readonly #timeoutMs: number;
  readonly #pool: Pool;
  /** Logins for mail programs, beside those of the pool. */
  readonly #rawLogins = new Turns(RAW_LOGINS);
  readonly #shadows: Shadows;
  readonly #reader: MessageReader;
  readonly #editor: MailboxEditor;
  readonly #appender: MessageAppender;
  readonly #readiness: Readiness;

  constructor(options: ImapOptions) {
    const settings = { ...imapDefaults, now: Date.now, ...options };
    this.#server = settings.server;
    this.#database = settings.database;
    this.#guard = new Guard(settings);
    this.#now = settings.now;
    this.#timeoutMs = settings.timeoutMs;
    this.#pool = new Pool({
      open: (user) => this.#connect(user, () => logIn(this.#server, user.address, this.#timeoutMs)),
      total: settings.connections,
      idleMs: settings.idleMs,
      waitMs: settings.timeoutMs,
      onLogin: options.onLogin,
      ...(options.onAccessEnd && { onAccessEnd: options.onAccessEnd }),
    });
    this.#readiness = new Readiness({
      ...settings,
      pool: this.#pool,
      report: (user, failure) => this.#guard.report(user, failure),
      someAccounts: options.someAccounts,
    });
    this.#shadows = new Shadows({ database: settings.database, now: settings.now });
    this.#reader = new MessageReader((...work) => this.#read(...work));
    const ways: EditorOptions = {
      repeat: (user, mailbox, work) => this.#read(user, mailbox, work),
      once: (user, _mailbox, work) => this.#guard.run(user, () => this.#pool.use(user, work)),
      changeOf: (...what) => this.#changeOf(...what),
    };
    this.#editor = new MailboxEditor(ways);
    this.#appender = new MessageAppender({ ...ways, bodies: settings.bodies, now: settings.now });
  }

  /** Connections that are open or being opened, and requests that wait for one. */
  get load(): { readonly open: number; readonly waiting: number } {
    return { open: this.#pool.size, waiting: this.#pool.waiting };
  }

  async listMailboxes(user: MailUser): Promise<MailboxSummary[]> {
    return this.#read(user, undefined, async (connection) => {
      const listed = await listMailboxes(connection);
      const states: MailboxSummary[] = [];
      const shadows = new Map<string, ShadowRow>();
      for (const row of await listShadows(this.#database.read, user)) shadows.set(row.name, row);
      for (const item of listed) {
        const known = shadows.get(item.mailbox);
        // One that was deleted meanwhile is left out.
        const state = await this.#listedState(connection, user, item, known).catch(
          when(isMissing, undefined),
        );
        if (!state) continue;
        const { mailbox, specialUse, unseen = 0 } = item;
        const counts = { messages: item.state.count, unseen };
        states.push({ mailbox, ...state, ...(specialUse && { specialUse }), ...counts });
      }
      return states;
    });
  }

  async #listedState(
    connection: Connection,
    user: MailUser,
    { mailbox, uidvalidity, state, unseen }: ListedMailbox,
    known: ShadowRow | undefined,
  ) {
    if (connection.hasQresync && state.modseq > 0n) {
      return { uidvalidity, token: formatState(state) };
    }
    // STATUS shows only \Seen. Changes of other flags are found at the next sync.
    const isSame =
      known?.uidvalidity === uidvalidity &&
      known.uidnext === state.uidnext &&
      known.messages === state.count &&
      (unseen === undefined || known.unseen === unseen);
    const row = known && isSame ? known : await this.#shadows.refresh(connection, user, mailbox);
    return { uidvalidity: row.uidvalidity, token: formatState(shadowState(row)) };
  }

  checkSync(request: SyncRequest): void {
    readToken(request, parseImapToken);
  }

  async sync(user: MailUser, request: SyncRequest): Promise<SyncResult> {
    const token = readToken(request, parseImapToken);
    const mailbox = await this.#nameOf(user, request.mailbox);
    return this.#read(user, mailbox, async (connection) => {
      const context = { connection, mailbox, request, token };
      const told = connection.hasQresync ? await syncByModseq(context) : undefined;
      return told ?? this.#shadows.sync(connection, user, mailbox, request, token);
    });
  }

  readonly fetchMessage: Mailstore['fetchMessage'] = async (user, mailbox, uid) =>
    this.#reader.message(user, await this.#nameOf(user, mailbox), uid);

  readonly fetchPart: Mailstore['fetchPart'] = async (user, mailbox, uid, part) =>
    this.#reader.part(user, await this.#nameOf(user, mailbox), uid, part);

  /**
   * Adds a message to a mailbox, which is created if it is missing, by APPEND: where LMTP is not used.
   *
   * @throws Refusal `mailbox_full` or `mailbox_refused` for good, `unavailable` for now; the reason of
   *   the message's signal
   */
  appendByImap(user: MailUser, mailbox: string, message: ImapAppend): Promise<void> {
    return this.#appender.deliver(user, mailbox, message);
  }

  /** Whether a mailbox has the message that has this id in a Received field. */
  hasReceived(user: MailUser, mailbox: string, receivedId: string): Promise<boolean> {
    return this.#appender.hasReceived(user, mailbox, receivedId);
  }

  /** The change to publish when a message came into a mailbox by another way. */
  changeOf(user: MailUser, mailbox: string): Promise<MailboxChange> {
    const name = canonicalMailboxName(mailbox);
    return this.#read(user, name, (connection) => this.#changeOf(connection, user, name));
  }

  readonly appendMessage: Mailstore['appendMessage'] = async (user, request, source) =>
    this.#appender.append(user, await this.#named(user, request), source);

  readonly search: Mailstore['search'] = async (user, request) => {
    const { mailbox } = request;
    const search =
      mailbox === undefined ? request : await this.#named(user, { ...request, mailbox });
    return this.#read(user, search.mailbox, (connection) => searchMailboxes(connection, search));
  };

  readonly setFlags: Mailstore['setFlags'] = async (user, set, change) =>
    this.#editor.setFlags(user, await this.#named(user, set), change);

  readonly move: Mailstore['move'] = async (user, set, to) => this.#relocate(user, 'move', set, to);

  readonly copy: Mailstore['copy'] = async (user, set, to) => this.#relocate(user, 'copy', set, to);

  readonly expunge: Mailstore['expunge'] = async (user, set) =>
    this.#editor.expunge(user, await this.#named(user, set));

  readonly createMailbox: Mailstore['createMailbox'] = (user, name) =>
    this.#editor.create(user, name);

  readonly renameMailbox: Mailstore['renameMailbox'] = async (user, name, to) =>
    this.#editor.rename(user, await this.#nameOf(user, name), to);

  readonly deleteMailbox: Mailstore['deleteMailbox'] = async (user, name) =>
    this.#editor.remove(user, await this.#nameOf(user, name));

  /**
   * Opens an account for a mail program, on a connection of its own. The caller ends it when the account's access ends.
   *
   * @param client IP address of the program
   * @param left aborts where the program leaves while it waits for its turn
   * @throws Refusal `unavailable`, `account_inactive`; the reason of `left`
   */
  openForProgram(user: MailUser, client: string, left: AbortSignal): Promise<RawConnection> {
    const [server, timeoutMs] = [this.#server, this.#timeoutMs];
    const open = () =>
      openAs(server, user.address, (login) => openRaw({ server, login, client, timeoutMs }));
    const logIn = () => this.#pool.logIn(user, () => this.#connect(user, open));
    return this.#guard.run(
      user,
      () => this.#rawLogins.run(partiesOf(user, RAW_LOGIN_SHARES), logIn, left),
      undefined,
      'the mail program is told that the server is unavailable',
    );
  }

  /** Whether the server accepts connections and the master's login. */
  answers(): Promise<boolean> {
    return this.#readiness.answers();
  }

  /**
   * Removes tombstones that are older than `keptMs`; tokens from before then get a reset.
   *
   * @param keptMs how long tombstones are kept
   * @param signal stops it early
   */
  pruneTombstones(keptMs: number, signal?: AbortSignal): Promise<number> {
    return pruneTombstones(this.#database, shadowTombstones, this.#now() - keptMs, signal);
  }

  /** Ends every connection. */
  close(): void {
    this.#pool.close();
  }

  async #relocate(user: MailUser, verb: 'move' | 'copy', set: MessageSet, to: string) {
    const target = await this.#nameOf(user, to);
    return this.#editor.relocate(user, verb, await this.#named(user, set), target);
  }

  /**
   * The name of a mailbox on the server. Names of calls are NFC, as those of the mailboxes that we create; another
   * client may have created one that is not, which then is listed as it was written.
   */
  async #nameOf(user: MailUser, written: string): Promise<string> {
    const name = canonicalMailboxName(written);
    if (name === written || name === 'INBOX') return name;
    const listed = await this.#read(user, undefined, listMailboxes);
    return listed.some(({ mailbox }) => mailbox === written) ? written : name;
  }

  async #named<Named extends { readonly mailbox: string }>(
    user: MailUser,
    named: Named,
  ): Promise<Named> {
    return { ...named, mailbox: await this.#nameOf(user, named.mailbox) };
  }

  async #connect<T extends { destroy(): void }>(
    user: MailUser,
    open: () => Promise<T>,
  ): Promise<T> {
    const connection = await this.#readiness.logIn(user, open);
    try {
      // The login has only the address, which may be another account's by now.
      await this.#guard.requireCurrent(user);
      return connection;
    } catch (error) {
      connection.destroy();
      throw error;
    }
  }

  /** The change that a write made, with the token that a sync would return now. */
  async #changeOf(
    connection: Connection,
    user: MailUser,
    mailbox: string,
    known?: KnownState,
  ): Promise<MailboxChange> {
    const { uidvalidity, state } = known ?? (await this.#stateOf(connection, user, mailbox));
    return mailboxChange(user, { name: mailbox, uidvalidity }, formatState(state));
  }

  async #stateOf(connection: Connection, user: MailUser, mailbox: string): Promise<KnownState> {
    const known = await readState(connection, mailbox);
    if (known) return known;
    const selected = await connection.select(mailbox, 'EXAMINE');
    const state =
      connection.hasQresync && selected.modseq !== undefined
        ? stateOf(selected)
        : shadowState(await this.#shadows.refresh(connection, user, mailbox));
    return { uidvalidity: selected.uidvalidity, state };
  }

  /** Runs work that may be done twice. If its connection was dropped, it runs once more on a new one. */
  async #read<T>(
    user: MailUser,
    mailbox: string | undefined,
    work: (connection: Connection, isKept: boolean) => Promise<T>,
    options: UseOptions = {},
  ): Promise<T> {
    return this.#guard.run(
      user,
      async () => {
        try {
          return await this.#pool.use(user, work, options);
        } catch (error) {
          if (!(error instanceof ImapFailure) || !error.connectionLost) throw error;
          this.#guard.report(user, error, 'trying once more');
          return this.#pool.use(user, work, { ...options, fresh: true });
        }
      },
      mailbox,
    );
  }
}
