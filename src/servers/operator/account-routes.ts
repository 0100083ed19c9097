/** `GET /v2/operator/accounts`: the accounts of all users. */
import { Type } from 'typebox';
import { listAllAccounts, type OperatedAccount } from '../../tenants/accounts/accounts.ts';
import { findAnyClaim } from '../../tenants/domains/domains.ts';
import { DomainName, OneOf, type RouteGroup, UserId } from '../api/api.ts';
import { addAccountDetails } from './account-details.ts';
import { type AccountRouteParts, OperatedAccountBody, writeAccounts } from './account-items.ts';
import { MEASURES, measureOf, rankAccounts } from './account-order.ts';
import { answerPage, filterText, isKey, listEcho, listFields, readPage } from './lists.ts';

/** The orders of the list beside the usual one. */
const SORTS = ['address', ...MEASURES.flatMap((name) => [name, `-${name}`])];

const ListQuery = Type.Object({
  domain: Type.Optional(DomainName),
  user_id: Type.Optional(UserId),
  q: filterText(
    'Beginning of the address; without `sort` the list is in the order of addresses.',
    'ada@',
    255,
  ),
  sort: Type.Optional(
    OneOf(
      SORTS,
      'By address, or by a number, which `-` puts the largest of first; `quota_used` is the part of its quota that an account uses. A cursor belongs to one order.',
      '-sent_24h',
    ),
  ),
  ...listFields,
});

/** The routes that read accounts. */
export function operatorAccountRoutes(parts: AccountRouteParts): RouteGroup {
  const { database } = parts;
  return (app) => {
    app.get('/v2/operator/accounts', {
      config: { refusals: ['domain_not_found'] },
      schema: {
        summary: 'List the accounts of all users',
        description: 'The newest first; with `q` by address; with `sort` as it says.',
        operationId: 'listAllAccounts',
        querystring: ListQuery,
        response: { 200: Type.Object({ items: Type.Array(OperatedAccountBody), ...listEcho }) },
      },
      handler: async ({ query }) => {
        // Sorted by the numbers that are shown, also where an hour begins meanwhile.
        const at = parts.now();
        const prefix = query.q?.toLowerCase();
        const domain =
          query.domain === undefined
            ? undefined
            : await findAnyClaim(database.read, query.domain, query.user_id);
        const filter = { domainId: domain?.id, userId: query.user_id, addressPrefix: prefix };
        const ranked = measureOf(query.sort ?? '');
        if (ranked) {
          const page = readPage(query, isKey('number', 'integer'));
          const asked = { ...ranked, after: page.after, limit: page.limit + 1, at };
          const rows = await rankAccounts(parts, filter, asked);
          const shown = rows.slice(0, page.limit).map(({ account }) => account);
          const items = await writeAccounts(parts, shown, at);
          return answerPage(rows, page, ({ key }) => key, items);
        }
        const order = (query.sort ?? prefix) === undefined ? 'newest' : 'address';
        const kinds = { newest: ['integer'], address: ['text', 'integer'] } as const;
        const page = readPage(query, isKey(...kinds[order]));
        const rows = await listAllAccounts(database, {
          ...filter,
          order,
          limit: page.limit + 1,
          after: afterOf(page.after),
        });
        const items = await writeAccounts(parts, rows.slice(0, page.limit), at);
        const key = (row: OperatedAccount) =>
          order === 'newest' ? [row.id] : [row.address, row.id];
        return answerPage(rows, page, key, items);
      },
    });
    addAccountDetails(app, parts);
  };
}

/** The key of a cursor, in either order. */
function afterOf(key: readonly [number] | readonly [string, number] | undefined) {
  if (key === undefined) return undefined;
  return key.length === 1 ? { id: key[0] } : { address: key[0], id: key[1] };
}
