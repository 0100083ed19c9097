/**
 * One logged-in connection to the IMAP server, for one account: commands with deadlines, and the
 * mailbox that is selected on it.
 */
import { isRefusal } from '../../../platform/errors/errors.ts';
import { encodeMailboxName, UidSet } from '../../../protocols/imap-syntax/imap-syntax.ts';
import { mailboxNotFound } from '../../mailstore/mailstore.ts';
import { ImapFailure, saysNo } from './failure.ts';
import type { Link, Untagged } from './link.ts';
import { type LinkOptions, openLink } from './open-link.ts';
import type { ImapResponse } from './responses.ts';
import {
  type Argument,
  atom,
  listOf,
  modseqOf,
  numberOf,
  quoted,
  readFlags,
  textOf,
} from './wire.ts';

export class Connection {
  readonly #link: Link;
  #qresync = false;
  #selected: Selected | undefined;

  private constructor(link: Link) {
    this.#link = link;
    link.unasked = this.#notes();
  }

  /** @throws ImapFailure */
  static async open(options: Omit<LinkOptions, 'client'>): Promise<Connection> {
    const link = await openLink(options);
    const connection = new Connection(link);
    try {
      await connection.#enable();
      return connection;
    } catch (error) {
      connection.destroy();
      throw error;
    }
  }

  /** RFC 7162 section 3.2.3: before the first SELECT, so that MODSEQs count from the start on. */
  async #enable(): Promise<void> {
    if (!this.has('QRESYNC') || !this.has('ENABLE')) return;
    await this.command('ENABLE', [atom('CONDSTORE'), atom('QRESYNC')], {
      ENABLED: ({ items }) => {
        this.#qresync ||= items.some((item) => textOf(item)?.toUpperCase() === 'QRESYNC');
      },
    });
  }

  /** @param extension in capitals */
  has(extension: string): boolean {
    return this.#link.has(extension);
  }

  get hasQresync(): boolean {
    return this.#qresync;
  }

  get selected(): Selected | undefined {
    return this.#selected;
  }

  get isOpen(): boolean {
    return this.#link.failure === undefined;
  }

  /** Called once, when the connection has ended for any reason. */
  onClose(listener: () => void): void {
    this.#link.onClose(listener);
  }

  /** Ends it at once; a command under way fails with `reason`. */
  destroy(reason: ImapFailure = new ImapFailure('dropped')): void {
    this.#link.fail(reason);
  }

  /**
   * Sends a command and passes its untagged responses to `on`, by their names.
   *
   * @returns the tagged OK
   * @throws ImapFailure; after any but `said_no` and `said_bad` the connection is closed. The first error that `on` threw
   */
  async command(
    name: string,
    args: readonly Argument[] = [],
    on: Untagged = {},
  ): Promise<ImapResponse> {
    const handlers = { ...on };
    // A removal during this session is a change of the mailbox, also while past removals are requested (RFC 7162
    // section 3.2.10).
    const { VANISHED: earlier } = on;
    if (earlier) {
      handlers.VANISHED = (response) =>
        Array.isArray(response.items[0]) ? earlier(response) : this.#noteVanished(response);
    }
    try {
      return await this.#link.command(name, args, handlers);
    } catch (error) {
      if (!saysNo(error) || !isMailboxLost(error, name)) throw error;
      const lost = new ImapFailure('lost', error.details);
      this.destroy(lost);
      throw lost;
    }
  }

  /** Handlers for what the server reports about the selected mailbox without a request (RFC 3501 section 7). */
  #notes(): Untagged {
    return {
      EXISTS: ({ number }) =>
        this.#note((selected) => {
          selected.exists = number ?? selected.exists;
        }),
      EXPUNGE: () =>
        this.#note((selected) => {
          selected.exists = Math.max(0, selected.exists - 1);
        }),
      VANISHED: (response) => this.#noteVanished(response),
      FETCH: () => this.#note(() => undefined),
    };
  }

  #noteVanished({ items: [first] }: ImapResponse): void {
    const uids = typeof first === 'string' ? UidSet.parse(first) : undefined;
    if (!uids) return;
    this.#note((selected) => {
      selected.exists = Math.max(0, selected.exists - uids.size);
      selected.gone.push(uids);
    });
  }

  #note(change: (selected: Selected) => void): void {
    if (!this.#selected) return;
    this.#selected.news = true;
    change(this.#selected);
  }

  /**
   * Opens a mailbox again, so that what follows is one fresh state of it.
   *
   * @param how read-only leaves `\Recent` alone (RFC 3501 section 6.3.2)
   * @param args such as QRESYNC parameters
   * @throws Refusal `mailbox_not_found` where the server refuses the name
   */
  async select(
    mailbox: string,
    how: 'EXAMINE' | 'SELECT',
    args: readonly Argument[] = [],
    on: Untagged = {},
  ): Promise<Selected> {
    const name = mailboxArgument(mailbox);
    this.#selected = undefined;
    const seen: SelectAnswer = {
      exists: 0,
      uidnext: undefined,
      uidvalidity: '',
      modseq: undefined,
      keywords: [],
    };
    try {
      await this.command(how, [name, ...args], {
        ...on,
        OK: (response) => readSelectCode(response, seen),
        EXISTS: ({ number }) => {
          seen.exists = number ?? seen.exists;
        },
        FLAGS: ({ items }) => {
          const flags = readFlags(listOf(items[0]));
          seen.keywords = flags.filter((flag) => !flag.startsWith('\\'));
        },
      });
    } catch (error) {
      throw await this.#explainRefusal(mailbox, error);
    }
    const { exists, uidvalidity, modseq, keywords } = seen;
    if (uidvalidity === '') throw new ImapFailure('garbled', { command: how });
    this.#selected = {
      mailbox,
      readOnly: how === 'EXAMINE',
      uidvalidity,
      uidnext: 0,
      exists,
      modseq: modseq === 0n ? undefined : modseq,
      keywords,
      news: false,
      gone: [],
    };
    const uidnext = seen.uidnext ?? (await this.#findUidnext(exists));
    this.#selected = { ...this.#selected, uidnext };
    return this.#selected;
  }

  /**
   * The meaning of a NO to SELECT. Every account has an INBOX (RFC 3501 section 5.1). A server that refuses INBOX
   * denies access to the master by ACLs (RFC 4314), and says that the other mailboxes do not exist. If we passed
   * that on, an app would drop its copy of them.
   */
  async #explainRefusal(mailbox: string, error: unknown): Promise<unknown> {
    if (!saysNo(error) || error.isTemporary) return error;
    const { responseCode: _, ...details } = error.details;
    const noAccess = new ImapFailure('no_access', details);
    if (mailbox === 'INBOX' || saysNo(error, 'NOPERM')) return noAccess;
    try {
      await this.command('STATUS', [quoted('INBOX'), [atom('UIDVALIDITY')]]);
      return mailboxNotFound(mailbox);
    } catch (refusal) {
      return saysNo(refusal) && !refusal.isTemporary ? noAccess : refusal;
    }
  }

  /** Servers may leave UIDNEXT out (RFC 3501 section 6.3.1): then it is one more than the last. */
  async #findUidnext(exists: number): Promise<number> {
    if (exists === 0) return 1;
    let last = 0;
    await this.command('FETCH', [atom('*'), atom('UID')], {
      FETCH: ({ items }) => {
        last = numberOf(listOf(items[0])[1]) ?? last;
      },
    });
    return last + 1;
  }

  /** Closes the mailbox without expunging, so that STATUS returns current numbers of it, too. */
  async unselect(): Promise<void> {
    const selected = this.#selected;
    if (!selected) return;
    if (!selected.readOnly && !this.has('UNSELECT')) await this.select(selected.mailbox, 'EXAMINE');
    // CLOSE of a mailbox that was opened by EXAMINE expunges nothing (RFC 3501 section 6.4.2).
    await this.command(this.has('UNSELECT') ? 'UNSELECT' : 'CLOSE');
    this.#selected = undefined;
  }
}

