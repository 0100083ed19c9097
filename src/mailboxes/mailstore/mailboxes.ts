/** Rows of `mailboxes`: finds, makes and renames them, and keeps the keywords that each lists. */
import { sql } from 'kysely';
import {
  type Database,
  PreparedQuery,
  type Queries,
  type Row,
} from '../../platform/database/database.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import type { EpochMs } from '../../platform/time/time.ts';
import type { MailboxRow, MailboxState, MailboxSummary, MailUser, MessageSet } from './store.ts';
import {
  canonicalLevels,
  defaultMailboxes,
  flagsFromText,
  flagsToText,
  SEPARATOR,
} from './syntax.ts';

export const mailboxColumns = [
  'id',
  'name',
  'uidvalidity',
  'highestmodseq',
  'pruned_modseq',
  'fork_modseq',
  'messages',
] as const satisfies readonly (keyof MailboxRow)[];

const UIDVALIDITY_COUNTER = 'uidvalidity';

interface Named {
  readonly accountId: number;
  readonly name: string;
}

function selectNamed({ accountId, name }: Named, queries: Queries) {
  return queries
    .selectFrom('mailboxes')
    .select(mailboxColumns)
    .where('account_id', '=', accountId)
    .where('name', '=', name);
}

/* Compiled once: every request and every message runs them. */
const findNamed = new PreparedQuery(selectNamed);
const lockNamed = new PreparedQuery((named: Named, queries) =>
  selectNamed(named, queries).forNoKeyUpdate(),
);

/* Mailboxes as IMAP shows them. */

const openColumns = [
  ...mailboxColumns,
  'uidnext',
  'unseen',
  'octets',
  'special_use',
  'keywords',
  'recent_uid',
] as const;

export type OpenMailbox = Pick<Row<'mailboxes'>, (typeof openColumns)[number]>;

function selectOpen(accountId: number, queries: Queries) {
  return queries.selectFrom('mailboxes').select(openColumns).where('account_id', '=', accountId);
}

/** Compiled once: programs ask for the state of mailboxes all the time. */
export const openMailbox = {
  byName: new PreparedQuery((value: { accountId: number; name: string }, queries) =>
    selectOpen(value.accountId, queries).where('name', '=', value.name),
  ),
  byId: new PreparedQuery((value: { accountId: number; id: number }, queries) =>
    selectOpen(value.accountId, queries).where('id', '=', value.id),
  ),
  all: new PreparedQuery((value: { accountId: number }, queries) =>
    selectOpen(value.accountId, queries).orderBy('id'),
  ),
};

export class Mailboxes {
  readonly #database: Database;
  readonly #now: () => number;

  constructor(database: Database, now: () => number) {
    this.#database = database;
    this.#now = now;
  }

