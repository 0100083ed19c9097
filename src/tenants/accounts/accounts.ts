/**
 * Mailbox accounts: who has which address, their passwords, and their tokens.
 *
 * `accounts` has a row for each address on a claim of `domains/`, scoped by the `user_id` of the claim; local parts
 * are stored in lower case, passwords as argon2id hashes. `credential_version` increases with each new password, and
 * our tokens contain it. A user's default account is not stored: it is the one with the lowest id.
 * `app_passwords` has those of mail programs (`app-passwords.ts`), `retired_addresses` the addresses of deleted accounts
 * (`delete-accounts.ts`). An account has its mailboxes from the transaction that creates it; the mail store makes those
 * that are missing, such as in an account of an earlier release.
 *
 * Several claims on a name may have the same address, left from times when each was active; an address always means
 * the account on the claim that is active now.
 */

import type { Changes } from '../../mailboxes/changes/changes.ts';
import {
  type Database,
  type IdPage,
  type InTransaction,
  PreparedQuery,
} from '../../platform/database/database.ts';
import { invalidField, Refusal } from '../../platform/errors/errors.ts';
import { type Actor, recordAudit } from '../audit/audit.ts';
import { checkUserId, type Domain, type Domains, toOwner, type Whose } from '../domains/domains.ts';
import { writeEvents } from '../events/events.ts';
import { checkLocalPart, readAddress } from './account-addresses.ts';
import {
  type Account,
  accountIdsOf,
  awaitFirst,
  eventOf,
  selectAccounts,
  statusEvent,
  toAccount,
} from './account-rows.ts';
import { forgetAppPasswordsOf } from './app-passwords.ts';
import { deleteAccounts, deleteSomeOfDomain, tokensFrom } from './delete-accounts.ts';
import { checkDisplayName } from './display-names.ts';
import { countAccountsOf, listAccounts, lockAccount, readAccount } from './owned-accounts.ts';
import { checkPassword, generatePassword, hashPassword } from './passwords.ts';
import { forgetLoginsOf } from './remembered-logins.ts';
import {
  type AccountPage,
  type AccountsOptions,
  type AccountUpdate,
  type AccountWithPassword,
  type NewAccount,
  type RecordedDeletion,
  type RemovedAccount,
  recordDeletion,
} from './requests.ts';

export { findRecipient, mailLocalPart, type Recipient } from './account-addresses.ts';
export {
  type Account,
  type AccountAccess,
  findAccess,
  findAccountStates,
  findAccounts,
  findAccountsThere,
  findOwner,
  findSendingAccount,
  findSomeActive,
  lockUnlimitedSender,
  type SendingAccount,
  setQuota,
} from './account-rows.ts';
export { AccountShares, type MostSlots } from './account-shares.ts';
export {
  ANSWERS_KEPT_MS,
  AnsweredRequests,
  type BegunRequest,
  forgetAnswers,
  hashOf,
  type KeyOwner,
  removeAnswersOf,
  scopeOf,
} from './answered-requests.ts';
export {
  type AppPassword,
  AppPasswords,
  findAppPasswordsThere,
  type MailProtocol,
  type NewAppPassword,
} from './app-passwords.ts';
export { endAccountDeletion, listDeletedAccounts } from './delete-accounts.ts';
export {
  type AccountFilter,
  type AccountKey,
  countAccounts,
  findAccountsAt,
  findAnyAccount,
  findOperated,
  lastLogins,
  listAccountKeys,
  listAllAccounts,
  listSignIns,
  type OperatedAccount,
  type SignIn,
} from './operator-accounts.ts';
export { REMEMBERED_SECONDS } from './remembered-logins.ts';
export type { AccountWithPassword, RecordedDeletion, RemovedAccount } from './requests.ts';
export {
  type IssuedToken,
  type MailAccess,
  type RememberedToken,
  Tokens,
  type TokensOptions,
} from './tokens.ts';

const onDomain = new PreparedQuery((value: { domainId: number; localPart: string }, queries) =>
  selectAccounts(queries)
    .where('domain_id', '=', value.domainId)
    .where('local_part', '=', value.localPart),
);

/** Every function with an owner sees only that owner's accounts. */
export class Accounts {
  readonly #database: Database;
  readonly #domains: Domains;
  readonly #changes: Pick<Changes, 'publish'>;
  readonly #makeMailboxes: AccountsOptions['makeMailboxes'];
  readonly #onDeleted: () => void;
  readonly #now: () => number;

  constructor(options: AccountsOptions) {
    const { database, domains, changes, makeMailboxes, onDeleted, now } = options;
    this.#database = database;
    this.#domains = domains;
    this.#changes = changes;
    this.#makeMailboxes = makeMailboxes;
    this.#onDeleted = onDeleted ?? (() => {});
    this.#now = now ?? Date.now;
  }

