/**
 * Adds messages by IMAP: for delivery where LMTP is not used, with a way to find out whether a message was added; and
 * for clients, who get its UID.
 */
import { Refusal } from '../../../platform/errors/errors.ts';
import { Turns } from '../../../platform/net/net.ts';
import { DAY_MS, type EpochMs } from '../../../platform/time/time.ts';
import { imapDate, imapDateTime, UID_MAX } from '../../../protocols/imap-syntax/imap-syntax.ts';
import type { Bodies, StagedBody } from '../../bodies/bodies.ts';
import {
  type AppendedByClient,
  type AppendRequest,
  canonicalMailboxName,
  defaultMailboxes,
  type MailUser,
  mailboxNotFound,
  partiesOf,
} from '../../mailstore/mailstore.ts';
import { withLineEnds } from '../lmtp.ts';
import { flagsForServer } from './change-messages.ts';
import { type Connection, mailboxArgument } from './connection.ts';
import type { EditorOptions } from './edit-mailboxes.ts';
import { ImapFailure, saysNo } from './failure.ts';
import { fetchRows, listUids, searchUids } from './fetch.ts';
import { findSpecialUse, readState } from './list-mailboxes.ts';
import type { ImapResponse } from './responses.ts';
import type { SyncState } from './token.ts';
import { type Argument, atom, numberOf, quoted } from './wire.ts';

/** A message to add (RFC 3501 section 6.3.11). */
export interface ImapAppend {
  /** Reads the message, every line of it ending in CRLF; may be called several times. */
  readonly open: () => AsyncIterable<Uint8Array>;
  /** Octets as `open` gives them. */
  readonly size: number;
  readonly flags: readonly string[];
  /** By default when the server adds it. */
  readonly internalDate?: EpochMs | undefined;
  /** Ends the attempt, which counts as failed: it is repeated, so a message added later would come twice. */
  readonly signal: AbortSignal;
}

/** A server that stalls holds so many connections, and fewer for one account or user: those that read have the others. */
const APPENDS_AT_ONCE = 4;
const APPENDS_OF_ONE = { account: 1, tenant: 3 };

/** The same time limit as for a message by LMTP. */
const APPEND_TIMEOUT_MS = 240_000;

export interface AppenderOptions extends Pick<EditorOptions, 'repeat' | 'once' | 'changeOf'> {
  /** Keeps a client's message until the server has it. */
  readonly bodies: Pick<Bodies, 'stage' | 'read' | 'discard' | 'checkRoom'>;
  readonly now: () => EpochMs;
}

export class MessageAppender {
  readonly #options: AppenderOptions;
  readonly #turns = new Turns(APPENDS_AT_ONCE);

  constructor(options: AppenderOptions) {
    this.#options = options;
  }

  /** See `ImapMailstore.appendByImap`. */
  async deliver(user: MailUser, mailbox: string, message: ImapAppend): Promise<void> {
    const name = canonicalMailboxName(mailbox);
    try {
      await this.#inTurn(user, undefined, message.signal, async (connection) => {
        const target =
          (await findTarget(connection, name)) ?? (await createMailbox(connection, name));
        await append(connection, target, message);
      });
    } catch (error) {
      // Servers say NO to many things that work a minute later, and a final refusal bounces the message.
      const isUnsure = error instanceof Refusal && error.code === 'mail_server_refused';
      throw isUnsure ? new Refusal('unavailable', error.message) : error;
    }
  }

  /** Whether a mailbox has the message that has this id in a Received field. */
  hasReceived(user: MailUser, mailbox: string, receivedId: string): Promise<boolean> {
    const name = canonicalMailboxName(mailbox);
    return this.#options.repeat(user, name, (connection) =>
      hasReceived(connection, name, receivedId, this.#options.now()),
    );
  }

  /** Adds a client's message. It is sent to the server when it is complete, since APPEND begins with its size. */
  async append(
    user: MailUser,
    { mailbox, flags = [], internalDate, octets }: AppendRequest,
    source: AsyncIterable<Uint8Array>,
  ): Promise<AppendedByClient> {
    const { bodies, repeat } = this.#options;
    const name = mailbox;
    const wanted = flagsForServer(flags);
    // Nothing is read for a mailbox that does not exist.
    const { uidnext } = await repeat(user, name, (connection) => look(connection, name));
    const noRoom = await bodies.checkRoom(octets);
    if (noRoom) throw noRoom;
    const body = await bodies.stage(withLineEnds(source), () => undefined);
    try {
      return await this.#send(user, name, { flags: wanted, internalDate, uidnext }, body);
    } finally {
      await bodies.discard(body);
    }
  }

  #send(
    user: MailUser,
    name: string,
    about: Pick<ImapAppend, 'flags' | 'internalDate'> & { readonly uidnext: number },
    body: StagedBody,
  ): Promise<AppendedByClient> {
    const { bodies, changeOf } = this.#options;
    const signal = AbortSignal.timeout(APPEND_TIMEOUT_MS);
    const message = { ...about, open: () => bodies.read(body), size: body.size, signal };
    const appended = this.#inTurn(user, name, signal, async (connection) => {
      const { uidnext } = connection.has('UIDPLUS') ? about : await look(connection, name);
      const told = await append(connection, name, message);
      const change = await changeOf(connection, user, name);
      const uid = told ?? (await findAppended(connection, name, uidnext, body.size));
      const { uidvalidity, token } = change;
      return { uid, state: { mailbox: name, uidvalidity, token }, changes: [change] };
    });
    return appended.catch((error: unknown) => {
      if (!signal.aborted || error !== signal.reason) throw error;
      throw new Refusal('unavailable', 'the mail server did not accept the message in time');
    });
  }

  #inTurn<T>(
    user: MailUser,
    mailbox: string | undefined,
    signal: AbortSignal,
    work: (connection: Connection) => Promise<T>,
  ): Promise<T> {
    const guarded = (connection: Connection) => endWith(signal, connection, work);
    return this.#turns.run(
      partiesOf(user, APPENDS_OF_ONE),
      () => this.#options.once(user, mailbox, guarded),
      signal,
    );
  }
}