  /** The mailbox as it is now; one that every account has is created first if it is missing. */
  async find(user: MailUser, mailbox: string): Promise<MailboxRow> {
    const found = await this.findIn(this.#database.read, user, mailbox);
    if (found) return found;
    await this.ensureDefaults(user);
    const made = await this.findIn(this.#database.read, user, mailbox);
    if (!made) throw mailboxNotFound(mailbox);
    return made;
  }

  findIn(queries: Queries, user: MailUser, mailbox: string): Promise<MailboxRow | undefined> {
    const { accountId } = user;
    return findNamed.first(queries, { accountId, name: canonicalLevels(mailbox) });
  }

  async list(user: MailUser): Promise<MailboxSummary[]> {
    const select = () =>
      this.#database.read
        .selectFrom('mailboxes')
        .select([...mailboxColumns, 'special_use', 'unseen'])
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
      mailboxId: mailboxIdOf(row.uidvalidity),
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
    const { accountId } = user;
    const row = await lockNamed.first(tx, { accountId, name: canonicalLevels(name) });
    if (!row) throw mailboxNotFound(name);
    return row;
  }

  /** Creates a mailbox under a free name. */
  async make(tx: Queries, user: MailUser, name: string): Promise<MailboxRow> {
    const uidvalidity = await this.#reserveUidvalidity(tx, 1);
    return tx
      .insertInto('mailboxes')
      .values({ account_id: user.accountId, name, special_use: null, uidvalidity, keywords: '' })
      .returning(mailboxColumns)
      .executeTakeFirstOrThrow();
  }

  /** Gives mailboxes of one account new names, all at once: where `a/a` becomes `a`, `a/a/a` gets its old name. */
  async rename(tx: Queries, renamed: readonly Pick<MailboxRow, 'id' | 'name'>[]): Promise<void> {
    // A name is unique at each moment of a statement; none ends with the separator.
    await tx
      .updateTable('mailboxes')
      .set(({ eb }) => ({ name: eb('name', '||', SEPARATOR) }))
      .where(
        'id',
        'in',
        renamed.map(({ id }) => id),
      )
      .execute();
    const rows = renamed.map(({ id, name }) => sql`(cast(${id} as bigint), ${name})`);
    await sql`update mailboxes set name = renamed.column2
      from (values ${sql.join(rows)}) as renamed
      where mailboxes.id = renamed.column1`.execute(tx);
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
      .forKeyShare()
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
          keywords: '',
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
        conflict.column('name').doUpdateSet({
          value: sql`(case when counters.value > ${seconds} then counters.value else ${seconds} end) + ${count}`,
        }),
      )
      .returning('value')
      .executeTakeFirstOrThrow();
    return value - count;
  }
}

/** Names a mailbox: each UIDVALIDITY value is given once, and says nothing about other accounts. */
export function mailboxIdOf(uidvalidity: number): string {
  return `m${uidvalidity}`;
}

/** The state of a mailbox as every change returns it: clients continue to sync from it. */
export function stateOf({ name, uidvalidity, highestmodseq }: MailboxRow): MailboxState {
  return { mailbox: name, uidvalidity: String(uidvalidity), token: String(highestmodseq) };
}

export function accountNotFound({ address }: MailUser): Refusal {
  return new Refusal('account_not_found', `there is no account ${address}`);
}

export function mailboxNotFound(mailbox: string): Refusal {
  return new Refusal('mailbox_not_found', `there is no mailbox "${mailbox}"`);
}

/** @throws Refusal uidvalidity_changed where a mailbox is another one than that of the messages */
export function requireSame<Found extends { readonly uidvalidity: number | string }>(
  found: Found,
  { mailbox, uidvalidity }: MessageSet,
): Found {
  if (uidvalidity === undefined || uidvalidity === String(found.uidvalidity)) return found;
  throw new Refusal(
    'uidvalidity_changed',
    `"${mailbox}" was created again: its uidvalidity is ${found.uidvalidity} now; sync it first`,
  );
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

/*
 * The keywords of a mailbox (RFC 9051 section 2.3.2): a mail program learns of them when it opens the mailbox. The first
 * spelling of one is that of all its messages, by whichever way a later one comes.
 */

/** Keywords that a mailbox lists; messages may have others. */
const KEYWORDS_MAX = 200;

export function hasKeyword(flags: readonly string[]): boolean {
  return flags.some((flag) => !flag.startsWith('\\'));
}

/**
 * Adds keywords to those of a mailbox whose row the transaction has locked.
 *
 * @param flags in stored form
 * @returns the same, each keyword as the mailbox spells it
 */
export async function keepKeywords(
  tx: Queries,
  mailboxId: number,
  flags: readonly string[],
): Promise<string[]> {
  if (!hasKeyword(flags)) return [...flags];
  const row = await tx
    .selectFrom('mailboxes')
    .select('keywords')
    .where('id', '=', mailboxId)
    .executeTakeFirst();
  // Not collected yet: no mail program has opened the mailbox.
  if (typeof row?.keywords !== 'string') return [...flags];
  const known = new Map(flagsFromText(row.keywords).map((one) => [one.toLowerCase(), one]));
  const before = known.size;
  const spelled = flags.map((flag) => {
    if (flag.startsWith('\\')) return flag;
    const key = flag.toLowerCase();
    if (!known.has(key) && known.size < KEYWORDS_MAX) known.set(key, flag);
    return known.get(key) ?? flag;
  });
  if (known.size > before) await writeKeywords(tx, mailboxId, [...known.values()]);
  return spelled.sort();
}

/** Collects the keywords of a mailbox from its messages, once. @returns them */
export async function collectKeywords(tx: Queries, mailboxId: number): Promise<string> {
  // Locked: no keyword is set meanwhile.
  const row = await tx
    .updateTable('mailboxes')
    .set((eb) => ({ keywords: eb.ref('keywords') }))
    .where('id', '=', mailboxId)
    .returning('keywords')
    .executeTakeFirst();
  if (typeof row?.keywords === 'string') return row.keywords;
  const rows = await tx
    .selectFrom('messages')
    .select('flags')
    .distinct()
    .where('mailbox_id', '=', mailboxId)
    .execute();
  const found = new Map<string, string>();
  for (const flag of rows.flatMap(({ flags }) => flagsFromText(flags))) {
    const key = flag.toLowerCase();
    if (!flag.startsWith('\\') && !found.has(key) && found.size < KEYWORDS_MAX) {
      found.set(key, flag);
    }
  }
  return writeKeywords(tx, mailboxId, [...found.values()]);
}

async function writeKeywords(tx: Queries, id: number, all: readonly string[]): Promise<string> {
  const keywords = flagsToText(all);
  await tx.updateTable('mailboxes').set({ keywords }).where('id', '=', id).execute();
  return keywords;
}