  /**
   * @param by who is named in the audit log
   * @param within runs in the transaction; the same below
   * @throws Refusal domain_not_found, domain_not_active, address_exists, invalid_request
   *   (`local_part`, `display_name`, `password`), unavailable
   */
  async create(
    input: NewAccount,
    by?: Actor,
    within?: InTransaction<AccountWithPassword>,
  ): Promise<AccountWithPassword> {
    const { userId, organizationId } = input;
    const owner = { userId, organizationId };
    const domain = await this.#domains.find(owner, input.domain);
    const localPart = checkLocalPart(input.localPart, domain.name);
    const displayName = checkDisplayName(input.displayName ?? localPart);
    const password = input.password ?? generatePassword();
    checkPassword(password);
    refuseInactive(domain);
    // Checked before the hash, which takes some 30 ms; the insert below decides.
    if (await this.#findOnDomain(localPart, domain.id)) throw addressExists(localPart, domain);
    const password_hash = await hashPassword(password, owner);
    return this.#database.write(async (tx) => {
      const now = this.#now();
      if (this.#database.engine === 'postgres') await awaitFirst(tx, userId);
      const claim = await this.#domains.lock(tx, owner, domain.name, 'changes');
      refuseInactive(claim);
      const inserted = await tx
        .insertInto('accounts')
        .values({
          domain_id: claim.id,
          user_id: claim.userId,
          domain_name: claim.name,
          local_part: localPart,
          display_name: displayName,
          status: 'active',
          password_hash,
          credential_version: 1,
          created_at: now,
          tokens_from: await tokensFrom(tx, localPart, claim.name, now),
        })
        .onConflict((conflict) => conflict.columns(['domain_id', 'local_part']).doNothing())
        .returning('id')
        .executeTakeFirst();
      if (!inserted) throw addressExists(localPart, domain);
      const account = await readAccount(tx, owner, inserted.id);
      const entry = { action: 'account.create', target: account.address, at: now };
      await writeEvents(tx, [eventOf('account.created', account)], now);
      if (by) await recordAudit(tx, by, entry);
      const made = { account, password };
      await within?.(tx, made);
      // Last: others who make mailboxes wait from here to the commit.
      await this.#makeMailboxes?.(tx, { accountId: account.id, address: account.address });
      return made;
    });
  }

  /** Ordered by id. @throws Refusal domain_not_found */
  async list(page: AccountPage): Promise<Account[]> {
    return listAccounts(this.#database.read, await this.#ownersOf(page), page);
  }

  /** How many accounts {@link list} has on all pages. @returns undefined where no index counts them */
  async count(of: Omit<AccountPage, keyof IdPage>, most: number): Promise<number | undefined> {
    return countAccountsOf(this.#database.read, await this.#ownersOf(of), most);
  }

  async #ownersOf({ userId, organizationId, domain }: Omit<AccountPage, keyof IdPage>) {
    if (domain === undefined) return { userId, organizationId, domainId: undefined };
    const { id } = await this.#domains.find({ userId, organizationId }, domain);
    return { userId, organizationId, domainId: id };
  }

  /** @throws Refusal account_not_found */
  get(whose: Whose, id: number): Promise<Account> {
    return readAccount(this.#database.read, whose, id);
  }

  /**
   * Changes the given fields. A suspended account's tokens and remembered logins become invalid at once.
   *
   * @param by who is named in the audit log when it is suspended or resumed
   * @throws Refusal account_not_found, invalid_request (`display_name`)
   */
  async update(whose: Whose, id: number, changed: AccountUpdate, by?: Actor): Promise<Account> {
    const { displayName, status } = changed;
    if (displayName !== undefined) checkDisplayName(displayName);
    if (displayName === undefined && status === undefined) {
      throw invalidField('display_name', 'is required, or status, or both');
    }
    const { userId } = toOwner(whose);
    checkUserId(userId);
    const account = await this.#database.write(async (tx) => {
      await lockAccount(tx, id);
      const { status: before } = await readAccount(tx, whose, id);
      await tx
        .updateTable('accounts')
        .set({ display_name: displayName, status })
        .where('id', '=', id)
        .where('user_id', '=', userId)
        .execute();
      const account = await readAccount(tx, whose, id);
      if (status === 'suspended') await forgetLoginsOf(tx, id);
      if (account.status === before) return account;
      await writeEvents(tx, [statusEvent(account)], this.#now());
      const action = account.status === 'suspended' ? 'account.suspend' : 'account.resume';
      if (by) await recordAudit(tx, by, { action, target: account.address, at: this.#now() });
      return account;
    });
    // Published also where the account was suspended already: that does no harm.
    if (status === 'suspended') {
      this.#changes.publish({ kind: 'access', accountId: id, reason: 'suspended' });
    }
    return account;
  }

  /**
   * Deletes an account: it no longer exists for anybody when this resolves; its mail is removed afterwards.
   *
   * @throws Refusal account_not_found
   */
  async remove(
    whose: Whose,
    id: number,
    recorded?: RecordedDeletion,
    within?: InTransaction<RemovedAccount>,
  ): Promise<RemovedAccount> {
    const removed = await this.#database.write(async (tx) => {
      await lockAccount(tx, id);
      const account = await readAccount(tx, whose, id);
      const at = this.#now();
      await writeEvents(tx, [eventOf('account.deleted', account)], at);
      await deleteAccounts(tx, [account], at);
      const entry = { action: 'account.delete', target: account.address, at };
      if (recorded) await recordDeletion(tx, recorded, entry);
      const removed = { id, address: account.address };
      await within?.(tx, removed);
      return removed;
    });
    this.#tellDeleted([id]);
    return removed;
  }

  /**
   * Sets the password, by default a generated one; tokens that were issued before become invalid at once, and so do the
   * app passwords.
   *
   * @param by who is named in the audit log
   * @throws Refusal account_not_found, invalid_request (`password`), unavailable
   */
  async resetPassword(
    whose: Whose,
    id: number,
    given?: string,
    by?: Actor,
    within?: InTransaction<AccountWithPassword>,
  ): Promise<AccountWithPassword> {
    const password = given ?? generatePassword();
    checkPassword(password);
    const { userId } = await this.get(whose, id);
    const { organizationId } = toOwner(whose);
    const password_hash = await hashPassword(password, { userId, organizationId });
    const made = await this.#database.write(async (tx) => {
      await tx
        .updateTable('accounts')
        .set(({ eb }) => ({ password_hash, credential_version: eb('credential_version', '+', 1) }))
        .where('id', '=', id)
        .where('user_id', '=', userId)
        .execute();
      await forgetAppPasswordsOf(tx, id);
      const account = await readAccount(tx, whose, id);
      const entry = { action: 'account.reset_password', target: account.address, at: this.#now() };
      if (by) await recordAudit(tx, by, entry);
      const made = { account, password };
      await within?.(tx, made);
      return made;
    });
    this.#changes.publish({ kind: 'access', accountId: id, reason: 'password_reset' });
    return made;
  }

