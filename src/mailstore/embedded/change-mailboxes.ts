/** Making, renaming and removing mailboxes. */
import type { MailboxChange } from '../../changes/changes.ts';
import type { Database } from '../../database/database.ts';
import { invalidField, Refusal } from '../../errors/errors.ts';
import {
  canonicalMailboxName,
  defaultMailboxes,
  readNewName,
  SEPARATOR,
} from '../mailbox-names.ts';
import type { ChangedMailbox, MailUser } from '../store.ts';
import {
  type Mailboxes,
  type MailboxRow,
  mailboxChange,
  mailboxNotFound,
  stateOf,
} from './mailboxes.ts';
import { buryMailbox } from './purge-mailboxes.ts';

/** Mailboxes of one account: each is in every hello of the account. */
const MAILBOXES_MAX = 1_000;

export class MailboxWriter {
  readonly #database: Database;
  readonly #mailboxes: Mailboxes;

  constructor(database: Database, mailboxes: Mailboxes) {
    this.#database = database;
    this.#mailboxes = mailboxes;
  }

  async create(user: MailUser, wanted: string): Promise<ChangedMailbox> {
    const name = readNewName('mailbox', wanted);
    // The usual ones come first, so that none of them is made by hand.
    await this.#mailboxes.find(user, 'INBOX');
    return this.#database.write(async (tx) => {
      const all = await this.#mailboxes.readAll(tx, user);
      if (all.length >= MAILBOXES_MAX) {
        throw invalidField('mailbox', `must not be one more than ${MAILBOXES_MAX} of the account`);
      }
      refuseTaken(all, [name]);
      const made = await this.#mailboxes.make(tx, user, name);
      return { state: stateOf(made), changes: [changeOf(user, made)] };
    });
  }

  async rename(user: MailUser, name: string, wanted: string): Promise<ChangedMailbox> {
    const to = readNewName('to', wanted);
    const from = canonicalMailboxName(name);
    refuseProtected(from);
    if (to.startsWith(from + SEPARATOR)) {
      throw invalidField('to', 'must not be below the mailbox that is renamed');
    }
    return this.#database.write(async (tx) => {
      const all = await this.#mailboxes.readAll(tx, user);
      const found = all.find((one) => one.name === from);
      if (!found) throw mailboxNotFound(name);
      // Those below it go with it (RFC 3501 section 6.3.5).
      const isMoving = (one: MailboxRow) => one === found || one.name.startsWith(from + SEPARATOR);
      const moving = all.filter(isMoving);
      const renamed = moving.map((one) => ({ ...one, name: to + one.name.slice(from.length) }));
      const names = renamed.map((one) => readNewName('to', one.name));
      refuseTaken(
        all.filter((one) => !isMoving(one)),
        names,
      );
      for (const one of renamed) await this.#mailboxes.rename(tx, one.id, one.name);
      const changes = [...moving, ...renamed].map((one) => changeOf(user, one));
      return { state: stateOf({ ...found, name: to }), changes };
    });
  }

  /** The name is free at once; the messages are removed afterwards (purge-mailboxes.ts). */
  remove(user: MailUser, name: string): Promise<ChangedMailbox> {
    refuseProtected(canonicalMailboxName(name));
    return this.#database.write(async (tx) => {
      const found = await this.#mailboxes.lock(tx, user, name);
      await buryMailbox(tx, found.id);
      return { state: stateOf(found), changes: [changeOf(user, found)] };
    });
  }
}

/** Names that differ in case alone are one to people, and to some file systems and servers. */
function refuseTaken(others: readonly MailboxRow[], names: readonly string[]): void {
  const taken = new Map(others.map((one) => [one.name.toLowerCase(), one.name]));
  for (const name of names) {
    const other = taken.get(name.toLowerCase());
    if (other === undefined) continue;
    throw new Refusal('mailbox_exists', `there is a mailbox "${other}" already`);
  }
}

/** Mail has to have somewhere to arrive, and clients look for the special ones (RFC 6154). */
function refuseProtected(name: string): void {
  if (defaultMailboxes.some((one) => one.name === name)) {
    throw new Refusal('mailbox_protected', `"${name}" cannot be renamed or deleted`);
  }
}

function changeOf(user: MailUser, row: MailboxRow): MailboxChange {
  return mailboxChange(user, row, row.highestmodseq);
}
