/** Accounts as they are stored, and how they are found by address. */
import { type RawBuilder, sql } from 'kysely';
import {
  advisoryLocks,
  type Database,
  PreparedQuery,
  type Queries,
  type Row,
} from '../../platform/database/database.ts';
import { invalidField, Refusal } from '../../platform/errors/errors.ts';
import type { EpochMs } from '../../platform/time/time.ts';
import type { AccountOwner, EventType, NewEvent } from '../events/events.ts';
import { address, readAddress } from './account-addresses.ts';
import { domainIsThere } from './delete-accounts.ts';

export type AccountStatus = Row<'accounts'>['status'];

export interface Account {
  readonly id: number;
  readonly userId: string;
  readonly domain: string;
  readonly localPart: string;
  /** `<localPart>@<domain>`, lower case. */
  readonly address: string;
  readonly displayName: string;
  readonly status: AccountStatus;
  /** Whether it is the oldest account of its user. */
  readonly isDefault: boolean;
  readonly createdAt: EpochMs;
  /** Bytes that its mailboxes may hold, 0 for no limit; null: the operator's default. */
  readonly quotaBytes: number | null;
}

/** Existing accounts, each with the id of its user's oldest. */
export function selectAccounts(queries: Queries) {
  return queries
    .selectFrom('accounts')
    .select([
      'id',
      'user_id as userId',
      'domain_name as domain',
      'local_part as localPart',
      address,
    ])
    .select(['display_name as displayName', 'status', 'created_at as createdAt'])
    .select('quota_bytes as quotaBytes')
    .where(domainIsThere('accounts'))
    .select(({ selectFrom }) =>
      selectFrom('accounts as own')
        .select('own.id')
        .whereRef('own.user_id', '=', 'accounts.user_id')
        .where(domainIsThere('own'))
        .orderBy('own.id')
        .limit(1)
        .as('defaultId'),
    );
}

/**
 * On PostgreSQL, for the transaction that makes an account: where its user has none, it waits for others that make one.
 * Otherwise each would see its own alone, and call it the default.
 */
export async function awaitFirst(tx: Queries, userId: string): Promise<void> {
  const isThere = tx.selectFrom('accounts').select('id').where('user_id', '=', userId);
  await sql`select pg_advisory_xact_lock(${sql.lit(advisoryLocks.firstAccount)}, hashtext(${userId}))
    where not exists (${isThere.where(domainIsThere('accounts'))})`.execute(tx);
}

/** The condition that an account's domain was claimed with an `organization_id`. */
export function ofOrganization(organizationId: string) {
  return sql<boolean>`exists (select 1 from domains
    where domains.id = accounts.domain_id and domains.organization_id = ${organizationId})`;
}

export type AccountRow = Awaited<
  ReturnType<ReturnType<typeof selectAccounts>['executeTakeFirstOrThrow']>
>;

export function toAccount<Row extends AccountRow>({ defaultId, ...row }: Row) {
  return { ...row, isDefault: row.id === defaultId };
}

/** The status for logins: an account of a suspended domain is suspended. */
const accessStatus = sql<AccountStatus>`case when exists (
    select 1 from domains where domains.id = accounts.domain_id and domains.suspended_at is not null
  ) then 'suspended' else accounts.status end`.as('status');

