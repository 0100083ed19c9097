/** Slots for connections and requests of accounts: neither an account nor a user fills them. */
import { ClientShares } from '../../platform/net/net.ts';
import type { MailAccess } from './tokens.ts';

/** How many slots one account, the accounts of one user, and all accounts may hold. */
export interface MostSlots {
  readonly account: number;
  readonly user: number;
  readonly all: number;
  /** Whether a user leaves as many as he takes, so that no number of users takes all. */
  readonly leavesAsMany?: true;
}

export class AccountShares {
  readonly #most: MostSlots;
  readonly #accounts: ClientShares;
  readonly #users: ClientShares;

  constructor(most: MostSlots) {
    this.#most = most;
    this.#accounts = new ClientShares(most.all);
    this.#users = new ClientShares(most.all);
  }

  /** How many slots are held. */
  get taken(): number {
    return this.#accounts.taken;
  }

  /** @returns what gives the slot back, or who has too many; `of_user` also where all together have */
  take({
    accountId,
    userId,
  }: Pick<MailAccess, 'accountId' | 'userId'>): (() => void) | 'of_account' | 'of_user' {
    const { account, user, leavesAsMany } = this.#most;
    const most = leavesAsMany ? Math.min(user, this.#users.left - 1) : user;
    const ofUser = this.#users.hold(userId, most);
    if (!ofUser) return 'of_user';
    const ofAccount = this.#accounts.hold(String(accountId), account);
    if (!ofAccount) {
      ofUser();
      return 'of_account';
    }
    return () => {
      ofUser();
      ofAccount();
    };
  }
}
