/** Accounts of any user, as operators see them. */
import { Type } from 'typebox';
import { waitingOfAccounts } from '../../mail/queue/queue.ts';
import { SEND } from '../../mail/sending/sending.ts';
import { type MailTotals, totalsOfAccounts } from '../../mailboxes/mailstore/mailstore.ts';
import { invalidField } from '../../platform/errors/errors.ts';
import type { EpochMs } from '../../platform/time/time.ts';
import type { OperatedAccount } from '../../tenants/accounts/accounts.ts';
import { dayOfAccounts, noMail } from '../../tenants/usage/usage.ts';
import { AccountBody, Instant, Integer, RecordId, replaced, writerOf } from '../api/api.ts';
import type { AccountOrderParts } from './account-order.ts';

export const accountFields = {
  ...AccountBody.properties,
  messages: Type.Optional(Integer('In its mailboxes. Left out where a mail server has them.', 340)),
  bytes: Type.Optional(Integer('Of these messages, in bytes.', 7340032)),
  quota_bytes: Integer(
    'Bytes that its mailboxes may hold: its own quota or the default; 0 for no limit.',
    1073741824,
  ),
  sent_24h: Integer('Recipients of mail that it sent in the last 24 hours.', 118),
  received_24h: Integer('Messages that it got in the last 24 hours.', 40),
  bounced_24h: Integer(
    'Recipients who did not get its mail: given up in the last 24 hours, or reported by a bounce from outside.',
    3,
  ),
  refused_24h: Integer(
    'Recipients that it could not write to in the last 24 hours, because of `SEND_RECIPIENTS_PER_DAY`.',
    0,
  ),
  waiting: Integer('Deliveries of its mail that wait, or are held.', 2),
  last_login_at: Type.Optional(
    Instant(
      'The last login with its password, accurate to a day. Absent if there was none in half a year.',
    ),
  ),
  account_id: Type.Integer({ ...replaced('id'), examples: [1] }),
  email: Type.String({ ...replaced('address'), examples: ['ada@acme.test'] }),
  suspended: Type.Boolean(replaced('status')),
};

export const OperatedAccountBody = Type.Object(accountFields, {
  title: 'OperatedAccount',
  description: 'An account of any user, as operators see it.',
});

const write = writerOf(OperatedAccountBody);

/** The members of a body that name one account. */
export const AccountChoice = {
  id: Type.Optional(RecordId),
  account_id: Type.Optional(Type.Integer(replaced('id'))),
};

/** @throws Refusal invalid_request (`id`) where neither is given */
export function chosenAccount(body: {
  readonly id?: number;
  readonly account_id?: number;
}): number {
  const id = body.id ?? body.account_id;
  if (id === undefined) throw invalidField('id', 'is required');
  return id;
}

export interface AccountRouteParts extends AccountOrderParts {
  /** Whether the mailboxes are in our own database, where they can be counted. */
  readonly countsMail: boolean;
}

/** The items for accounts, with their contents. @param at when their last 24 hours end */
export async function writeAccounts(
  { database, countsMail, quotaBytes }: AccountRouteParts,
  accounts: readonly OperatedAccount[],
  at: EpochMs,
): Promise<Type.Static<typeof OperatedAccountBody>[]> {
  const none: MailTotals = { messages: 0, bytes: 0 };
  const ids = countsMail ? accounts.map(({ id }) => id) : [];
  const owners = accounts.map(({ id, domainId, userId }) => ({ accountId: id, domainId, userId }));
  const [totals, sums, waiting] = await Promise.all([
    totalsOfAccounts(database.read, ids),
    dayOfAccounts(database.read, at, accounts),
    waitingOfAccounts(database.read, SEND, owners),
  ]);
  return accounts.map((account) => {
    const { id, address } = account;
    const { in: received24h, out: sent24h, bounced, refused } = sums.get(id) ?? noMail;
    return write({
      ...account,
      ...(countsMail && (totals.get(id) ?? none)),
      quotaBytes: account.quotaBytes ?? quotaBytes,
      sent24h,
      received24h,
      bounced24h: bounced,
      refused24h: refused,
      waiting: waiting.get(id) ?? 0,
      accountId: id,
      email: address,
      suspended: account.status === 'suspended',
    });
  });
}