/** Addresses that can differ only by case, and so need no further parsing: nearly all. */
const PLAIN = /^[\w!#$%&'*+/=?^`{|}~.-]{1,64}@[a-z\d.-]{1,253}$/i;

/**
 * Finds the accounts of many addresses in one query: those on active claims, suspended accounts too. Case is
 * ignored, a `+tag` is not.
 *
 * @returns account ids by address as it was given; without addresses that have no account
 */
export async function findAccounts(
  { engine, read }: Pick<Database, 'engine' | 'read'>,
  addresses: readonly string[],
): Promise<Map<string, number>> {
  const wanted = addresses.map(comparable);
  const found = new Map<string, number>();
  for (const { position, id } of await selectIds(read, engine, JSON.stringify(wanted))) {
    const address = addresses[position];
    if (address !== undefined) found.set(address, id);
  }
  return found;
}

/** `<local part>@<domain>` as accounts have it, or a text that no account has. */
function comparable(address: string): string {
  if (PLAIN.test(address)) return address.toLowerCase();
  const read = readAddress(address);
  return read ? `${read.localPart}@${read.domain}` : '';
}

/** The one place where the engines unpack an array differently; positions count from 0. */
async function selectIds(queries: Queries, engine: Database['engine'], wanted: string) {
  // No local part of our accounts has an `@`, so the first one separates.
  const split =
    engine === 'sqlite'
      ? sql`select key as position, substr(value, 1, instr(value, '@') - 1) as local_part,
              substr(value, instr(value, '@') + 1) as domain
            from json_each(${wanted})`
      : sql`select position - 1 as position, split_part(address, '@', 1) as local_part,
              split_part(address, '@', 2) as domain
            from jsonb_array_elements_text(${wanted}::jsonb) with ordinality
              as addresses (address, position)`;
  const { rows } = await sql<{ position: number; id: number }>`
    select wanted.position, accounts.id
    from (${split}) as wanted
    join domains on domains.name = wanted.domain and domains.status = 'active'
    join accounts
      on accounts.domain_id = domains.id and accounts.local_part = wanted.local_part
  `.execute(queries);
  return rows;
}

/** The owner of an account, and whether it is open. */
export interface AccountState {
  readonly userId: string;
  readonly domainId: number;
  readonly status: AccountStatus;
}

/** The state of accounts by id; those that do not exist are left out. */
export async function findAccountStates(
  queries: Queries,
  ids: readonly number[],
): Promise<Map<number, AccountState>> {
  if (ids.length === 0) return new Map();
  const rows = await queries
    .selectFrom('accounts')
    .select(['id', 'user_id as userId', 'domain_id as domainId', accessStatus])
    .where('id', 'in', ids)
    .where(domainIsThere('accounts'))
    .execute();
  return new Map(rows.map(({ id, ...state }) => [id, state]));
}

/** The data that decides whether a connection to an account may continue. */
export interface AccountAccess {
  readonly status: AccountStatus;
  /** Increases with each new password. */
  readonly credentialVersion: number;
}

/**
 * The access of accounts now, by id; those that do not exist are left out.
 *
 * @param which `current` leaves out those whose address is not theirs now, since their domain is not active or is another
 *   claim's: a mail server knows addresses alone
 */
export async function findAccess(
  queries: Queries,
  ids: readonly number[],
  which: 'all' | 'current' = 'all',
): Promise<Map<number, AccountAccess>> {
  if (ids.length === 0) return new Map();
  const rows = await queries
    .selectFrom('accounts')
    .select(['id', accessStatus, 'credential_version as credentialVersion'])
    .where('id', 'in', ids)
    .where(domainIsThere('accounts'))
    .$if(which === 'current', (query) =>
      query.where(
        'domain_id',
        'in',
        queries.selectFrom('domains').select('id').where('status', '=', 'active'),
      ),
    )
    .execute();
  return new Map(rows.map(({ id, ...access }) => [id, access]));
}

/** More bytes than any disk has, and a number that is still exact. */
const QUOTA_MAX = 1e15;

/**
 * Sets how many bytes an account may store.
 *
 * @param quotaBytes 0 for no limit; null for the operator's default
 * @returns its address
 * @throws Refusal account_not_found, invalid_request (`quota_bytes`)
 */
export async function setQuota(
  tx: Queries,
  id: number,
  quotaBytes: number | null,
): Promise<string> {
  const isWhole = Number.isSafeInteger(quotaBytes ?? 0);
  if (!isWhole || (quotaBytes ?? 0) < 0 || (quotaBytes ?? 0) > QUOTA_MAX) {
    throw invalidField('quota_bytes', `must be null or a whole number from 0 to ${QUOTA_MAX}`);
  }
  const one = tx
    .updateTable('accounts')
    .set({ quota_bytes: quotaBytes })
    .where('id', '=', id)
    .where(domainIsThere('accounts'))
    .returning(address);
  const row = Number.isSafeInteger(id) ? await one.executeTakeFirst() : undefined;
  if (!row) throw new Refusal('account_not_found', `there is no account ${id}`);
  return row.address;
}

export interface SendingAccount
  extends AccountState,
    Pick<Account, 'domain' | 'address' | 'displayName'> {}

function querySender(queries: Queries, id: number) {
  return queries
    .selectFrom('accounts')
    .select(['user_id as userId', 'domain_id as domainId', 'domain_name as domain', address])
    .select(['display_name as displayName', accessStatus])
    .where('id', '=', id)
    .where(domainIsThere('accounts'));
}

const findSender = new PreparedQuery(({ id }: { id: number }, queries) => querySender(queries, id));
const lockSender = new PreparedQuery(({ id }: { id: number }, queries) =>
  querySender(queries, id).forNoKeyUpdate(),
);

/** The same as a part of a statement, for an account without a quota. @param more conditions, with `and` before them */
export function lockUnlimitedSender(id: unknown, more: RawBuilder<unknown>): RawBuilder<unknown> {
  return sql`select id from accounts where id = ${id} and coalesce(quota_bytes, 0) = 0
    and ${domainIsThere('accounts')} ${more} for no key update`;
}

/**
 * Finds an account that wants to send.
 *
 * @param locks until the transaction ends: then its mail is counted and stored one message after the other
 */
export function findSendingAccount(
  queries: Queries,
  id: number,
  locks = false,
): Promise<SendingAccount | undefined> {
  return (locks ? lockSender : findSender).first(queries, { id });
}

/** Some accounts that may log in, the newest first: to test logins to a mail server. */
export function findSomeActive(
  queries: Queries,
  limit: number,
): Promise<{ readonly accountId: number; readonly address: string }[]> {
  return queries
    .selectFrom('accounts')
    .innerJoin('domains', 'domains.id', 'accounts.domain_id')
    .select(['accounts.id as accountId', address])
    .where('accounts.status', '=', 'active')
    .where('domains.status', '=', 'active')
    .where(domainIsThere('accounts'))
    .orderBy('accounts.id', 'desc')
    .limit(limit)
    .execute();
}

/** Whose an account is; undefined where it does not exist. */
export async function findOwner(
  queries: Queries,
  accountId: number,
): Promise<AccountOwner | undefined> {
  const row = await queries
    .selectFrom('accounts')
    .innerJoin('domains', 'domains.id', 'accounts.domain_id')
    .select(['accounts.user_id as userId', 'organization_id as organizationId', address])
    .where('accounts.id', '=', accountId)
    .executeTakeFirst();
  return row && { ...row, organizationId: row.organizationId ?? undefined };
}

/** An event of an account. */
export function eventOf(type: EventType, { id: accountId, address }: Account): NewEvent {
  return { type, accountId, data: { address } };
}

/** The event of a new status. */
export function statusEvent(account: Account): NewEvent {
  return eventOf(account.status === 'suspended' ? 'account.suspended' : 'account.resumed', account);
}

/** Which of these accounts exist, suspended or not. */
export async function findAccountsThere(
  queries: Queries,
  ids: readonly number[],
): Promise<Set<number>> {
  if (ids.length === 0) return new Set();
  const rows = await queries
    .selectFrom('accounts')
    .select('id')
    .where('id', 'in', ids)
    .where(domainIsThere('accounts'))
    .execute();
  return new Set(rows.map(({ id }) => id));
}

/** Accounts that one query of {@link accountIdsOf} reads. */
const IDS_AT_A_TIME = 1_000;

/** The ids of a domain's accounts, also of one that was deleted. */
export async function* accountIdsOf(queries: Queries, domainId: number): AsyncGenerator<number> {
  for (let after: number | undefined = 0; after !== undefined; ) {
    const rows: { id: number }[] = await queries
      .selectFrom('accounts')
      .select('id')
      .where('domain_id', '=', domainId)
      .where('id', '>', after)
      .orderBy('id')
      .limit(IDS_AT_A_TIME)
      .execute();
    for (const { id } of rows) yield id;
    after = rows.at(-1)?.id;
  }
}
