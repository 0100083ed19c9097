/** Adding a message by IMAP, and finding out whether one came: for delivery, where LMTP is not used. */
import { Refusal } from '../../errors/errors.ts';
import { defaultMailboxes } from '../../mailstore/mailstore.ts';
import type { Connection } from './connection.ts';
import { ImapFailure } from './failure.ts';
import { findSpecialUse } from './list-mailboxes.ts';
import { encodeMailboxName } from './utf7.ts';
import { type Argument, atom, literal, quoted, textOf } from './wire.ts';

/** A message to add (RFC 3501 section 6.3.11). */
export interface AppendedSource {
  /** Reads the message, every line of it ending in CRLF. */
  readonly open: () => AsyncIterable<Uint8Array>;
  readonly size: number;
  readonly flags: readonly string[];
  /** Milliseconds since 1970; when the server adds it, when left out. */
  readonly internalDate?: number | undefined;
  /**
   * Ends the attempt. Its message is tried again then, so it must not be added later: what does not
   * lie with the server by that time never gets there.
   */
  readonly signal: AbortSignal;
}

/** The most that one APPEND may have: the library takes a message in one piece. */
const SIZE_MAX = 256 * 1024 * 1024;

/**
 * Adds a message (RFC 3501 section 6.3.11). A signal in the middle of it ends the connection; as with
 * one that breaks, whether the message came is for `hasReceived` to tell.
 *
 * @throws Refusal `mailbox_full` or `mailbox_refused`, for good; the reason of the signal; ImapFailure
 *   for anything else
 */
export async function appendMessage(
  connection: Connection,
  mailbox: string,
  message: AppendedSource,
): Promise<void> {
  const { signal } = message;
  signal.throwIfAborted();
  // IMAP has no way to take back a command that was sent.
  const cutOff = () => connection.destroy();
  signal.addEventListener('abort', cutOff, { once: true });
  try {
    await append(connection, mailbox, message);
  } catch (error) {
    throw signal.aborted ? signal.reason : error;
  } finally {
    signal.removeEventListener('abort', cutOff);
  }
}

async function append(
  connection: Connection,
  mailbox: string,
  { open, size, flags, internalDate, signal }: AppendedSource,
): Promise<void> {
  if (size > SIZE_MAX) throw new Refusal('mailbox_refused', 'the message is too large for APPEND');
  const target =
    (await findTarget(connection, mailbox)) ?? (await createMailbox(connection, mailbox));
  // Courier adds nothing to a mailbox that the session has open read-only. Dovecot looks after APPEND
  // for news of whatever mailbox is open; one that was deleted and made anew it would empty.
  await connection.unselect();
  const source = Buffer.concat(await Array.fromAsync(open()), size);
  const args: Argument[] = [quoted(encodeMailboxName(target)), flags.map(atom)];
  if (internalDate !== undefined) args.push(quoted(writeDateTime(internalDate)));
  signal.throwIfAborted();
  try {
    await connection.command('APPEND', [...args, literal(source)]);
  } catch (error) {
    throw asRefusal(error);
  }
}

/**
 * A NO counts as final only where its code says so (RFC 5530 section 3, RFC 7889, RFC 9208 section
 * 4.1.3): what is final bounces, and servers say NO to much that passes.
 */
function asRefusal(error: unknown): unknown {
  if (!(error instanceof ImapFailure) || error.kind !== 'said_no') return error;
  const { responseCode = '', said = '' } = error.details;
  if (/^OVERQUOTA$/i.test(responseCode)) return new Refusal('mailbox_full', 'the mailbox is full');
  return /^(?:CANNOT|NOPERM|TOOBIG)$/i.test(responseCode)
    ? new Refusal('mailbox_refused', `the mail server refuses the message: ${said}`)
    : error;
}

/**
 * Our name of a mailbox is that of its use: servers call `Junk` `INBOX.Junk` or `Spam`.
 *
 * @returns undefined where the server has none
 */
async function findTarget(connection: Connection, mailbox: string): Promise<string | undefined> {
  if (mailbox === 'INBOX') return mailbox;
  const { specialUse } = defaultMailboxes.find(({ name }) => name === mailbox) ?? {};
  return findSpecialUse(connection, mailbox, specialUse ?? undefined);
}

async function createMailbox(connection: Connection, mailbox: string): Promise<string> {
  try {
    await connection.command('CREATE', [quoted(encodeMailboxName(mailbox))]);
  } catch (error) {
    const exists =
      error instanceof ImapFailure && /ALREADYEXISTS/.test(error.details.responseCode ?? '');
    if (!exists) throw asRefusal(error);
  }
  return mailbox;
}

const MONTHS = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];

/** `date-time` of RFC 3501 section 9, in UTC. */
export function writeDateTime(milliseconds: number): string {
  const date = new Date(milliseconds);
  const day = String(date.getUTCDate()).padStart(2, ' ');
  const time = date.toISOString().slice(11, 19);
  return `${day}-${MONTHS[date.getUTCMonth()]}-${date.getUTCFullYear()} ${time} +0000`;
}

/** Deliveries are tried for 5 days; what is older was not brought by one of them. */
const LOOKED_THROUGH_MS = 7 * 86_400_000;

/**
 * Whether a mailbox has a message that has the id in a Received field. It is looked for where
 * `appendMessage` puts it; a mailbox that is still to be made has none.
 */
export async function hasReceived(
  connection: Connection,
  mailbox: string,
  receivedId: string,
  now: number,
): Promise<boolean> {
  const target = await findTarget(connection, mailbox);
  if (target === undefined) return false;
  const { exists } = await connection.select(target, 'EXAMINE');
  if (exists === 0) return false;
  const since = writeDateTime(now - LOOKED_THROUGH_MS)
    .slice(0, 11)
    .trimStart();
  const criteria = [atom('SINCE'), atom(since), atom('HEADER'), quoted('Received')];
  let found = false;
  await connection.command('UID SEARCH', [...criteria, quoted(receivedId)], {
    SEARCH: ({ numbers, attributes }) => {
      found ||= (numbers ?? attributes ?? []).length > 0;
    },
    ESEARCH: ({ attributes }) => {
      found ||= (attributes ?? []).some((item) => textOf(item)?.toUpperCase() === 'ALL');
    },
  });
  return found;
}
