/**
 * Subscriptions (RFC 9051 section 6.3.7): the mailboxes that a mail program shows. A mailbox that exists is subscribed
 * unless a program said otherwise, so that what an app has made is shown; a name may be subscribed without a mailbox.
 */
import type { Database, Queries } from '../../platform/database/database.ts';
import { Refusal } from '../../platform/errors/errors.ts';
import type { MailUser } from './store.ts';
import { canonicalLevels, defaultMailboxes } from './syntax.ts';

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
 * A name without a mailbox that is not subscribed is not kept: it may be any text of a client.
 *
 * @param isNew whether a name that was said to be subscribed stays so
 * @throws Refusal invalid_request where the account has too many names
 */
export async function writeSubscription(
  tx: Queries,
  { accountId: account_id }: MailUser,
  mailbox: string,
  { isOn, isNew = false }: { readonly isOn: boolean; readonly isNew?: boolean },
): Promise<void> {
  const row = { account_id, name: canonicalLevels(mailbox), is_on: isOn ? 1 : 0 };
  const all = tx.selectFrom('subscriptions').where('account_id', '=', account_id);
  const isKnown = await all.where('name', '=', row.name).select('is_on').executeTakeFirst();
  if (!isOn && !(await isMailbox(tx, row))) {
    await ofName(tx, row).execute();
    return;
  }
  const { count } = await all
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .executeTakeFirstOrThrow();
  if (!isKnown && Number(count) >= SUBSCRIPTIONS_MAX) {
    throw new Refusal('invalid_request', `at most ${SUBSCRIPTIONS_MAX} names are kept`);
  }
  await tx
    .insertInto('subscriptions')
    .values(row)
    .onConflict((conflict) => {
      const known = conflict.columns(['account_id', 'name']);
      return isNew ? known.doNothing() : known.doUpdateSet({ is_on: row.is_on });
    })
    .execute();
}

type Name = { readonly account_id: number; readonly name: string };

function ofName(tx: Queries, { account_id, name }: Name) {
  return tx
    .deleteFrom('subscriptions')
    .where('account_id', '=', account_id)
    .where('name', '=', name);
}

/** Whether there is a mailbox of that name; those that every account has may not be made yet. */
async function isMailbox(tx: Queries, { account_id, name }: Name): Promise<boolean> {
  if (defaultMailboxes.some((one) => one.name === name)) return true;
  const mailboxes = tx.selectFrom('mailboxes').where('account_id', '=', account_id);
  return (await mailboxes.where('name', '=', name).select('id').executeTakeFirst()) !== undefined;
}

/** A deleted mailbox leaves only the subscription of its name. */
export async function forgetUnsubscribed(
  tx: Queries,
  { accountId: account_id }: MailUser,
  name: string,
): Promise<void> {
  await ofName(tx, { account_id, name }).where('is_on', '=', 0).execute();
}

/** Mailboxes that programs do not show stay so under their new names, which are given by the old ones. */
export async function renameUnsubscribed(
  tx: Queries,
  { accountId: account_id }: MailUser,
  names: ReadonlyMap<string, string>,
): Promise<void> {
  const hidden = await tx
    .deleteFrom('subscriptions')
    .where('account_id', '=', account_id)
    .where('is_on', '=', 0)
    .where('name', 'in', [...names.keys()])
    .returning('name')
    .execute();
  if (hidden.length === 0) return;
  await tx
    .insertInto('subscriptions')
    .values(hidden.map(({ name }) => ({ account_id, name: names.get(name) ?? name, is_on: 0 })))
    .onConflict((conflict) => conflict.columns(['account_id', 'name']).doNothing())
    .execute();
}