/**
 * Runs work, and closes its connection when the signal aborts: a command of IMAP cannot be cancelled. The message may
 * have been added all the same; `hasReceived` finds out.
 */
async function endWith<T>(
  signal: AbortSignal,
  connection: Connection,
  work: (connection: Connection) => Promise<T>,
): Promise<T> {
  signal.throwIfAborted();
  const cutOff = () => connection.destroy();
  signal.addEventListener('abort', cutOff, { once: true });
  try {
    return await work(connection);
  } catch (error) {
    throw signal.aborted ? signal.reason : error;
  } finally {
    signal.removeEventListener('abort', cutOff);
  }
}

/** @throws Refusal mailbox_not_found */
async function look(connection: Connection, mailbox: string): Promise<Pick<SyncState, 'uidnext'>> {
  const known = await readState(connection, mailbox);
  return known ? known.state : connection.select(mailbox, 'EXAMINE');
}

/**
 * Adds a message to an existing mailbox (RFC 3501 section 6.3.11).
 *
 * @returns its UID where the server returns it (RFC 4315 section 3)
 * @throws Refusal `mailbox_full` or `mailbox_refused`, for good; `mailbox_not_found`; the reason of the
 *   signal; ImapFailure for anything else
 */
async function append(
  connection: Connection,
  mailbox: string,
  { open, size, flags, internalDate, signal }: ImapAppend,
): Promise<number | undefined> {
  // Courier refuses APPEND to a mailbox that the session has open read-only. Dovecot reads changes of the open mailbox
  // after APPEND; if that was deleted and created again, Dovecot would empty it.
  await connection.unselect();
  const args: Argument[] = [mailboxArgument(mailbox), flags.map(atom)];
  if (internalDate !== undefined) args.push(quoted(imapDateTime(internalDate)));
  signal.throwIfAborted();
  try {
    return readAppended(await connection.command('APPEND', [...args, { size, open }]));
  } catch (error) {
    throw asRefusal(error, mailbox);
  }
}

/** `[APPENDUID uidvalidity uid]`. */
function readAppended({ code }: ImapResponse): number | undefined {
  return code?.name === 'APPENDUID' ? numberOf(code.values[1]) : undefined;
}

/**
 * The UID of a message that was added, where the server lacks UIDPLUS: of the messages that came since, the first of the
 * same size.
 */
async function findAppended(
  connection: Connection,
  mailbox: string,
  uidnext: number,
  size: number,
): Promise<number> {
  const sizes = new Map<number, number | undefined>();
  await connection.select(mailbox, 'EXAMINE');
  const news = await listUids(connection, uidnext, UID_MAX);
  await fetchRows(connection, news, [atom('RFC822.SIZE')], (uid, items) => {
    sizes.set(uid, numberOf(items.get('RFC822.SIZE')));
  });
  const uids = [...sizes.keys()].sort((a, b) => a - b);
  const found = uids.find((uid) => sizes.get(uid) === size) ?? uids[0];
  if (found === undefined) throw new ImapFailure('garbled', { said: 'no UID after APPEND' });
  return found;
}

/** The NOs that are final for a delivery, too: by their code (RFC 5530 section 3, RFC 7889, RFC 9208 section 4.1.3). */
function asRefusal(error: unknown, mailbox: string): unknown {
  if (saysNo(error, 'TRYCREATE', 'NONEXISTENT')) return mailboxNotFound(mailbox);
  if (saysNo(error, 'OVERQUOTA')) return new Refusal('mailbox_full', 'the mailbox is full');
  if (!saysNo(error, 'CANNOT', 'NOPERM', 'TOOBIG')) return error;
  const { said = '' } = error.details;
  return new Refusal('mailbox_refused', `the mail server refuses the message: ${said}`);
}

/**
 * Finds the mailbox for a use. Our name for it is its use; a server may call our `Junk` `INBOX.Junk` or `Spam`.
 *
 * @returns undefined where the server has none
 */
async function findTarget(connection: Connection, mailbox: string): Promise<string | undefined> {
  if (mailbox === 'INBOX') return mailbox;
  const { specialUse } = defaultMailboxes.find(({ name }) => name === mailbox) ?? {};
  return findSpecialUse(connection, mailbox, specialUse ?? undefined);
}

async function createMailbox(connection: Connection, mailbox: string): Promise<string> {
  await connection.command('CREATE', [mailboxArgument(mailbox)]).catch((error: unknown) => {
    if (!saysNo(error, 'ALREADYEXISTS')) throw asRefusal(error, mailbox);
  });
  return mailbox;
}

/** Deliveries are tried for 5 days, so an older message cannot be of one of them. */
const LOOKED_THROUGH_MS = 7 * DAY_MS;

/**
 * Whether a mailbox has a message with this id in a Received field. It is searched where `appendMessage` puts it; a
 * mailbox that does not exist yet has none.
 */
async function hasReceived(
  connection: Connection,
  mailbox: string,
  receivedId: string,
  now: number,
): Promise<boolean> {
  const target = await findTarget(connection, mailbox);
  if (target === undefined) return false;
  const { exists } = await connection.select(target, 'EXAMINE');
  if (exists === 0) return false;
  const since = [atom('SINCE'), atom(imapDate(now - LOOKED_THROUGH_MS))];
  const named = [atom('HEADER'), quoted('Received'), quoted(receivedId)];
  return (await searchUids(connection, [...since, ...named])).size > 0;
}
