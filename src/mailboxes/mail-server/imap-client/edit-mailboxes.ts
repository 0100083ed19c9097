/** Changes that an app makes, carried out on the server: messages and mailboxes. */
import { invalidField, Refusal } from '../../../platform/errors/errors.ts';
import type { MailboxChange } from '../../changes/changes.ts';
import {
  type ChangedMailbox,
  type Expunged,
  type FlagChange,
  type Flagged,
  isBelow,
  type MailboxState,
  type MailUser,
  type MessageSet,
  type Relocated,
  readNewName,
  requireSame,
} from '../../mailstore/mailstore.ts';
import { expungeMessages, readCurrent, relocateMessages, storeFlags } from './change-messages.ts';
import { type Connection, mailboxArgument, type Selected } from './connection.ts';
import { saysNo } from './failure.ts';
import { type KnownState, listMailboxes } from './list-mailboxes.ts';
import type { SyncState } from './token.ts';
import { listOf, quoted, textOf } from './wire.ts';

export interface EditorOptions {
  /** Runs work that may be done twice. If its connection was dropped, it runs once more on a new one. */
  readonly repeat: <T>(
    user: MailUser,
    mailbox: string | undefined,
    work: (connection: Connection) => Promise<T>,
  ) => Promise<T>;
  /** Runs work that must not be done twice. */
  readonly once: EditorOptions['repeat'];
  /** The change that a write made, with the token that a sync would return now; the mailbox is asked where it is not known. */
  readonly changeOf: (
    connection: Connection,
    user: MailUser,
    mailbox: string,
    known?: KnownState,
  ) => Promise<MailboxChange>;
}

export class MailboxEditor {
  readonly #options: EditorOptions;

  constructor(options: EditorOptions) {
    this.#options = options;
  }

  setFlags(user: MailUser, set: MessageSet, change: FlagChange): Promise<Flagged> {
    const name = set.mailbox;
    return this.#options.repeat(user, name, async (connection) => {
      const selected = requireSame(await connection.select(name, 'SELECT'), set);
      const { changed, told } = await storeFlags(connection, selected, set.uids, change);
      const known = knownState(selected, told?.state);
      const after = await this.#options.changeOf(connection, user, name, known);
      const rows = told?.rows ?? (await readCurrent(connection, name, set.uids));
      return {
        state: stateOf(after),
        // Without CONDSTORE a message has no MODSEQ: it gets that of the mailbox.
        updated: rows.map(({ uid, modseq, flags }) => ({
          uid,
          modseq: modseq === undefined ? (after.token.split('-')[0] ?? '0') : `${modseq}`,
          flags,
        })),
        changes: changed ? [after] : [],
      };
    });
  }

  relocate(
    user: MailUser,
    verb: 'move' | 'copy',
    set: MessageSet,
    target: string,
  ): Promise<Relocated> {
    const [from, to] = [set.mailbox, target];
    if (verb === 'move' && from === to) throw invalidField('to', 'must be another mailbox');
    return this.#options.once(user, from, async (connection) => {
      // A missing mailbox is refused also where there is nothing to move.
      await connection.select(to, 'EXAMINE');
      const how = verb === 'move' ? 'SELECT' : 'EXAMINE';
      const selected = requireSame(await connection.select(from, how), set);
      const { uids, state } = await relocateMessages(connection, verb, selected, {
        uids: set.uids,
        to,
      });
      const removals =
        verb === 'move' && uids.size > 0
          ? [await this.#options.changeOf(connection, user, from, knownState(selected, state))]
          : [];
      const change = await this.#options.changeOf(connection, user, to);
      const changes = uids.size > 0 ? [...removals, change] : [];
      return { state: stateOf(change), uids, changes };
    });
  }

  expunge(user: MailUser, set: MessageSet): Promise<Expunged> {
    const name = set.mailbox;
    return this.#options.repeat(user, name, async (connection) => {
      const selected = requireSame(await connection.select(name, 'SELECT'), set);
      const { removed, state } = await expungeMessages(connection, selected, set.uids);
      const after = knownState(selected, state);
      const change = await this.#options.changeOf(connection, user, name, after);
      return {
        state: stateOf(change),
        removed: [...removed.take()],
        changes: removed.size > 0 ? [change] : [],
      };
    });
  }

  create(user: MailUser, wanted: string): Promise<ChangedMailbox> {
    const given = readNewName('mailbox', wanted);
    return this.#options.once(user, undefined, async (connection) => {
      const name = toServerName(given, await readNamespace(connection));
      await refuseTaken(connection, name);
      await connection.command('CREATE', [mailboxArgument(name)]).catch(explainTaken);
      // Many clients hide mailboxes that are not subscribed to (RFC 3501 section 6.3.6).
      await connection.command('SUBSCRIBE', [mailboxArgument(name)]);
      const change = await this.#options.changeOf(connection, user, name);
      return { state: stateOf(change), changes: [change] };
    });
  }

  rename(user: MailUser, from: string, wanted: string): Promise<ChangedMailbox> {
    const given = readNewName('to', wanted);
    return this.#options.once(user, undefined, async (connection) => {
      const namespace = await readNamespace(connection);
      const to = toServerName(given, namespace);
      await refuseProtected(connection, from);
      if (isBelow(to, from, namespace.separator)) {
        throw invalidField('to', 'must not be below the mailbox that is renamed');
      }
      // A missing mailbox is refused with the same error as in every other call.
      const before = await this.#options.changeOf(connection, user, from);
      // As on the embedded store: to its own name nothing is renamed, and to another case of it always.
      if (to === from) return { state: stateOf(before), changes: [before] };
      await refuseTaken(connection, to, from);
      await connection.unselect();
      const names = [from, to].map(mailboxArgument);
      await connection.command('RENAME', names).catch(explainTaken);
      const change = await this.#options.changeOf(connection, user, to);
      return { state: stateOf(change), changes: [before, change] };
    });
  }

  remove(user: MailUser, name: string): Promise<ChangedMailbox> {
    return this.#options.once(user, undefined, async (connection) => {
      await refuseProtected(connection, name);
      const change = await this.#options.changeOf(connection, user, name);
      await connection.unselect();
      await connection.command('DELETE', [mailboxArgument(name)]);
      return { state: stateOf(change), changes: [change] };
    });
  }
}