/**
 * Whether a NO to a reading command means that the open mailbox was deleted. RFC 2180 section 3.3 leaves it to the
 * server what a session gets then; Cyrus says NO until the session ends.
 */
function isMailboxLost(no: ImapFailure, command: string): boolean {
  // EXPUNGEISSUED counts as temporary.
  return ['UID FETCH', 'UID SEARCH', 'FETCH', 'NOOP'].includes(command) && !no.isTemporary;
}

/**
 * The name of a mailbox in a command. One with a line end is never sent: no mailbox has one, and Dovecot repeats the decoded
 * name in its NO, where what follows the line end would be read as the next answer.
 *
 * @throws Refusal `mailbox_not_found`
 */
export function mailboxArgument(mailbox: string): Argument {
  if (/[\r\n]/.test(mailbox)) throw mailboxNotFound(mailbox);
  return quoted(encodeMailboxName(mailbox));
}

export const isMissing = isRefusal('mailbox_not_found');

/* The mailbox that is selected on a connection (RFC 3501 section 6.3.1). */

/** What SELECT and EXAMINE return about a mailbox, and what is known of it since. */
export interface Selected {
  readonly mailbox: string;
  readonly readOnly: boolean;
  readonly uidvalidity: string;
  readonly uidnext: number;
  exists: number;
  /** Undefined where the mailbox keeps no MODSEQs (RFC 7162 section 3.1.2.2). */
  readonly modseq: bigint | undefined;
  /** Keywords that messages may have in addition to the system flags (RFC 3501 section 7.2.6). */
  readonly keywords: readonly string[];
  /** Whether the server reported a change without a request. */
  news: boolean;
  /** UIDs that the server reported as removed since the mailbox was selected (RFC 7162 section 3.2.10.2). */
  readonly gone: UidSet[];
}

/** The answer to SELECT so far. */
interface SelectAnswer {
  exists: number;
  uidnext: number | undefined;
  uidvalidity: string;
  modseq: bigint | undefined;
  keywords: readonly string[];
}

function readSelectCode({ code }: ImapResponse, seen: SelectAnswer): void {
  if (code?.name === 'UIDVALIDITY') seen.uidvalidity = `${numberOf(code.values[0]) ?? ''}`;
  if (code?.name === 'UIDNEXT') seen.uidnext = numberOf(code.values[0]);
  if (code?.name === 'HIGHESTMODSEQ') seen.modseq = modseqOf(code.values[0]);
  if (code?.name === 'NOMODSEQ') seen.modseq = undefined;
}
