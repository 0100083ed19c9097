/** Slots for requests of accounts, which take long or much memory: neither an account nor a user fills them. */
import { ClientShares } from '../../platform/net/net.ts';
import type { MailAccess } from '../../tenants/accounts/accounts.ts';

/** How many slots one account, all accounts of one user, and all accounts may hold. */
interface Shares {
  readonly account: number;
  readonly user: number;
  readonly all: number;
}

type Holder = Pick<MailAccess, 'accountId' | 'userId'>;

export class AccountShares {
  readonly #most: Shares;
  readonly #ofAccounts: ClientShares;
  readonly #ofUsers: ClientShares;

  constructor(most: Shares) {
    this.#most = most;
    this.#ofAccounts = new ClientShares(most.all);
    this.#ofUsers = new ClientShares(most.all);
  }

  /** Takes a slot. @returns false where the account, its user or all together hold too many */
  take({ accountId, userId }: Holder): boolean {
    const account = String(accountId);
    if (!this.#ofAccounts.take(account, 1, this.#most.account)) return false;
    if (this.#ofUsers.take(userId, 1, this.#most.user)) return true;
    this.#ofAccounts.give(account, 1);
    return false;
  }

  /** Gives a slot back. */
  give({ accountId, userId }: Holder): void {
    this.#ofAccounts.give(String(accountId), 1);
    this.#ofUsers.give(userId, 1);
  }
}
