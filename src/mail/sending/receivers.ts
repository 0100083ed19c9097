/** Where an account writes to, for operators. */
import { sql } from 'kysely';
import type { Queries } from '../../platform/database/database.ts';
import { mailDestination } from '../outbound/outbound.ts';

/** The recipients of an account at one mail domain. */
export interface Receiver {
  readonly domain: string;
  readonly recipients: number;
  /** Those who did not get the mail. */
  readonly bounced: number;
}

/** The newest recipients that are looked at. */
const RECIPIENTS_MAX = 5_000;

/**
 * The mail domains that an account wrote to most, of its newest 5,000 recipients.
 *
 * @param since milliseconds since 1970
 */
export async function topReceivers(
  queries: Queries,
  accountId: number,
  since: number,
  limit: number,
): Promise<Receiver[]> {
  const { rows } = await sql<{ address: string; status: string }>`
    select address, send_recipients.status as status from sends
    join send_recipients on send_recipients.send_id = sends.id
    where account_id = ${accountId} and coalesce(send_at, created_at) >= ${since}
    order by coalesce(send_at, created_at) desc limit ${sql.lit(RECIPIENTS_MAX)}`.execute(queries);
  return [...Map.groupBy(rows, ({ address }) => mailDestination(address))]
    .map(([domain, some]) => ({
      domain,
      recipients: some.length,
      bounced: some.filter(({ status }) => status === 'bounced').length,
    }))
    .sort((one, other) => other.recipients - one.recipients || (one.domain < other.domain ? -1 : 1))
    .slice(0, limit);
}
