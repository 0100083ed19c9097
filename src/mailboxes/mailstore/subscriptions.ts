/**
 * Subscriptions (RFC 9051 section 6.3.7): the mailboxes that a mail program shows. A mailbox that exists is subscribed
 * unless a program said otherwise, so that what an app has made is shown; a name may be subscribed without a mailbox.
 */
import type { Database, Queries } from '../../platform/database/database.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import type { MailUser } from './store.ts';
import { canonicalMailboxName } from './syntax.ts';

/** Names of one account. */
const SUBSCRIPTIONS_MAX = 2_000;

/** What programs said, by name. */
export async function readSubscriptions(
  { read }: Pick<Database, 'read'>,
  { accountId }: MailUser,
): Promise<ReadonlyMap<string, boolean>> {
  const rows = await read
    .selectFrom('subscriptions')
    .select(['name', 'is_on'])
    .where('account_id', '=', accountId)
    .execute();
  return new Map(rows.map(({ name, is_on }) => [name, is_on === 1]));
}

/**
 * @param isNew whether a name that was said to be subscribed stays so
 * @throws Refusal invalid_request where the account has too many names
 */
export async function writeSubscription(
  tx: Queries,
  { accountId }: MailUser,
  mailbox: string,
  { isOn, isNew = false }: { readonly isOn: boolean; readonly isNew?: boolean },
): Promise<void> {
  const { count } = await tx
    .selectFrom('subscriptions')
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .where('account_id', '=', accountId)
    .executeTakeFirstOrThrow();
  if (Number(count) >= SUBSCRIPTIONS_MAX) {
    throw new Refusal('invalid_request', `at most ${SUBSCRIPTIONS_MAX} names are kept`);
  }
  const row = { account_id: accountId, name: canonicalMailboxName(mailbox), is_on: isOn ? 1 : 0 };
  await tx
    .insertInto('subscriptions')
    .values(row)
    .onConflict((conflict) => {
      const known = conflict.columns(['account_id', 'name']);
      return isNew ? known.doNothing() : known.doUpdateSet({ is_on: row.is_on });
    })
    .execute();
}

/** A deleted mailbox leaves only the subscription of its name. */
export async function forgetUnsubscribed(
  tx: Queries,
  { accountId }: MailUser,
  name: string,
): Promise<void> {
  await tx
    .deleteFrom('subscriptions')
    .where('account_id', '=', accountId)
    .where('name', '=', name)
    .where('is_on', '=', 0)
    .execute();
}
