/** Mailboxes as IMAP shows them. */
import { PreparedQuery, type Queries, type Row } from '../../platform/database/database.ts';
import { mailboxColumns } from './mailboxes.ts';

const openColumns = [
  ...mailboxColumns,
  'uidnext',
  'unseen',
  'octets',
  'special_use',
  'keywords',
  'recent_uid',
] as const;

/** A mailbox as it is now. */
export type OpenMailbox = Pick<Row<'mailboxes'>, (typeof openColumns)[number]>;

/** Compiled once: programs ask for the state of mailboxes all the time. */
export function prepareOpen(queries: Queries) {
  const select = (accountId: number) =>
    queries.selectFrom('mailboxes').select(openColumns).where('account_id', '=', accountId);
  return {
    byName: new PreparedQuery((value: { accountId: number; name: string }) =>
      select(value.accountId).where('name', '=', value.name),
    ),
    byId: new PreparedQuery((value: { accountId: number; id: number }) =>
      select(value.accountId).where('id', '=', value.id),
    ),
    all: new PreparedQuery((value: { accountId: number }) => select(value.accountId).orderBy('id')),
  };
}
