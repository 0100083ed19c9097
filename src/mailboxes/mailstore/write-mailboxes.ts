/** Creates, renames and removes mailboxes. */
import type { Database, InTransaction, Queries } from '../../platform/database/database.ts';
import { invalidField, Refusal } from '../../platform/errors/errors.ts';
import { type MailboxChange, mailboxChange } from '../changes/changes.ts';
import { accountNotFound, type Mailboxes, mailboxNotFound, stateOf } from './mailboxes.ts';
import { markMailbox } from './purge-mailboxes.ts';
import type { ChangedMailbox, MailboxRow, Mailstore, MailUser } from './store.ts';
import { forgetUnsubscribed, renameUnsubscribed } from './subscriptions.ts';
import { canonicalLevels, defaultMailboxes, isBelow, readNewName, SEPARATOR } from './syntax.ts';

/** Mailboxes of one account: each is listed in every hello of the account. */
const MAILBOXES_MAX = 1_000;

export class MailboxWriter {
  readonly #database: Database;
  readonly #mailboxes: Mailboxes;

  constructor(database: Database, mailboxes: Mailboxes) {
    this.#database = database;
    this.#mailboxes = mailboxes;
  }

  readonly create: Mailstore['createMailbox'] = async (user, wanted, within) => {
    const name = readNewName('mailbox', wanted);
    // The default mailboxes are created first, so that no client creates one of them.
    await this.#mailboxes.find(user, 'INBOX');
    return this.#write(user, within, async (tx) => {
      const all = await this.#mailboxes.readAll(tx, user);
      if (all.length >= MAILBOXES_MAX) {
        throw invalidField(
          'mailbox',
          `cannot be made: the account already has ${MAILBOXES_MAX} mailboxes`,
        );
      }
      refuseTaken(all, [name]);
      const made = await this.#mailboxes.make(tx, user, name);
      return { state: stateOf(made), changes: [changeOf(user, made)] };
    });
  };

  readonly rename: Mailstore['renameMailbox'] = async (user, name, wanted, noselect, within) => {
    const to = readNewName('to', wanted);
    const from = canonicalLevels(name);
    refuseProtected(from);
    if (isBelow(to, from)) {
      throw invalidField('to', 'must not be below the mailbox that is renamed');
    }
    return this.#write(user, within, async (tx) => {
      const all = await this.#mailboxes.readAll(tx, user);
      // Those below it are renamed as well (RFC 3501 section 6.3.5).
      const isMoving = (one: MailboxRow) =>
        one.name === from || one.name.startsWith(from + SEPARATOR);
      const moving = all.filter(isMoving).sort((a, b) => a.name.length - b.name.length);
      const [first] = moving;
      if (!first || !(noselect || first.name === from)) throw mailboxNotFound(name);
      const renamed = moving.map((one) => ({ ...one, name: to + one.name.slice(from.length) }));
      refuseTaken(
        all.filter((one) => !isMoving(one)),
        renamed.map((one) => readNewName('to', one.name)),
      );
      await this.#mailboxes.rename(tx, renamed);
      const names = new Map(renamed.map((one, at) => [moving[at]?.name ?? '', one.name]));
      await renameUnsubscribed(tx, user, names);
      const changes = [...moving, ...renamed].map((one) => changeOf(user, one));
      return { state: stateOf({ ...first, name: to }), changes };
    });
  };

  /** The name is free at once; the messages are removed later (purge-mailboxes.ts). */
  readonly remove: Mailstore['deleteMailbox'] = async (user, name, within) => {
    refuseProtected(canonicalLevels(name));
    return this.#write(user, within, async (tx) => {
      const found = await this.#mailboxes.lock(tx, user, name);
      await markMailbox(tx, found.id);
      await forgetUnsubscribed(tx, user, found.name);
      return { state: stateOf(found), changes: [changeOf(user, found)] };
    });
  };

  /** Locks the account until the commit: changes to its list of mailboxes happen one after the other. */
  #write(
    user: MailUser,
    within: InTransaction<ChangedMailbox> | undefined,
    change: (tx: Queries) => Promise<ChangedMailbox>,
  ): Promise<ChangedMailbox> {
    return this.#database.write(async (tx) => {
      const account = await tx
        .selectFrom('accounts')
        .select('id')
        .where('id', '=', user.accountId)
        .forNoKeyUpdate()
        .executeTakeFirst();
      if (!account) throw accountNotFound(user);
      const made = await change(tx);
      await within?.(tx, made);
      return made;
    });
  }
}

/** Names that differ only in case look the same to people, and to some file systems and servers. */
function refuseTaken(others: readonly MailboxRow[], names: readonly string[]): void {
  const taken = new Map(others.map((one) => [one.name.toLowerCase(), one.name]));
  for (const name of names) {
    const other = taken.get(name.toLowerCase());
    if (other === undefined) continue;
    throw new Refusal('mailbox_exists', `there is a mailbox "${other}" already`);
  }
}

/** Mail needs a mailbox to arrive in, and clients look for the special ones (RFC 6154). */
function refuseProtected(name: string): void {
  if (defaultMailboxes.some((one) => one.name === name)) {
    throw new Refusal('mailbox_protected', `"${name}" cannot be renamed or deleted`);
  }
}

function changeOf(user: MailUser, row: MailboxRow): MailboxChange {
  return mailboxChange(user, row, row.highestmodseq);
}
