/** Rows of `mailboxes`: finding, making, and moving on their counters. */
import { sql } from 'kysely';
import type { MailboxChange } from '../../changes/changes.ts';
import { type Database, PreparedQuery, type Queries, type Row } from '../../database/database.ts';
import { Refusal } from '../../errors/errors.ts';
import { canonicalMailboxName, defaultMailboxes } from '../mailbox-names.ts';
import type { MailboxState, MailboxSummary, MailUser } from '../store.ts';

export type MailboxRow = Pick<
  Row<'mailboxes'>,
  'id' | 'name' | 'uidvalidity' | 'highestmodseq' | 'pruned_modseq'
>;

const columns = ['id', 'name', 'uidvalidity', 'highestmodseq', 'pruned_modseq'] as const;

const UIDVALIDITY_COUNTER = 'uidvalidity';

/** Compiled once: every request and every message asks it. */
function prepareFind(queries: Queries) {
  return new PreparedQuery((value: { accountId: number; name: string }) =>
    queries
      .selectFrom('mailboxes')
      .select(columns)
      .where('account_id', '=', value.accountId)
      .where('name', '=', value.name),
  );
}

export class Mailboxes {
  readonly #database: Database;
  readonly #now: () => number;
  readonly #find: ReturnType<typeof prepareFind>;

  constructor(database: Database, now: () => number) {
    this.#database = database;
    this.#now = now;
    this.#find = prepareFind(database.read);
  }