  /**
   * Deletes a domain: it and its accounts no longer exist for anybody when this resolves; accounts, mail and
   * deliveries are removed afterwards.
   *
   * @throws Refusal domain_not_found
   */
  async removeDomain(
    whose: Whose,
    name: string,
    recorded?: RecordedDeletion,
    within?: InTransaction<Domain>,
  ): Promise<Domain> {
    const { rivals, ...domain } = await this.#database.write(async (tx) => {
      const removed = await this.#domains.remove(tx, whose, name);
      const entry = { action: 'domain.delete', target: removed.name, at: this.#now() };
      if (recorded) await recordDeletion(tx, recorded, entry);
      await within?.(tx, removed);
      return removed;
    });
    this.#domains.logChanges(rivals);
    // Sockets end now, since another node may remove the accounts, and later. The removal tells them again: a single
    // node has no other way to end those that this missed, because a query failed or the answer to the commit was lost.
    await this.endAccess(domain.id, 'deleted').catch(() => {});
    this.#onDeleted();
    return domain;
  }

  /** Removes some accounts of a deleted domain. @returns false where it has none left */
  async removeSomeOf(deletedDomainId: number): Promise<boolean> {
    const ids = await deleteSomeOfDomain(this.#database, deletedDomainId, this.#now());
    this.#tellDeleted(ids);
    return ids.length > 0;
  }

  /** Ends the connections to the accounts of a domain that was suspended or deleted. */
  async endAccess(domainId: number, reason: 'suspended' | 'deleted'): Promise<void> {
    for await (const id of accountIdsOf(this.#database.read, domainId)) {
      this.#changes.publish({ kind: 'access', accountId: id, reason });
    }
  }

  /** Tells sockets and other nodes about deleted accounts, and starts the removal of their mail. */
  #tellDeleted(ids: readonly number[]): void {
    for (const id of ids) {
      this.#changes.publish({ kind: 'access', accountId: id, reason: 'deleted' });
    }
    this.#onDeleted();
  }

  /** The oldest account of a domain, for its postmaster. */
  async oldestOfDomain(domainId: number): Promise<Account | undefined> {
    const row = await selectAccounts(this.#database.read)
      .where('domain_id', '=', domainId)
      .orderBy('id')
      .limit(1)
      .executeTakeFirst();
    return row && toAccount(row);
  }

  /** The account of an address now; case is ignored, a `+tag` is not. */
  async findForMail(text: string): Promise<Account | undefined> {
    const address = readAddress(text);
    const domain = address && (await this.#domains.findActive(address.domain));
    return domain && this.#findOnDomain(address.localPart, domain.id);
  }

  async #findOnDomain(localPart: string, domainId: number): Promise<Account | undefined> {
    const row = await onDomain.first(this.#database.read, { domainId, localPart });
    return row && toAccount(row);
  }
}

function refuseInactive({ name, status }: Pick<Domain, 'name' | 'status'>): void {
  if (status !== 'active') {
    throw new Refusal(
      'domain_not_active',
      `${name} is ${status}: it becomes active once its records are in DNS; GET /v2/domains/${name}/dns lists them`,
    );
  }
}

function addressExists(localPart: string, { name }: Domain): Refusal {
  return new Refusal('address_exists', `${localPart}@${name} exists already`);
}
