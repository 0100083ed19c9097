/**
 * Mailbox accounts: who has which address, their passwords, and the tokens that open them.
 *
 * `accounts` has a row for each address on a claim of `domains/`, scoped by the `user_id` of the
 * claim; local parts lie there in lower case, passwords as argon2id hashes. `credential_version`
 * goes up with each new password, and tokens of ours carry it. Which account is a user's default is
 * not stored: it is the one with the lowest id. `retired_addresses` remembers the
 * addresses of deleted accounts (see `delete-accounts.ts`). Mailboxes are made by the mail store when it needs them.
 *
 * Several claims on a name may hold the same address, left over from times when each was active; an
 * address always means the account on the claim that is active now.
 */
import { type Actor, recordAudit } from '../audit/audit.ts';
import type { Changes } from '../changes/changes.ts';
import { type Database, PreparedQuery, type Queries } from '../database/database.ts';
import { checkText, checkUserId, type Domain, type Domains } from '../domains/domains.ts';
import { invalidField, Refusal } from '../errors/errors.ts';
import { hasHidden } from '../message/message.ts';
import {
  type Account,
  type AccountRow,
  type AccountStatus,
  checkLocalPart,
  mailLocalPart,
  readAddress,
  selectAccounts,
  toAccount,
} from './account-rows.ts';
import {
  deleteAccounts,
  deleteSomeOfDomain,
  domainIsThere,
  tokensFrom,
} from './delete-accounts.ts';
import { checkPassword, generatePassword, hashPassword } from './passwords.ts';
import { forgetLoginsOf } from './remembered-logins.ts';

export {
  type Account,
  type AccountAccess,
  findAccess,
  findAccountStates,
  findAccounts,
  findSendingAccount,
  findSomeActive,
  mailLocalPart,
  type SendingAccount,
  setQuota,
} from './account-rows.ts';
export {
  ANSWERS_KEPT_MS,
  AnsweredRequests,
  type BegunRequest,
  hashOf,
} from './answered-requests.ts';
export { endAccountDeletion, listDeletedAccounts } from './delete-accounts.ts';
export {
  countAccounts,
  findAnyAccount,
  listAllAccounts,
  type OperatedAccount,
} from './operator-accounts.ts';
export { REMEMBERED_SECONDS } from './remembered-logins.ts';
export {
  createTokens,
  type IssuedToken,
  type MailAccess,
  type RememberedToken,
  type Tokens,
  type TokensOptions,
} from './tokens.ts';

interface AccountsOptions {
  readonly database: Database;
  readonly domains: Domains;
  /** Told, after the commit, of accounts whose tokens stopped being good. */
  readonly changes: Pick<Changes, 'publish'>;
  /** Told, after the commit, that what a deleted account or domain had is to be removed. */
  readonly onDeleted?: () => void;
  /** Milliseconds since 1970. */
  readonly now?: () => number;
}

interface NewAccount {
  readonly userId: string;
  readonly domain: string;
  readonly localPart: string;
  /** The local part where left out. */
  readonly displayName?: string | undefined;
  /** Generated where left out. */
  readonly password?: string | undefined;
}

/** An account and its password, which nobody can read again. */
export interface AccountWithPassword {
  readonly account: Account;
  readonly password: string;
}

interface AccountPage {
  readonly userId: string;
  /** Only accounts of this domain. */
  readonly domain?: string | undefined;
  /** 1 to 1000. */
  readonly limit: number;
  readonly offset: number;
  /** Ids above this one. */
  readonly after?: number;
}

/** What the audit log keeps of a deletion. */
export interface RecordedDeletion {
  readonly by: Actor;
  /** What goes with it. */
  readonly counts?: Readonly<Record<string, number>> | undefined;
}

interface AccountUpdate {
  readonly displayName?: string | undefined;
  readonly status?: AccountStatus | undefined;
}

const DISPLAY_NAME_MAX = 255;
const LIMIT_MAX = 1000;
const statuses: readonly string[] = ['active', 'suspended'] satisfies AccountStatus[];

