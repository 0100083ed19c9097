/** `GET /v2/operator/accounts`: the accounts of all users. */
import { Type } from 'typebox';
import { type MailTotals, totalsOfAccounts } from '../../mailboxes/mailstore/mailstore.ts';
import type { Database } from '../../platform/database/database.ts';
import { invalidField } from '../../platform/errors/errors.ts';
import { listAllAccounts, type OperatedAccount } from '../../tenants/accounts/accounts.ts';
import { findAnyClaim } from '../../tenants/domains/domains.ts';
import {
  AccountBody,
  credentials,
  DomainName,
  isoTime,
  RecordId,
  type RouteGroup,
  replaced,
  UserId,
  writeAccount,
} from '../api/api.ts';
import { afterOf } from './domain-routes.ts';
import {
  answerPage,
  isIdKey,
  isTextKey,
  type ListPage,
  listEcho,
  listFields,
  readPage,
} from './lists.ts';

export const OperatedAccountBody = Type.Object(
  {
    ...AccountBody.properties,
    messages: Type.Optional(
      Type.Integer({
        description: 'In its mailboxes. Left out where a mail server has them.',
        examples: [340],
      }),
    ),
    bytes: Type.Optional(
      Type.Integer({ description: 'Of these messages, in octets.', examples: [7340032] }),
    ),
    quota_bytes: Type.Integer({
      description:
        'Octets that its mailboxes may hold: its own quota or the default; 0 for no limit.',
      examples: [1073741824],
    }),
    last_login_at: Type.Optional(
      Type.String({
        format: 'date-time',
        description:
          'The last login with its password, accurate to a day. Absent if there was none in half a year.',
      }),
    ),
    account_id: Type.Integer({ ...replaced('id'), examples: [1] }),
    email: Type.String({ ...replaced('address'), examples: ['ada@acme.test'] }),
    suspended: Type.Boolean(replaced('status')),
  },
  { title: 'OperatedAccount', description: 'An account of any user, as operators see it.' },
);

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

export interface AccountRouteParts {
  readonly database: Database;
  /** Whether the mailboxes are in our own database, where they can be counted. */
  readonly countsMail: boolean;
  /** Quota of accounts without one of their own, in octets; 0 for no limit. */
  readonly quotaBytes: number;
}

/** The items for accounts, with their contents. */
export async function writeAccounts(
  { database, countsMail, quotaBytes }: AccountRouteParts,
  accounts: readonly OperatedAccount[],
): Promise<Type.Static<typeof OperatedAccountBody>[]> {
  const none: MailTotals = { messages: 0, bytes: 0 };
  const ids = countsMail ? accounts.map(({ id }) => id) : [];
  const totals = await totalsOfAccounts(database.read, ids);
  return accounts.map((account) => ({
    ...writeAccount(account),
    ...(countsMail && (totals.get(account.id) ?? none)),
    quota_bytes: account.quotaBytes ?? quotaBytes,
    ...(account.lastLoginAt !== undefined && { last_login_at: isoTime(account.lastLoginAt) }),
    account_id: account.id,
    email: account.address,
    suspended: account.status === 'suspended',
  }));
}

/** The route that lists accounts. */
export function operatorAccountRoutes(parts: AccountRouteParts): RouteGroup {
  const { database } = parts;
  return (app) => {
    app.get(
      '/v2/operator/accounts',
      {
        config: { refusals: ['domain_not_found'] },
        schema: {
          tags: ['Operator'],
          summary: 'List the accounts of all users',
          description: 'The newest first; with `q` by address.',
          operationId: 'listAllAccounts',
          security: credentials.operator,
          querystring: Type.Object({
            domain: Type.Optional(DomainName),
            user_id: Type.Optional(UserId),
            q: Type.Optional(
              Type.String({
                minLength: 1,
                maxLength: 255,
                description:
                  'Beginning of the address; the list is then in the order of addresses.',
                examples: ['ada@'],
              }),
            ),
            ...listFields,
          }),
          response: { 200: Type.Object({ items: Type.Array(OperatedAccountBody), ...listEcho }) },
        },
      },
      async ({ query }) => {
        const prefix = query.q?.toLowerCase();
        const page: ListPage<readonly [number] | readonly [string, number]> =
          prefix === undefined ? readPage(query, isIdKey) : readPage(query, isTextKey);
        const domain =
          query.domain === undefined
            ? undefined
            : await findAnyClaim(database.read, query.domain, query.user_id);
        const { id, name } = afterOf(page.after) ?? {};
        const rows = await listAllAccounts(database, {
          domainId: domain?.id,
          userId: query.user_id,
          addressPrefix: prefix,
          limit: page.limit + 1,
          after: id === undefined ? undefined : { id, address: name },
        });
        const items = await writeAccounts(parts, rows.slice(0, page.limit));
        const key = (row: OperatedAccount) =>
          prefix === undefined ? [row.id] : [row.address, row.id];
        return { ...answerPage(rows, page, key, ({ id }) => id), items };
      },
    );
  };
}
