/** How much mail mailboxes hold, for operators. */
import type { Queries } from '../../platform/database/database.ts';

/** Messages and the octets of their sources. */
export interface MailTotals {
  readonly messages: number;
  readonly bytes: number;
}

/** The totals of each of these accounts, by account id; accounts without a mailbox are left out. */
export async function totalsOfAccounts(
  queries: Queries,
  accountIds: readonly number[],
): Promise<Map<number, MailTotals>> {
  if (accountIds.length === 0) return new Map();
  const rows = await queries
    .selectFrom('mailboxes')
    .select(({ fn }) => [
      'account_id as id',
      fn.sum<number>('messages').as('messages'),
      fn.sum<number>('octets').as('bytes'),
    ])
    .where('account_id', 'in', accountIds)
    .groupBy('account_id')
    .execute();
  return toTotals(rows);
}

/** Octets in the mailboxes of all accounts, by account id; accounts without a mailbox are left out. */
export async function bytesOfAllAccounts(queries: Queries): Promise<Map<number, number>> {
  const rows = await queries
    .selectFrom('mailboxes')
    .select(({ fn }) => ['account_id as id', fn.sum<number>('octets').as('bytes')])
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
    .select(({ fn }) => [
      'domain_id as id',
      fn.sum<number>('messages').as('messages'),
      fn.sum<number>('octets').as('bytes'),
    ])
    .where('domain_id', 'in', domainIds)
    .groupBy('domain_id')
    .execute();
  return toTotals(rows);
}

interface TotalsRow extends MailTotals {
  readonly id: number;
}

/** PostgreSQL returns sums as text. */
function toTotals(rows: readonly TotalsRow[]): Map<number, MailTotals> {
  return new Map(
    rows.map(({ id, messages, bytes }) => [
      id,
      { messages: Number(messages), bytes: Number(bytes) },
    ]),
  );
}