/** Every function with a `userId` sees that user's accounts alone. */
export interface Accounts {
  /**
   * @param by whom the audit log names
   * @throws Refusal domain_not_found, domain_not_active, address_exists, invalid_request
   *   (`local_part`, `display_name`, `password`), unavailable
   */
  create(input: NewAccount, by?: Actor): Promise<AccountWithPassword>;
  /** Ordered by id. @throws Refusal domain_not_found, invalid_request (`limit`, `offset`) */
  list(page: AccountPage): Promise<Account[]>;
  /** @throws Refusal account_not_found */
  get(userId: string, id: number): Promise<Account>;
  /**
   * Changes what is given. A suspended account's tokens and remembered logins stop at once.
   *
   * @param by whom the audit log names where it is suspended or resumed
   * @throws Refusal account_not_found, invalid_request (`display_name`, `status`)
   */
  update(userId: string, id: number, changed: AccountUpdate, by?: Actor): Promise<Account>;
  /**
   * Deletes an account: it is gone for everybody when this resolves, its mail is removed afterwards.
   *
   * @throws Refusal account_not_found
   */
  remove(
    userId: string,
    id: number,
    recorded?: RecordedDeletion,
  ): Promise<{ readonly id: number; readonly address: string }>;
  /**
   * Sets the password, a generated one where none is given; tokens issued before stop at once.
   *
   * @param by whom the audit log names
   * @throws Refusal account_not_found, invalid_request (`password`), unavailable
   */
  resetPassword(
    userId: string,
    id: number,
    password?: string,
    by?: Actor,
  ): Promise<AccountWithPassword>;
  /**
   * Deletes a domain: it and its accounts are gone for everybody when this resolves, accounts, mail
   * and deliveries are removed afterwards.
   *
   * @throws Refusal domain_not_found
   */
  removeDomain(userId: string, name: string, recorded?: RecordedDeletion): Promise<Domain>;
  /** Ends the connections to a domain's accounts, which was suspended. */
  endAccess(domainId: number): Promise<void>;
  /** Removes some accounts of a deleted domain. @returns false where it has none any more */
  removeSomeOf(deletedDomainId: number): Promise<boolean>;
  /**
   * The account that takes mail for a local part as the sender wrote it: case and what follows a
   * `+` do not count. Suspended accounts are found too.
   */
  findRecipient(localPart: string, domainId: number): Promise<Account | undefined>;
  /** The oldest account of a domain, for its postmaster. */
  oldestOfDomain(domainId: number): Promise<Account | undefined>;
  /** The account that an address means now; case does not count, `+` does. */
  findForMail(address: string): Promise<Account | undefined>;
  /** Which of these accounts exist, suspended or not. */
  stillThere(ids: readonly number[]): Promise<Set<number>>;
}

class StoredAccounts implements Accounts {
  readonly #database: Database;
  readonly #domains: Domains;
  readonly #changes: Pick<Changes, 'publish'>;
  readonly #onDeleted: () => void;
  readonly #now: () => number;
  readonly #onDomain: PreparedQuery<{ domainId: number; localPart: string }, AccountRow>;

