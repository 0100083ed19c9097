/** What decides whether a login or a token is accepted. */
import { sql } from 'kysely';
import {
  canonicalLevels,
  type MailboxRow,
  mailboxColumns,
} from '../../mailboxes/mailstore/mailstore.ts';
import { type Database, PreparedQuery, type Queries } from '../../platform/database/database.ts';
import { address, type MailAddress } from './account-addresses.ts';
import type { AccountStatus } from './account-rows.ts';

/** The data that decides whether a login or token is accepted. */
export interface Credentials {
  readonly accountId: number;
  readonly userId: string;
  readonly address: string;
  readonly status: AccountStatus;
  readonly passwordHash: string;
  readonly credentialVersion: number;
  readonly createdAt: number;
  readonly tokensFrom: number;
  /** Since when the claim on the domain is active: before that the name may have belonged to another user. */
  readonly activeSince: number;
  /** The mailbox that was asked for; undefined where the account has none of that name. */
  readonly mailbox?: MailboxRow | undefined;
}

/** Joins the domain: an account exists, and is open, only as its domain does and is. */
function selectCredentials(queries: Queries) {
  return queries
    .selectFrom('accounts')
    .innerJoin('domains', 'domains.id', 'accounts.domain_id')
    .select([
      'accounts.id as accountId',
      'accounts.user_id as userId',
      address,
      sql<AccountStatus>`case when domains.suspended_at is null then accounts.status else 'suspended' end`.as(
        'status',
      ),
      'password_hash as passwordHash',
      'credential_version as credentialVersion',
      'accounts.created_at as createdAt',
      'tokens_from as tokensFrom',
      'domains.verified_at as verifiedAt',
    ]);
}

type CredentialsRow = Awaited<
  ReturnType<ReturnType<typeof selectCredentials>['executeTakeFirstOrThrow']>
>;
/** With a mailbox of the account, whose columns are all null where it has none of that name. */
type JoinedRow = CredentialsRow & (MailboxRow | { readonly id: null });

/** Joins a mailbox: a sync then asks once. */
function withMailbox(credentials: ReturnType<typeof selectCredentials>, name: string) {
  return credentials
    .leftJoin('mailboxes', (join) =>
      join.onRef('mailboxes.account_id', '=', 'accounts.id').on('mailboxes.name', '=', name),
    )
    .select(mailboxColumns.map((column) => `mailboxes.${column}` as const))
    .$castTo<JoinedRow>();
}

function toCredentials(row: CredentialsRow | JoinedRow | undefined): Credentials | undefined {
  if (!row) return undefined;
  const { verifiedAt, ...rest } = row;
  return {
    ...rest,
    activeSince: verifiedAt ?? 0,
    ...('id' in row && row.id !== null && { mailbox: row }),
  };
}

interface ById {
  readonly id: number;
  readonly mailbox: string;
}

type ByAddress = MailAddress & Pick<ById, 'mailbox'>;

function selectById({ id }: ById, queries: Queries) {
  return selectCredentials(queries).where('accounts.id', '=', id);
}

function selectByAddress({ domain, localPart }: ByAddress, queries: Queries) {
  return (
    selectCredentials(queries)
      // A parameter would not do: only with the literal the index of active claims is used.
      .where('domains.status', '=', sql.lit('active'))
      .where('domains.name', '=', domain)
      .where('local_part', '=', localPart)
  );
}

/* Compiled once: every call with a token runs one of them, and building a query takes ten times as long as running it. */
const byId = new PreparedQuery(selectById);
const byAddress = new PreparedQuery(selectByAddress);
const byIdJoined = new PreparedQuery<ById, JoinedRow>((value, queries) =>
  withMailbox(selectById(value, queries), value.mailbox),
);
const byAddressJoined = new PreparedQuery<ByAddress, JoinedRow>((value, queries) =>
  withMailbox(selectByAddress(value, queries), value.mailbox),
);

export class CredentialsReader {
  readonly #queries: Queries;

  constructor({ read }: Pick<Database, 'read'>) {
    this.#queries = read;
  }

  /**
   * The credentials of an account, or undefined where it does not exist.
   *
   * @param mailbox name of a mailbox that is to be read with them
   */
  async ofAccount(id: number, mailbox?: string): Promise<Credentials | undefined> {
    const query = mailbox === undefined ? byId : byIdJoined;
    const name = canonicalLevels(mailbox ?? '');
    return toCredentials(await query.first(this.#queries, { id, mailbox: name }));
  }

  /**
   * The credentials of an address whose claim is active, or undefined.
   *
   * @param address as {@link readAddress} returns it
   * @param mailbox name of a mailbox that is to be read with them
   */
  async ofAddress(address: MailAddress, mailbox?: string): Promise<Credentials | undefined> {
    const query = mailbox === undefined ? byAddress : byAddressJoined;
    const name = canonicalLevels(mailbox ?? '');
    return toCredentials(await query.first(this.#queries, { ...address, mailbox: name }));
  }
}
