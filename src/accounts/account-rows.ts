/** Accounts as they lie in storage. */
import {
  type Database,
  PreparedQuery,
  type Queries,
  type Row,
  RowCache,
} from '../database/database.ts';

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

/** Accounts, each with the id of its user's oldest. */
export function selectAccounts(queries: Queries) {
  return queries
    .selectFrom('accounts')
    .select(['id', 'user_id', 'domain_name', 'local_part', 'display_name', 'status', 'created_at'])
    .select(({ selectFrom }) =>
      selectFrom('accounts as own')
        .select('own.id')
        .whereRef('own.user_id', '=', 'accounts.user_id')
        .orderBy('own.id')
        .limit(1)
        .as('default_id'),
    );
}

type AccountRow = Awaited<ReturnType<ReturnType<typeof selectAccounts>['executeTakeFirstOrThrow']>>;

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
    ]);
}

type CredentialsRow = Awaited<
  ReturnType<ReturnType<typeof selectCredentials>['executeTakeFirstOrThrow']>
>;

function toCredentials({ local_part, domain_name, ...row }: CredentialsRow): Credentials {
  return { ...row, address: `${local_part}@${domain_name}` };
}

/** About 500 bytes each: 5 MB. */
const CREDENTIALS_KEPT = 10_000;

/**
 * Reads credentials. Its queries are compiled once: every call with a token asks one of them, and
 * building a query takes ten times as long as running it.
 */
export class CredentialsReader {
  readonly #queries: Queries;
  readonly #byId: PreparedQuery<CredentialsRow>;
  readonly #byAddress: PreparedQuery<CredentialsRow>;
  readonly #kept: RowCache<number, Credentials>;

  constructor(database: Database) {
    const queries = database.read;
    this.#queries = queries;
    this.#kept = new RowCache(database, ['accounts'], { max: CREDENTIALS_KEPT });
    this.#byId = new PreparedQuery(selectCredentials(queries).where('id', '=', 0));
    this.#byAddress = new PreparedQuery(
      selectCredentials(queries).where('domain_id', '=', 0).where('local_part', '=', ''),
    );
  }

  /** The credentials of an account, or undefined where it is gone. */
  ofAccount(accountId: number): Promise<Credentials | undefined> {
    return this.#kept.get(accountId, () => this.#first(this.#byId, [accountId]));
  }

  /** The credentials of an address on a claim, or undefined. */
  ofAddress(domainId: number, localPart: string): Promise<Credentials | undefined> {
    return this.#first(this.#byAddress, [domainId, localPart]);
  }

  async #first(
    query: PreparedQuery<CredentialsRow>,
    parameters: readonly unknown[],
  ): Promise<Credentials | undefined> {
    const row = await query.first(this.#queries, parameters);
    return row && toCredentials(row);
  }
}