  /** The mailbox as it is now, made first where it is one that every account has. */
  async find(user: MailUser, mailbox: string): Promise<MailboxRow> {
    const found = await this.findIn(this.#database.read, user, mailbox);
    return found ?? this.#make(user, mailbox);
  }

  findIn(queries: Queries, user: MailUser, mailbox: string): Promise<MailboxRow | undefined> {
    const { accountId } = user;
    return this.#find.first(queries, { accountId, name: canonicalMailboxName(mailbox) });
  }

  async list(user: MailUser): Promise<MailboxSummary[]> {
    const select = () =>
      this.#database.read
        .selectFrom('mailboxes')
        .select([...columns, 'special_use', 'messages', 'unseen'])
        .where('account_id', '=', user.accountId)
        .orderBy('id')
        .execute();
    let rows = await select();
    if (rows.length === 0) {
      await this.ensureDefaults(user);
      rows = await select();
    }
    return rows.map((row) => ({
      ...stateOf(row),
      // UIDVALIDITY values are given once in all, and say nothing of other accounts.
      mailboxId: `m${row.uidvalidity}`,
      ...(row.special_use !== null && { specialUse: row.special_use }),
      messages: row.messages,
      unseen: row.unseen,
    }));
  }

  /** Every mailbox of the account that is there, by age. */
  readAll(queries: Queries, user: MailUser): Promise<MailboxRow[]> {
    return queries
      .selectFrom('mailboxes')
      .select(columns)
      .where('account_id', '=', user.accountId)
      .orderBy('id')
      .execute();
  }

  /**
   * Holds the mailbox's row until the commit: what is read next cannot change in between.
   *
   * @throws Refusal mailbox_not_found where it is gone, or another account's
   */
  async lock(tx: Queries, user: MailUser, name: string): Promise<MailboxRow> {
    const row = await tx
      .updateTable('mailboxes')
      .set((eb) => ({ highestmodseq: eb.ref('highestmodseq') }))
      .where('account_id', '=', user.accountId)
      .where('name', '=', canonicalMailboxName(name))
      .returning(columns)
      .executeTakeFirst();
    if (!row) throw mailboxNotFound(name);
    return row;
  }

  /** Makes a mailbox of a name that is not taken. */
  async make(tx: Queries, user: MailUser, name: string): Promise<MailboxRow> {
    const uidvalidity = await this.#reserveUidvalidity(tx, 1);
    return tx
      .insertInto('mailboxes')
      .values({ account_id: user.accountId, name, special_use: null, uidvalidity })
      .returning(columns)
      .executeTakeFirstOrThrow();
  }

  async rename(tx: Queries, id: number, name: string): Promise<void> {
    await tx.updateTable('mailboxes').set({ name }).where('id', '=', id).execute();
  }

  async #make(user: MailUser, mailbox: string): Promise<MailboxRow> {
    await this.ensureDefaults(user);
    const made = await this.findIn(this.#database.read, user, mailbox);
    if (!made) throw mailboxNotFound(mailbox);
    return made;
  }

  /** Makes the mailboxes that an account lacks; several calls at once make them once. */
  async ensureDefaults(user: MailUser): Promise<void> {
    const made = await this.#database.write((tx) => this.#makeDefaults(tx, user));
    if (!made) throw new Refusal('account_not_found', `there is no account ${user.address}`);
  }

  /** The mailbox, made first where it is missing; undefined where the account or mailbox is not. */
  async findOrMake(tx: Queries, user: MailUser, mailbox: string): Promise<MailboxRow | undefined> {
    const found = await this.findIn(tx, user, mailbox);
    if (found || !(await this.#makeDefaults(tx, user))) return found;
    return this.findIn(tx, user, mailbox);
  }

  /** @returns false where there is no such account */
  async #makeDefaults(tx: Queries, user: MailUser): Promise<boolean> {
    const account = await tx
      .selectFrom('accounts')
      .select('id')
      .where('id', '=', user.accountId)
      // A deletion of the account waits, and then finds the mailboxes.
      .$if(this.#database.engine === 'postgres', (query) => query.forKeyShare())
      .executeTakeFirst();
    if (!account) return false;
    const first = await this.#reserveUidvalidity(tx, defaultMailboxes.length);
    await tx
      .insertInto('mailboxes')
      .values(
        defaultMailboxes.map(({ name, specialUse }, index) => ({
          account_id: user.accountId,
          name,
          special_use: specialUse,
          uidvalidity: first + index,
        })),
      )
      .onConflict((conflict) => conflict.columns(['account_id', 'name']).doNothing())
      .execute();
    return true;
  }

  /**
   * Gives `count` new UIDVALIDITY values. They start at the present second (as RFC 3501 section
   * 2.3.1.1 proposes) and only ever grow, so that neither a mailbox that is made again nor a
   * database restored from a backup gives a value that a client knows from before.
   */
  async #reserveUidvalidity(tx: Queries, count: number): Promise<number> {
    const seconds = Math.floor(this.#now() / 1000);
    const { value } = await tx
      .insertInto('counters')
      .values({ name: UIDVALIDITY_COUNTER, value: seconds + count })
      .onConflict((conflict) =>
        conflict.column('name').doUpdateSet((eb) => ({
          value: eb(
            eb
              .case()
              .when('counters.value', '>', seconds)
              .then(eb.ref('counters.value'))
              .else(seconds)
              .end(),
            '+',
            count,
          ),
        })),
      )
      .returning('value')
      .executeTakeFirstOrThrow();
    return value - count;
  }
}

/** By how much the counters of a mailbox go up. */
export interface Advance {
  readonly mailboxId: number;
  /** New UIDs. */
  readonly uids: number;
  readonly messages: number;
  readonly unseen: number;
  readonly octets: number;
}

function prepareAdvance(queries: Queries) {
  return new PreparedQuery(({ mailboxId, uids, messages, unseen, octets }: Advance) =>
    queries
      .updateTable('mailboxes')
      .set((eb) => ({
        uidnext: eb('uidnext', '+', uids),
        highestmodseq: eb('highestmodseq', '+', sql.lit(1)),
        messages: eb('messages', '+', messages),
        unseen: eb('unseen', '+', unseen),
        octets: eb('octets', '+', octets),
      }))
      .where('id', '=', mailboxId)
      // One that is deleted takes nothing more.
      .where('account_id', '>', 0)
      .returning(['uidnext', 'highestmodseq']),
  );
}

/**
 * Moves a mailbox on: gives the next MODSEQ, and the next UIDs. The row stays locked until the
 * commit, so that a client can never see N+1 before N: N would be lost to it (RFC 7162 section 3.1).
 */
export class MailboxAdvance {
  readonly #query: ReturnType<typeof prepareAdvance>;

  constructor(queries: Queries) {
    this.#query = prepareAdvance(queries);
  }

  /** @throws Refusal mailbox_not_found where the mailbox was deleted in this very moment */
  async next(tx: Queries, advance: Advance): Promise<{ firstUid: number; modseq: number }> {
    const row = await this.#query.first(tx, advance);
    if (!row) throw new Refusal('mailbox_not_found', 'the mailbox was deleted');
    return { firstUid: row.uidnext - advance.uids, modseq: row.highestmodseq };
  }
}

/** Clients sync with it, as with the state that any change answers. */
export function stateOf({ name, uidvalidity, highestmodseq }: MailboxRow): MailboxState {
  return { mailbox: name, uidvalidity: String(uidvalidity), token: String(highestmodseq) };
}

export function mailboxChange(
  user: MailUser,
  { name, uidvalidity }: Pick<MailboxRow, 'name' | 'uidvalidity'>,
  modseq: number,
): MailboxChange {
  return {
    kind: 'mailbox',
    accountId: user.accountId,
    mailbox: name,
    uidvalidity: String(uidvalidity),
    token: String(modseq),
    eventType: 'MailboxesChanged',
  };
}

export function mailboxNotFound(mailbox: string): Refusal {
  return new Refusal('mailbox_not_found', `there is no mailbox "${mailbox}"`);
}
