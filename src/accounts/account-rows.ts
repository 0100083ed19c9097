/** Accounts as they lie in storage. */
import { type Database, PreparedQuery, type Queries, type Row } from '../database/database.ts';
import { domainIsThere } from './delete-accounts.ts';

export type AccountStatus = Row<'accounts'>['status'];

/** A mailbox account. */
export interface Account {
  readonly id: number;
  readonly userId: string;
  /** Name of the domain. */
  readonly domain: string;
  readonly localPart: string;
  /** `<localPart>@<domain>`, lower case. */
  readonly address: string;
  readonly displayName: string;
  readonly status: AccountStatus;
  /** Whether it is the oldest account of its user. */
  readonly isDefault: boolean;
  /** Milliseconds since 1970. */
  readonly createdAt: number;
}

/** What decides whether somebody gets in. */
export interface Credentials {
  readonly accountId: number;
  readonly address: string;
  readonly status: AccountStatus;
  readonly passwordHash: string;
  readonly credentialVersion: number;
  readonly createdAt: number;
  readonly tokensFrom: number;
}

/** Accounts that are there, each with the id of its user's oldest. */
export function selectAccounts(queries: Queries) {
  return queries
    .selectFrom('accounts')
    .select(['id', 'user_id', 'domain_name', 'local_part', 'display_name', 'status', 'created_at'])
    .where(domainIsThere('accounts'))
    .select(({ selectFrom }) =>
      selectFrom('accounts as own')
        .select('own.id')
        .whereRef('own.user_id', '=', 'accounts.user_id')
        .where(domainIsThere('own'))
        .orderBy('own.id')
        .limit(1)
        .as('default_id'),
    );
}

export type AccountRow = Awaited<
  ReturnType<ReturnType<typeof selectAccounts>['executeTakeFirstOrThrow']>
>;

export function toAccount(row: AccountRow): Account {
  return {
    id: row.id,
    userId: row.user_id,
    domain: row.domain_name,
    localPart: row.local_part,
    address: `${row.local_part}@${row.domain_name}`,
    displayName: row.display_name,
    status: row.status,
    isDefault: row.id === row.default_id,
    createdAt: row.created_at,
  };
}

function selectCredentials(queries: Queries) {
  return queries
    .selectFrom('accounts')
    .select([
      'id as accountId',
      'domain_name',
      'local_part',
      'status',
      'password_hash as passwordHash',
      'credential_version as credentialVersion',
      'created_at as createdAt',
      'tokens_from as tokensFrom',
    ])
    .where(domainIsThere('accounts'));
}

type CredentialsRow = Awaited<
  ReturnType<ReturnType<typeof selectCredentials>['executeTakeFirstOrThrow']>
>;

function toCredentials({ local_part, domain_name, ...row }: CredentialsRow): Credentials {
  return { ...row, address: `${local_part}@${domain_name}` };
}

/**
 * Reads credentials. Its queries are compiled once: every call with a token asks one of them, and
 * building a query takes ten times as long as running it.
 */
export class CredentialsReader {
  readonly #queries: Queries;
  readonly #byId: PreparedQuery<{ id: number }, CredentialsRow>;
  readonly #byAddress: PreparedQuery<{ domainId: number; localPart: string }, CredentialsRow>;

  constructor({ read }: Pick<Database, 'read'>) {
    this.#queries = read;
    this.#byId = new PreparedQuery((value) => selectCredentials(read).where('id', '=', value.id));
    this.#byAddress = new PreparedQuery((value) =>
      selectCredentials(read)
        .where('domain_id', '=', value.domainId)
        .where('local_part', '=', value.localPart),
    );
  }

  /** The credentials of an account, or undefined where it is gone. */
  async ofAccount(id: number): Promise<Credentials | undefined> {
    const row = await this.#byId.first(this.#queries, { id });
    return row && toCredentials(row);
  }

  /** The credentials of an address on a claim, or undefined. */
  async ofAddress(domainId: number, localPart: string): Promise<Credentials | undefined> {
    const row = await this.#byAddress.first(this.#queries, { domainId, localPart });
    return row && toCredentials(row);
  }
}
