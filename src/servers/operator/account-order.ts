/** The order of the operator's list of accounts: by age, by address, or by a number that each account has. */
import { waitingOfAccounts } from '../../mail/queue/queue.ts';
import { SEND } from '../../mail/sending/sending.ts';
import { bytesOfAllAccounts } from '../../mailboxes/mailstore/mailstore.ts';
import type { Database } from '../../platform/database/database.ts';
import type { EpochMs } from '../../platform/time/time.ts';
import {
  type AccountFilter,
  type AccountKey,
  findOperated,
  lastLogins,
  listAccountKeys,
  type OperatedAccount,
} from '../../tenants/accounts/accounts.ts';
import { dayOfAllAccounts, type HourSums } from '../../tenants/usage/usage.ts';

export interface AccountOrderParts {
  readonly database: Database;
  /** Quota of accounts without one of their own, in bytes; 0 for no limit. */
  readonly quotaBytes: number;
  readonly now: () => EpochMs;
}

/** What a number of all accounts is read from. */
interface Measured extends Pick<AccountOrderParts, 'database' | 'quotaBytes'> {
  readonly accounts: readonly AccountKey[];
  /** When the last 24 hours end. */
  readonly at: EpochMs;
}

type Numbers = ReadonlyMap<number, number>;

const ofDay =
  (member: keyof HourSums) =>
  async ({ database, at }: Measured): Promise<Numbers> =>
    new Map(
      [...(await dayOfAllAccounts(database.read, at))].map(([id, sums]) => [id, sums[member]]),
    );

/** The number of each account by which it is sorted; 0 for accounts that are left out. */
const measures = {
  sent_24h: ofDay('out'),
  received_24h: ofDay('in'),
  bounced_24h: ofDay('bounced'),
  refused_24h: ofDay('refused'),
  waiting: ({ database }) => waitingOfAccounts(database.read, SEND),
  bytes: ({ database }) => bytesOfAllAccounts(database.read),
  quota_used: async ({ database, quotaBytes, accounts }) => {
    const bytes = await bytesOfAllAccounts(database.read);
    return new Map(
      accounts.map((one) => [
        one.id,
        shareOf(bytes.get(one.id) ?? 0, one.quotaBytes ?? quotaBytes),
      ]),
    );
  },
  last_login_at: ({ database }) => lastLogins(database.read),
} satisfies Record<string, (measured: Measured) => Promise<Numbers>>;

export type Measure = keyof typeof measures;
export const MEASURES = Object.keys(measures) as Measure[];

/** How much of a quota is used; 0 where there is none. */
function shareOf(bytes: number, quota: number): number {
  return quota > 0 ? bytes / quota : 0;
}

/** Reads `-sent_24h`. @returns undefined for other orders */
export function measureOf(
  sort: string,
): { readonly measure: Measure; readonly isDescending: boolean } | undefined {
  const isDescending = sort.startsWith('-');
  const measure = MEASURES.find((one) => one === sort.slice(isDescending ? 1 : 0));
  return measure && { measure, isDescending };
}

/** The number of an account in the order, and its id. */
export type RankKey = readonly [value: number, id: number];

export interface RankRequest {
  readonly measure: Measure;
  readonly isDescending: boolean;
  readonly limit: number;
  /** Only accounts after this one. */
  readonly after: RankKey | undefined;
  /** When the last 24 hours end. */
  readonly at: EpochMs;
}

/** An account with its place in the order. */
export interface RankedAccount {
  readonly account: OperatedAccount;
  readonly key: RankKey;
}

/**
 * Lists accounts by a number. All that fit the filter are sorted in memory, by their ids and numbers alone: the numbers
 * change with each message, and an index of them would cost each message more than the few lists that are read.
 */
export async function rankAccounts(
  parts: Pick<AccountOrderParts, 'database' | 'quotaBytes'>,
  filter: AccountFilter,
  { measure, isDescending, limit, after, at }: RankRequest,
): Promise<RankedAccount[]> {
  const accounts = await listAccountKeys(parts.database, filter);
  const numbers = await measures[measure]({ ...parts, accounts, at });
  const sign = isDescending ? -1 : 1;
  // Of equal ones the newest first, as in the list by age.
  const compare = (one: RankKey, other: RankKey) => sign * (one[0] - other[0]) || other[1] - one[1];
  const keys = accounts
    .map(({ id }): RankKey => [numbers.get(id) ?? 0, id])
    .filter((key) => after === undefined || compare(key, after) > 0)
    .sort(compare)
    .slice(0, limit);
  const found = await findOperated(
    parts.database,
    keys.map(([, id]) => id),
  );
  const byId = new Map(keys.map((key) => [key[1], key]));
  return found.flatMap((account) => {
    const key = byId.get(account.id);
    return key ? { account, key } : [];
  });
}