  constructor({ database, domains, changes, onDeleted, now }: AccountsOptions) {
    this.#database = database;
    this.#onDomain = new PreparedQuery((value) =>
      selectAccounts(database.read)
        .where('domain_id', '=', value.domainId)
        .where('local_part', '=', value.localPart),
    );
    this.#domains = domains;
    this.#changes = changes;
    this.#onDeleted = onDeleted ?? (() => {});
    this.#now = now ?? Date.now;
  }

  async create(input: NewAccount, by?: Actor): Promise<AccountWithPassword> {
    const domain = await this.#domains.find(input.userId, input.domain);
    const localPart = checkLocalPart(input.localPart, domain.name);
    const displayName = checkDisplayName(input.displayName ?? localPart);
    const password = input.password ?? generatePassword();
    checkPassword(password);
    refuseInactive(domain);
    // Before the hash, which costs some 30 ms; the insert below decides.
    if (await this.#findOnDomain(localPart, domain.id)) throw addressExists(localPart, domain);
    const password_hash = await hashPassword(password);
    const account = await this.#database.write(async (tx) => {
      const now = this.#now();
      const { id: domain_id, ...held } = await this.#domains.lock(tx, input.userId, domain.name);
      refuseInactive(held);
      const inserted = await tx
        .insertInto('accounts')
        .values({
          domain_id,
          user_id: held.userId,
          domain_name: held.name,
          local_part: localPart,
          display_name: displayName,
          status: 'active',
          password_hash,
          credential_version: 1,
          created_at: now,
          tokens_from: await tokensFrom(tx, localPart, held.name, now),
        })
        .onConflict((conflict) => conflict.columns(['domain_id', 'local_part']).doNothing())
        .returning('id')
        .executeTakeFirst();
      if (!inserted) throw addressExists(localPart, domain);
      const account = await this.#read(tx, input.userId, inserted.id);
      const entry = { action: 'account.create', target: account.address };
      if (by) await recordAudit(tx, by, entry);
      return account;
    });
    return { account, password };
  }

  async list({ userId, domain, limit, offset, after = 0 }: AccountPage): Promise<Account[]> {
    checkUserId(userId);
    if (!Number.isInteger(limit) || limit < 1 || limit > LIMIT_MAX) {
      throw invalidField('limit', `must be an integer from 1 to ${LIMIT_MAX}`);
    }
    if (!Number.isSafeInteger(offset) || offset < 0) {
      throw invalidField('offset', 'must be an integer from 0');
    }
    let query = selectAccounts(this.#database.read)
      .where('user_id', '=', userId)
      .where('id', '>', after);
    if (domain !== undefined) {
      const { id } = await this.#domains.find(userId, domain);
      query = query.where('domain_id', '=', id);
    }
    const rows = await query.orderBy('id').limit(limit).offset(offset).execute();
    return rows.map(toAccount);
  }

  get(userId: string, id: number): Promise<Account> {
    return this.#read(this.#database.read, userId, id);
  }

  async update(userId: string, id: number, changed: AccountUpdate, by?: Actor): Promise<Account> {
    const { displayName, status } = changed;
    if (displayName !== undefined) checkDisplayName(displayName);
    if (status !== undefined && !statuses.includes(status)) {
      throw invalidField('status', `must be one of ${statuses.join(', ')}`);
    }
    if (displayName === undefined && status === undefined) {
      throw new Refusal('invalid_request', 'display_name, status or both are required');
    }
    checkUserId(userId);
    const account = await this.#database.write(async (tx) => {
      if (Number.isSafeInteger(id)) {
        await tx
          .updateTable('accounts')
          .set({
            ...(displayName === undefined ? {} : { display_name: displayName }),
            ...(status === undefined ? {} : { status }),
          })
          .where('id', '=', id)
          .where('user_id', '=', userId)
          .execute();
      }
      const account = await this.#read(tx, userId, id);
      if (status === 'suspended') await forgetLoginsOf(tx, id);
      if (by && status !== undefined) {
        const action = status === 'suspended' ? 'account.suspend' : 'account.resume';
        await recordAudit(tx, by, { action, target: account.address });
      }
      return account;
    });
    // Published even where the account was suspended already: it costs nothing, and nobody misses it.
    if (status === 'suspended') {
      this.#changes.publish({ kind: 'access', accountId: id, reason: 'suspended' });
    }
    return account;
  }

  async remove(userId: string, id: number, recorded?: RecordedDeletion) {
    const { address } = await this.#database.write(async (tx) => {
      await lockAccount(tx, this.#database.engine, id);
      const account = await this.#read(tx, userId, id);
      await deleteAccounts(tx, [account], this.#now());
      if (recorded) await recordDeletion(tx, recorded, 'account.delete', account.address);
      return account;
    });
    this.#tellDeleted([id]);
    return { id, address };
  }

  async resetPassword(
    userId: string,
    id: number,
    given?: string,
    by?: Actor,
  ): Promise<AccountWithPassword> {
    const password = given ?? generatePassword();
    checkPassword(password);
    await this.get(userId, id);
    const password_hash = await hashPassword(password);
    const account = await this.#database.write(async (tx) => {
      await tx
        .updateTable('accounts')
        .set(({ eb }) => ({
          password_hash,
          credential_version: eb('credential_version', '+', 1),
        }))
        .where('id', '=', id)
        .where('user_id', '=', userId)
        .execute();
      const account = await this.#read(tx, userId, id);
      const entry = { action: 'account.reset_password', target: account.address };
      if (by) await recordAudit(tx, by, entry);
      return account;
    });
    this.#changes.publish({ kind: 'access', accountId: id, reason: 'password_reset' });
    return { account, password };
  }

  async removeDomain(userId: string, name: string, recorded?: RecordedDeletion): Promise<Domain> {
    const { statusChanges, ...domain } = await this.#database.write(async (tx) => {
      const removed = await this.#domains.remove(tx, userId, name);
      if (recorded) await recordDeletion(tx, recorded, 'domain.delete', removed.name);
      return removed;
    });
    this.#domains.announce(statusChanges);
    this.#onDeleted();
    return domain;
  }

  async removeSomeOf(deletedDomainId: number): Promise<boolean> {
    const ids = await deleteSomeOfDomain(this.#database, deletedDomainId, this.#now());
    this.#tellDeleted(ids);
    return ids.length > 0;
  }

  async endAccess(domainId: number): Promise<void> {
    for (let after: number | undefined = 0; after !== undefined; ) {
      const rows: { id: number }[] = await this.#database.read
        .selectFrom('accounts')
        .select('id')
        .where('domain_id', '=', domainId)
        .where('id', '>', after)
        .orderBy('id')
        .limit(LIMIT_MAX)
        .execute();
      for (const { id } of rows) {
        this.#changes.publish({ kind: 'access', accountId: id, reason: 'suspended' });
      }
      after = rows.at(-1)?.id;
    }
  }

  /** Tells sockets and other nodes that accounts are gone, and starts the removal of their mail. */
  #tellDeleted(ids: readonly number[]): void {
    for (const id of ids) {
      this.#changes.publish({ kind: 'access', accountId: id, reason: 'deleted' });
    }
    this.#onDeleted();
  }

  findRecipient(localPart: string, domainId: number): Promise<Account | undefined> {
    return this.#findOnDomain(mailLocalPart(localPart), domainId);
  }

  async oldestOfDomain(domainId: number): Promise<Account | undefined> {
    const row = await selectAccounts(this.#database.read)
      .where('domain_id', '=', domainId)
      .orderBy('id')
      .limit(1)
      .executeTakeFirst();
    return row && toAccount(row);
  }

  async findForMail(text: string): Promise<Account | undefined> {
    const address = readAddress(text);
    const domain = address && (await this.#domains.findActive(address.domain));
    return domain && this.#findOnDomain(address.localPart, domain.id);
  }

  async stillThere(ids: readonly number[]): Promise<Set<number>> {
    if (ids.length === 0) return new Set();
    const rows = await this.#database.read
      .selectFrom('accounts')
      .select('id')
      .where('id', 'in', ids)
      .where(domainIsThere('accounts'))
      .execute();
    return new Set(rows.map(({ id }) => id));
  }

  async #findOnDomain(localPart: string, domainId: number): Promise<Account | undefined> {
    const row = await this.#onDomain.first(this.#database.read, { domainId, localPart });
    return row && toAccount(row);
  }

  async #read(queries: Queries, userId: string, id: number): Promise<Account> {
    checkUserId(userId);
    const row = Number.isSafeInteger(id)
      ? await selectAccounts(queries)
          .where('id', '=', id)
          .where('user_id', '=', userId)
          .executeTakeFirst()
      : undefined;
    if (!row) throw accountNotFound(id);
    return toAccount(row);
  }
}