function stateOf({ mailbox, uidvalidity, token }: MailboxChange): MailboxState {
  return { mailbox, uidvalidity, token };
}

function knownState(
  { uidvalidity }: Selected,
  state: SyncState | undefined,
): KnownState | undefined {
  return state && { uidvalidity, state };
}

/** Mail arrives in INBOX, and clients look for the special mailboxes (RFC 6154): they stay. */
async function refuseProtected(connection: Connection, name: string): Promise<void> {
  const listed = await listMailboxes(connection);
  const found = listed.find(({ mailbox }) => mailbox === name);
  if (name !== 'INBOX' && found?.specialUse === undefined) return;
  throw new Refusal('mailbox_protected', `"${name}" cannot be renamed or deleted`);
}

/** To people, and to some servers, names that differ only in case are the same. @param own of the mailbox itself */
async function refuseTaken(connection: Connection, name: string, own?: string): Promise<void> {
  const listed = (await listMailboxes(connection)).filter(({ mailbox }) => mailbox !== own);
  const other = listed.find(({ mailbox }) => mailbox.toLowerCase() === name.toLowerCase());
  if (other) {
    throw new Refusal('mailbox_exists', `there is a mailbox "${other.mailbox}" already`);
  }
}

/** RFC 5530 section 3: another client created it meanwhile. */
function explainTaken(error: unknown): never {
  if (!saysNo(error, 'ALREADYEXISTS')) throw error;
  throw new Refusal('mailbox_exists', 'there is such a mailbox already');
}

/** An account's own namespace: on Courier `INBOX.` and `.`, on most others nothing and `/`. */
export interface Namespace {
  /** The start of every name except INBOX. */
  readonly prefix: string;
  /** Separates the name of a mailbox from that of one below it. */
  readonly separator: string;
}

/** For servers whose mailboxes have no levels. */
const FLAT: Namespace = { prefix: '', separator: '/' };

export async function readNamespace(connection: Connection): Promise<Namespace> {
  let found = FLAT;
  if (connection.has('NAMESPACE')) {
    // RFC 2342 section 5: `(("INBOX." ".")) NIL NIL`, the account's own first.
    await connection.command('NAMESPACE', [], {
      NAMESPACE: ({ items }) => {
        const [prefix, separator] = listOf(listOf(items[0])[0]);
        found = { prefix: textOf(prefix) ?? '', separator: textOf(separator) ?? '/' };
      },
    });
    return found;
  }
  // RFC 3501 section 6.3.8: an empty name asks only for the separator.
  await connection.command('LIST', [quoted(''), quoted('')], {
    LIST: ({ items }) => {
      found = { prefix: '', separator: textOf(items[1]) ?? '/' };
    },
  });
  return found;
}

/**
 * The name under which a server creates a mailbox.
 *
 * @param name its levels separated by `/`, or as the server writes it
 */
export function toServerName(name: string, { prefix, separator }: Namespace): string {
  const own = name.replaceAll('/', separator);
  return own === 'INBOX' || own.startsWith(prefix) ? own : prefix + own;
}
