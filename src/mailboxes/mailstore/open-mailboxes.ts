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

export type OpenMailbox = Pick<Row<'mailboxes'>, (typeof openColumns)[number]>;

function select(accountId: number, queries: Queries) {
  return queries.selectFrom('mailboxes').select(openColumns).where('account_id', '=', accountId);
}

/** Compiled once: programs ask for the state of mailboxes all the time. */
export const openMailbox = {
  byName: new PreparedQuery((value: { accountId: number; name: string }, queries) =>
    select(value.accountId, queries).where('name', '=', value.name),
  ),
  byId: new PreparedQuery((value: { accountId: number; id: number }, queries) =>
    select(value.accountId, queries).where('id', '=', value.id),
  ),
  all: new PreparedQuery((value: { accountId: number }, queries) =>
    select(value.accountId, queries).orderBy('id'),
  ),
};
