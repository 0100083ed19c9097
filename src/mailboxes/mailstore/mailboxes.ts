/** Rows of `mailboxes`: finds, creates and renames them, and advances their counters. */
import { type RawBuilder, sql } from 'kysely';
import {
  type Database,
  PreparedQuery,
  type Queries,
  type Row,
} from '../../platform/database/database.ts';
import { invalidField, Refusal } from '../../platform/errors/errors.ts';
import type { EpochMs } from '../../platform/time/time.ts';
import type { MailboxChange } from '../changes/changes.ts';
import { buryMailbox } from './purge-mailboxes.ts';
import type {
  ChangedMailbox,
  MailboxRow,
  MailboxState,
  MailboxSummary,
  MailUser,
} from './store.ts';
import {
  canonicalMailboxName,
  defaultMailboxes,
  isBelow,
  readNewName,
  SEPARATOR,
} from './syntax.ts';

export const mailboxColumns = [
  'id',
  'name',
  'uidvalidity',
  'highestmodseq',
  'pruned_modseq',
  'fork_modseq',
] as const satisfies readonly (keyof MailboxRow)[];

const UIDVALIDITY_COUNTER = 'uidvalidity';

/** Compiled once: every request and every message runs it. */
function prepareFind(queries: Queries) {
  return new PreparedQuery((value: { accountId: number; name: string }) =>
    queries
      .selectFrom('mailboxes')
      .select(mailboxColumns)
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

  /** The mailbox as it is now; one that every account has is created first if it is missing. */
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
        .select([...mailboxColumns, 'special_use', 'messages', 'unseen'])
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
      // Each UIDVALIDITY value is given once, and says nothing about other accounts.
      mailboxId: `m${row.uidvalidity}`,
      ...(row.special_use !== null && { specialUse: row.special_use }),
      messages: row.messages,
      unseen: row.unseen,
    }));
  }

  /** The current state of many accounts' mailboxes. */
  async tipsOf(accountIds: readonly number[]): Promise<Map<number, MailboxState[]>> {
    const tips = new Map<number, MailboxState[]>(accountIds.map((id) => [id, []]));
    if (accountIds.length === 0) return tips;
    const rows = await this.#database.read
      .selectFrom('mailboxes')
      .select([...mailboxColumns, 'account_id'])
      .where('account_id', 'in', accountIds)
      .execute();
    for (const { account_id, ...row } of rows) tips.get(account_id)?.push(stateOf(row));
    return tips;
  }

  /** Every mailbox of the account, the oldest first. */
  readAll(queries: Queries, user: MailUser): Promise<MailboxRow[]> {
    return queries
      .selectFrom('mailboxes')
      .select(mailboxColumns)
      .where('account_id', '=', user.accountId)
      .orderBy('id')
      .execute();
  }

  /**
   * Locks the mailbox's row until the commit: what is read next cannot change in between.
   *
   * @throws Refusal mailbox_not_found where it does not exist, or belongs to another account
   */
  async lock(tx: Queries, user: MailUser, name: string): Promise<MailboxRow> {
    const row = await tx
      .updateTable('mailboxes')
      .set((eb) => ({ highestmodseq: eb.ref('highestmodseq') }))
      .where('account_id', '=', user.accountId)
      .where('name', '=', canonicalMailboxName(name))
      .returning(mailboxColumns)
      .executeTakeFirst();
    if (!row) throw mailboxNotFound(name);
    return row;
  }

  /** Creates a mailbox under a free name. */
  async make(tx: Queries, user: MailUser, name: string): Promise<MailboxRow> {
    const uidvalidity = await this.#reserveUidvalidity(tx, 1);
    return tx
      .insertInto('mailboxes')
      .values({ account_id: user.accountId, name, special_use: null, uidvalidity })
      .returning(mailboxColumns)
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

  /** Creates the default mailboxes that an account lacks; concurrent calls create them once. */
  async ensureDefaults(user: MailUser): Promise<void> {
    const made = await this.#database.write((tx) => this.makeDefaults(tx, user));
    if (!made) throw accountNotFound(user);
  }

  /** Creates the default mailboxes that an account lacks. @returns false where there is no such account */
  async makeDefaults(tx: Queries, user: MailUser): Promise<boolean> {
    const account = await tx
      .selectFrom('accounts')
      .select('id')
      .where('id', '=', user.accountId)
      // A deletion of the account waits for this commit, and then finds the mailboxes.
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
   * Reserves `count` new UIDVALIDITY values. They start at the current second (as RFC 3501 section 2.3.1.1
   * proposes) and only ever grow, so that neither a mailbox that is created again nor a database restored
   * from a backup gives a value that a client knows from before.
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

/** By how much to advance the counters of a mailbox. */
interface Steps {
  /** New UIDs. */
  readonly uids: number;
  readonly messages: number;
  readonly unseen: number;
  readonly octets: number;
}

export interface Advance extends Steps {
  readonly mailboxId: number;
}

/** The same for a mailbox that is known only by its name. */
export interface NamedAdvance extends Steps {
  readonly accountId: number;
  readonly name: string;
}

/**
 * MODSEQs of one history of the server. A failover may lose the last changes, which apps have seen. The first change
 * after it gets the first MODSEQ of the next span, so that no lost MODSEQ is ever given again: {@link isSurviving}
 * tells them apart.
 */
const SPAN = 2 ** 32;
/** UIDs that are skipped at the same time: apps may have kept messages under the lost ones. */
const UIDS_PASSED = 65_536;

/** Whether the state that a token stands for was not lost in a failover. */
export function isSurviving(mailbox: MailboxRow, modseq: number): boolean {
  const { highestmodseq, fork_modseq } = mailbox;
  const span = Math.floor(modseq / SPAN);
  if (span === Math.floor(highestmodseq / SPAN)) return true;
  return span === Math.floor(fork_modseq / SPAN) && modseq <= fork_modseq;
}

/** The counters of a mailbox, advanced in its current history or moved to a new one. */
function forkAware(timeline: RawBuilder<number>, uids: number) {
  const isSameHistory = sql`timeline in (0, ${timeline})`;
  return {
    timeline,
    fork_modseq: sql<number>`case when ${isSameHistory} then fork_modseq else highestmodseq end`,
    highestmodseq: sql<number>`case when ${isSameHistory} then highestmodseq + 1
      else (highestmodseq / ${sql.lit(SPAN)} + 1) * ${sql.lit(SPAN)} end`,
    uidnext: sql<number>`uidnext + ${uids}::bigint + case when ${isSameHistory} then 0 else ${sql.lit(UIDS_PASSED)} end`,
  };
}

function advanceQuery(
  { read, timeline }: Pick<Database, 'read' | 'timeline'>,
  { uids, messages, unseen, octets }: Steps,
) {
  return read
    .updateTable('mailboxes')
    .set((eb) => ({
      uidnext: eb('uidnext', '+', uids),
      highestmodseq: eb('highestmodseq', '+', sql.lit(1)),
      messages: eb('messages', '+', messages),
      unseen: eb('unseen', '+', unseen),
      octets: eb('octets', '+', octets),
      ...(timeline && forkAware(timeline, uids)),
    }))
    .returning(['uidnext', ...mailboxColumns]);
}

/** A mailbox after the step. */
export type Advanced = MailboxRow & Pick<Row<'mailboxes'>, 'uidnext'>;

/** Advances the mailbox that an account has under a name. */
export function advanceByName(database: Pick<Database, 'read' | 'timeline'>, value: NamedAdvance) {
  return advanceQuery(database, value)
    .where('account_id', '=', value.accountId)
    .where('name', '=', value.name);
}

/**
 * Advances the counters of a mailbox: gives the next MODSEQ, and the next UIDs. The row stays locked until the
 * commit, so that a client can never see N+1 before N: it would never get N (RFC 7162 section 3.1).
 */
export class MailboxAdvance {
  readonly #byId: PreparedQuery<Advance, Advanced>;
  readonly #byName: PreparedQuery<NamedAdvance, Advanced>;

  constructor(database: Pick<Database, 'read' | 'timeline'>) {
    this.#byId = new PreparedQuery((value) =>
      advanceQuery(database, value)
        .where('id', '=', value.mailboxId)
        // A deleted mailbox accepts nothing more.
        .where('account_id', '>', 0),
    );
    this.#byName = new PreparedQuery((value) => advanceByName(database, value));
  }

  /** @throws Refusal mailbox_not_found where the mailbox was deleted just now */
  async next(tx: Queries, advance: Advance): Promise<{ firstUid: number; modseq: number }> {
    const row = await this.#byId.first(tx, advance);
    if (!row) throw new Refusal('mailbox_not_found', 'the mailbox was deleted');
    return { firstUid: row.uidnext - advance.uids, modseq: row.highestmodseq };
  }

  /** The same for one UID; undefined where the account has no such mailbox. */
  async nextOf(tx: Queries, advance: Omit<NamedAdvance, 'uids'>) {
    const row = await this.#byName.first(tx, { ...advance, uids: 1 });
    return row && { mailbox: row, uid: row.uidnext - 1, modseq: row.highestmodseq };
  }
}

/** The state of a mailbox as every change returns it: clients continue to sync from it. */
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

function accountNotFound({ address }: MailUser): Refusal {
  return new Refusal('account_not_found', `there is no account ${address}`);
}

export function mailboxNotFound(mailbox: string): Refusal {
  return new Refusal('mailbox_not_found', `there is no mailbox "${mailbox}"`);
}

/* Creates, renames and removes mailboxes. */

/** Mailboxes of one account: each is listed in every hello of the account. */
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
    // The default mailboxes are created first, so that no client creates one of them.
    await this.#mailboxes.find(user, 'INBOX');
    return this.#write(user, async (tx) => {
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
  }

  async rename(user: MailUser, name: string, wanted: string): Promise<ChangedMailbox> {
    const to = readNewName('to', wanted);
    const from = canonicalMailboxName(name);
    refuseProtected(from);
    if (isBelow(to, from)) {
      throw invalidField('to', 'must not be below the mailbox that is renamed');
    }
    return this.#write(user, async (tx) => {
      const all = await this.#mailboxes.readAll(tx, user);
      const found = all.find((one) => one.name === from);
      if (!found) throw mailboxNotFound(name);
      // Those below it are renamed as well (RFC 3501 section 6.3.5).
      const isMoving = (one: MailboxRow) => one === found || one.name.startsWith(from + SEPARATOR);
      const moving = all.filter(isMoving);
      const renamed = moving.map((one) => ({ ...one, name: to + one.name.slice(from.length) }));
      const names = renamed.map((one) => readNewName('to', one.name));
      refuseTaken(
        all.filter((one) => !isMoving(one)),
        names,
      );
      // The upper one first: one below it may get its old name, as where `a/a` becomes `a`.
      const upperFirst = renamed.toSorted((a, b) => a.name.length - b.name.length);
      for (const one of upperFirst) await this.#mailboxes.rename(tx, one.id, one.name);
      const changes = [...moving, ...renamed].map((one) => changeOf(user, one));
      return { state: stateOf({ ...found, name: to }), changes };
    });
  }

  /** The name is free at once; the messages are removed later (purge-mailboxes.ts). */
  remove(user: MailUser, name: string): Promise<ChangedMailbox> {
    refuseProtected(canonicalMailboxName(name));
    return this.#write(user, async (tx) => {
      const found = await this.#mailboxes.lock(tx, user, name);
      await buryMailbox(tx, found.id);
      return { state: stateOf(found), changes: [changeOf(user, found)] };
    });
  }

  /** Locks the account until the commit: changes to its list of mailboxes happen one after the other. */
  #write<T>(user: MailUser, change: (tx: Queries) => Promise<T>): Promise<T> {
    return this.#database.write(async (tx) => {
      const account = await tx
        .selectFrom('accounts')
        .select('id')
        .where('id', '=', user.accountId)
        .$if(this.#database.engine === 'postgres', (query) => query.forNoKeyUpdate())
        .executeTakeFirst();
      if (!account) throw accountNotFound(user);
      return change(tx);
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

/**
 * Gives every mailbox a new UIDVALIDITY, higher than all that were given before: for a database that was restored
 * from a backup, whose mailboxes will give UIDs again that apps have seen (RFC 9051 section 2.3.1.1).
 */
export async function renewUidvalidity(tx: Queries, now: EpochMs): Promise<void> {
  const counter = await tx
    .selectFrom('counters')
    .select('value')
    .where('name', '=', UIDVALIDITY_COUNTER)
    .executeTakeFirst();
  const from = Math.max(counter?.value ?? 0, Math.floor(now / 1000));
  await tx
    .updateTable('mailboxes')
    .set(({ eb, ref }) => ({ uidvalidity: eb(ref('id'), '+', from) }))
    .execute();
  const { last } = await tx
    .selectFrom('mailboxes')
    .select(({ fn }) => fn.max('uidvalidity').as('last'))
    .executeTakeFirstOrThrow();
  const value = Math.max(from, Number(last ?? 0)) + 1;
  await tx
    .insertInto('counters')
    .values({ name: UIDVALIDITY_COUNTER, value })
    .onConflict((conflict) => conflict.column('name').doUpdateSet({ value }))
    .execute();
}
