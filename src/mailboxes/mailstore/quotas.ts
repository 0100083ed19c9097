/**
 * Quotas: how many octets the mailboxes of an account may hold together, by the counters of its mailboxes, which
 * every change of a mailbox keeps in its own transaction. A message counts in each mailbox that has it, as IMAP
 * counts (RFC 9208 section 5.1).
 *
 * A transaction that adds to an account with a quota locks the account's row until the commit, so that concurrent
 * deliveries never exceed the quota. Accounts without a quota are not locked.
 */
import { sql } from 'kysely';
import type { Database, Queries } from '../../platform/database/database.ts';
import { Refusal } from '../../platform/errors/errors.ts';

/** The octets that an account uses, and may use; 0 for no limit. */
export interface Room {
  readonly accountId: number;
  readonly usedBytes: number;
  readonly quotaBytes: number;
}

export class Quotas {
  readonly #engine: Database['engine'];
  readonly #defaultBytes: number;

  /** @param defaultBytes for accounts without a quota of their own; 0 for no limit */
  constructor({ engine }: Pick<Database, 'engine'>, defaultBytes: number) {
    this.#engine = engine;
    this.#defaultBytes = defaultBytes;
  }

  /** Whether an account has a quota. @param ownBytes what its row says */
  isLimited(ownBytes: number | null): boolean {
    return (ownBytes ?? this.#defaultBytes) > 0;
  }

  /** The use and the quota of those of the accounts that have one. */
  async rooms(queries: Queries, accountIds: readonly number[]): Promise<Room[]> {
    if (accountIds.length === 0) return [];
    const quota = this.#quota();
    const { rows } = await sql<Room>`
      select id as "accountId", ${quota} as "quotaBytes", (
        select cast(coalesce(sum(octets), 0) as bigint) from mailboxes where account_id = accounts.id
      ) as "usedBytes"
      from accounts where id in (${sql.join(accountIds)}) and ${quota} > 0`.execute(queries);
    return rows;
  }

  /**
   * Locks those of the accounts that have a quota until the commit. Called before the transaction locks a mailbox:
   * all transactions lock in this order.
   */
  async hold(tx: Queries, accountIds: readonly number[]): Promise<void> {
    // SQLite has one writer at a time.
    if (this.#engine === 'sqlite' || accountIds.length === 0) return;
    await sql`select id from accounts where id in (${sql.join(accountIds)}) and ${this.#quota()} > 0
      order by id for no key update`.execute(tx);
  }

  /** The accounts among them that have no room for so many more octets; they stay locked until the commit. */
  async findFull(
    tx: Queries,
    accountIds: readonly number[],
    octets: number,
  ): Promise<ReadonlySet<number>> {
    await this.hold(tx, accountIds);
    const rooms = await this.rooms(tx, accountIds);
    return new Set(rooms.filter((room) => !fits(room, octets)).map(({ accountId }) => accountId));
  }

  /** @throws Refusal quota_exceeded where the account has no room for so many more octets */
  async refuseFull(tx: Queries, accountId: number, octets: number): Promise<void> {
    const full = await this.findFull(tx, [accountId], octets);
    if (full.size > 0) throw quotaExceeded();
  }

  #quota() {
    return sql<number>`coalesce(quota_bytes, ${sql.lit(this.#defaultBytes)})`;
  }
}

/** Whether an account has room for so many more octets. */
export function fits({ usedBytes, quotaBytes }: Room, octets: number): boolean {
  return usedBytes + octets <= quotaBytes;
}

export function quotaExceeded(address = 'the account'): Refusal {
  return new Refusal(
    'quota_exceeded',
    `${address} has no room for this message: its quota is used up`,
  );
}
