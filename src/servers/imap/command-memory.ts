/**
 * Memory for long commands. Each session may hold a short one; what a longer one takes beyond that is counted for its
 * account and its user, since a user has thousands of sessions, and each of them may begin a command of 2 MiB.
 */
import { ClientShares } from '../../platform/net/net.ts';
import type { MailAccess } from '../../tenants/accounts/accounts.ts';

const MIB = 1024 * 1024;
/** Octets of a command that are not counted. */
const FREE = 64 * 1024;
/** In all, of one user, and of one account: four of the longest commands. */
const ALL = 128 * MIB;
const OF_USER = 32 * MIB;
const OF_ACCOUNT = 8 * MIB;

/** Of all connections of a process. */
export class CommandMemory {
  readonly #users = new ClientShares(ALL);
  readonly #accounts = new ClientShares(ALL);

  /** @returns false where the account or its user holds too much, or all together do */
  take({ accountId, userId }: MailAccess, octets: number): boolean {
    if (!this.#users.take(userId, octets, OF_USER)) return false;
    if (this.#accounts.take(String(accountId), octets, OF_ACCOUNT)) return true;
    this.#users.give(userId, octets);
    return false;
  }

  give({ accountId, userId }: MailAccess, octets: number): void {
    this.#users.give(userId, octets);
    this.#accounts.give(String(accountId), octets);
  }
}

/** What the command of one connection holds. */
export class HeldCommand {
  readonly #memory: CommandMemory;
  #user: MailAccess | undefined;
  #taken = 0;

  constructor(memory: CommandMemory) {
    this.#memory = memory;
  }

  /** @param user undefined before a login, when commands are short @returns whether so many octets may be held */
  reach(octets: number, user: MailAccess | undefined): boolean {
    const more = octets - FREE - this.#taken;
    if (more <= 0 || !user) return true;
    // In large steps: a line may come in small pieces.
    const step = Math.ceil(more / FREE) * FREE;
    if (!this.#memory.take(user, step)) return false;
    this.#user = user;
    this.#taken += step;
    return true;
  }

  /** The command is over. */
  release(): void {
    if (this.#user) this.#memory.give(this.#user, this.#taken);
    this.#user = undefined;
    this.#taken = 0;
  }
}
