/** Rows of `mailboxes`: finding, making, and moving on their counters. */
import { sql } from 'kysely';
import type { MailboxChange } from '../../changes/changes.ts';
import { type Database, PreparedQuery, type Queries, type Row } from '../../database/database.ts';
import { Refusal } from '../../errors/errors.ts';
import { canonicalMailboxName, defaultMailboxes } from '../mailbox-names.ts';
import type { MailboxState, MailUser } from '../store.ts';

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

  async list(user: MailUser): Promise<MailboxState[]> {
    const select = () =>
      this.#database.read
        .selectFrom('mailboxes')
        .select(['name', 'uidvalidity', 'highestmodseq', 'special_use'])
        .where('account_id', '=', user.accountId)
        .orderBy('id')
        .execute();
    let rows = await select();
    if (rows.length === 0) {
      await this.ensureDefaults(user);
      rows = await select();
    }
    return rows.map((row) => ({
      mailbox: row.name,
      uidvalidity: String(row.uidvalidity),
      token: String(row.highestmodseq),
      ...(row.special_use !== null && { specialUse: row.special_use }),
    }));
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

/**
 * Gives the next MODSEQ of a mailbox. The row stays locked until the commit, so that a client can
 * never see N+1 before N: N would be lost to it (RFC 7162 section 3.1).
 */
export async function advanceModseq(tx: Queries, mailboxId: number): Promise<number> {
  const { highestmodseq } = await tx
    .updateTable('mailboxes')
    .set((eb) => ({ highestmodseq: eb('highestmodseq', '+', 1) }))
    .where('id', '=', mailboxId)
    .returning('highestmodseq')
    .executeTakeFirstOrThrow();
  return highestmodseq;
}

/** Gives the next UIDs of a mailbox together with one MODSEQ for all of them. */
export class UidAdvance {
  readonly #query: PreparedQuery<
    { mailboxId: number; count: number },
    Pick<Row<'mailboxes'>, 'uidnext' | 'highestmodseq'>
  >;

  constructor(queries: Queries) {
    this.#query = new PreparedQuery(({ mailboxId, count }) =>
      queries
        .updateTable('mailboxes')
        .set((eb) => ({
          uidnext: eb('uidnext', '+', count),
          highestmodseq: eb('highestmodseq', '+', sql.lit(1)),
        }))
        .where('id', '=', mailboxId)
        .returning(['uidnext', 'highestmodseq']),
    );
  }

  /** @param count how many UIDs */
  async next(
    tx: Queries,
    mailboxId: number,
    count: number,
  ): Promise<{ firstUid: number; modseq: number }> {
    const row = await this.#query.first(tx, { mailboxId, count });
    if (!row) throw new Error(`there is no mailbox ${mailboxId}`);
    return { firstUid: row.uidnext - count, modseq: row.highestmodseq };
  }
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
