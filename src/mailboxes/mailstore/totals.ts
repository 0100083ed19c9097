/** How much mail mailboxes hold, for operators. */
import { sql } from 'kysely';
import type { Queries } from '../../platform/database/database.ts';

/** Messages and the octets of their sources. */
export interface MailTotals {
  readonly messages: number;
  readonly bytes: number;
}

const sums = [
  sql<number>`sum(mailboxes.messages)`.as('messages'),
  sql<number>`sum(mailboxes.octets)`.as('bytes'),
] as const;

/** The totals of each of these accounts, by account id; accounts without a mailbox are left out. */
export async function totalsOfAccounts(
  queries: Queries,
  accountIds: readonly number[],
): Promise<Map<number, MailTotals>> {
  if (accountIds.length === 0) return new Map();
  const rows = await queries
    .selectFrom('mailboxes')
    .select(['account_id as id', ...sums])
    .where('account_id', 'in', accountIds)
    .groupBy('account_id')
    .execute();
  return toTotals(rows);
}

/** Octets in the mailboxes of all accounts, by account id; accounts without a mailbox are left out. */
export async function bytesOfAllAccounts(queries: Queries): Promise<Map<number, number>> {
  const rows = await queries
    .selectFrom('mailboxes')
    .select(['account_id as id', ...sums])
    .where('account_id', '>', 0)
    .groupBy('account_id')
    .execute();
  return new Map(rows.map(({ id, bytes }) => [id, Number(bytes)]));
}

/** The totals of the accounts of each of these domains, by domain id; domains without any are left out. */
export async function totalsOfDomains(
  queries: Queries,
  domainIds: readonly number[],
): Promise<Map<number, MailTotals>> {
  if (domainIds.length === 0) return new Map();
  const rows = await queries
    .selectFrom('accounts')
    .innerJoin('mailboxes', 'mailboxes.account_id', 'accounts.id')
    .select(['domain_id as id', ...sums])
    .where('domain_id', 'in', domainIds)
    .groupBy('domain_id')
    .execute();
  return toTotals(rows);
}

/** PostgreSQL returns sums as text. */
function toTotals(rows: readonly (MailTotals & { id: number })[]): Map<number, MailTotals> {
  return new Map(
    rows.map(({ id, messages, bytes }) => [
      id,
      { messages: Number(messages), bytes: Number(bytes) },
    ]),
  );
}