/** A display name goes into header fields: a line end or another control character has no place. */
function checkDisplayName(text: string): string {
  checkText('display_name', text, DISPLAY_NAME_MAX);
  if (/\p{Cc}/u.test(text)) {
    throw invalidField('display_name', 'must not hold control characters');
  }
  if (hasHidden(text)) {
    const expected = 'must not hold invisible characters, or ones that turn the order of others';
    throw invalidField('display_name', expected);
  }
  return text;
}

function refuseInactive({ name, status }: Pick<Domain, 'name' | 'status'>): void {
  if (status !== 'active') {
    throw new Refusal('domain_not_active', `${name} is not active: its DNS is not verified`);
  }
}

function recordDeletion(
  tx: Queries,
  { by, counts }: RecordedDeletion,
  action: string,
  target: string,
): Promise<void> {
  return recordAudit(tx, by, { action, target, counts });
}

/** On PostgreSQL two deletions may read the same row, and both would then report it as deleted. */
async function lockAccount(tx: Queries, engine: Database['engine'], id: number): Promise<void> {
  if (engine !== 'postgres' || !Number.isSafeInteger(id)) return;
  await tx.selectFrom('accounts').select('id').where('id', '=', id).forUpdate().execute();
}

function accountNotFound(id: number): Refusal {
  return new Refusal('account_not_found', `the user has no account ${id}`);
}

function addressExists(localPart: string, { name }: Domain): Refusal {
  return new Refusal('address_exists', `${localPart}@${name} exists already`);
}

/** Accounts as they lie in the database. */
export function createAccounts(options: AccountsOptions): Accounts {
  return new StoredAccounts(options);
}
