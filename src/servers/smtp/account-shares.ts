/** Connections after a login: they take no slot from strangers, and strangers none from them. */
import { ClientShares } from '../../platform/net/net.ts';
import type { Submitter } from './clients.ts';

/** How many connections an account may hold; the accounts of a user hold a tenth of all, and no fewer. */
const OF_ACCOUNT = 20;
const OF_USER = 0.1;

export class AccountShares {
  readonly #accounts: ClientShares;
  readonly #users: ClientShares;
  readonly #ofUser: number;

  /** @param total connections of all accounts */
  constructor(total: number) {
    this.#accounts = new ClientShares(total);
    this.#users = new ClientShares(total);
    this.#ofUser = Math.max(OF_ACCOUNT, OF_USER * total);
  }

  /** @returns what gives the slot back; undefined where the account or its user has too many */
  take({ accountId, userId }: Pick<Submitter, 'accountId' | 'userId'>): (() => void) | undefined {
    const account = String(accountId);
    if (!this.#accounts.take(account, 1, OF_ACCOUNT)) return undefined;
    // A user leaves as much as he takes: no number of users takes all.
    if (!this.#users.take(userId, 1, Math.min(this.#ofUser, this.#users.left - 1))) {
      this.#accounts.give(account, 1);
      return undefined;
    }
    return () => {
      this.#accounts.give(account, 1);
      this.#users.give(userId, 1);
    };
  }
}
