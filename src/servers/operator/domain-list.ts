/** `GET /v2/operator/domains`: the domains of all users. */
import { Type } from 'typebox';
import {
  type ClaimOrder,
  type ClaimPosition,
  listAllClaims,
  type OperatedDomain,
} from '../../tenants/domains/domains.ts';
import { ForwardMode, OneOf, type RouteGroup, UserId } from '../api/api.ts';
import {
  addDomainDetails,
  type DomainRouteParts,
  OperatedDomainBody,
  writeDomains,
} from './domain-routes.ts';
import { answerPage, filterText, isKey, listEcho, listFields, readPage } from './lists.ts';

/** As a query writes it. */
const flag = (description: string) =>
  Type.Optional(Type.Enum(['true', 'false'], { type: 'string', description, examples: ['false'] }));

const ListQuery = Type.Object({
  status: Type.Optional(OneOf(['pending', 'active', 'suspended'], undefined, 'active')),
  user_id: Type.Optional(UserId),
  can_send: flag('Only domains that can send, or only those that cannot, pending ones too.'),
  can_receive: flag('Only domains that can receive, or only those that cannot.'),
  forward_mode: Type.Optional(ForwardMode),
  records_failed: Type.Optional(
    OneOf(['any', 'mx', 'spf', 'dmarc', 'dkim'], 'Only domains with this record `failed`.', 'dkim'),
  ),
  q: filterText('Beginning of the name; the list is then in the order of names.', 'acme', 255),
  sort: Type.Optional(
    OneOf(
      ['trouble'],
      'By name, after those in trouble: active ones that cannot send or have a failed record, and those that were active and lost their records. Suspended ones are not among these.',
    ),
  ),
  ...listFields,
});

/** The routes that read domains. */
export function domainRoutes(parts: DomainRouteParts): RouteGroup {
  return (app) => {
    app.get('/v2/operator/domains', {
      schema: {
        summary: 'List the domains of all users',
        description: 'The newest first; with `q` by name; with `sort` as it says.',
        operationId: 'listAllDomains',
        querystring: ListQuery,
        response: { 200: Type.Object({ items: Type.Array(OperatedDomainBody), ...listEcho }) },
      },
      handler: async ({ query }) => {
        const prefix = query.q?.toLowerCase();
        const order: ClaimOrder = query.sort ?? (prefix === undefined ? 'newest' : 'name');
        const page = readPage(query, isKey(...kinds[order]));
        const rows = await listAllClaims(parts.database, {
          status: query.status,
          userId: query.user_id,
          namePrefix: prefix,
          canSend: readFlag(query.can_send),
          canReceive: readFlag(query.can_receive),
          forwardMode: query.forward_mode,
          recordsFailed: query.records_failed,
          order,
          limit: page.limit + 1,
          after: positionOf(page.after),
        });
        const items = await writeDomains(parts, rows.slice(0, page.limit));
        return answerPage(rows, page, (row) => keyOf(row, order), items);
      },
    });
    addDomainDetails(app, parts);
  };
}

const readFlag = (text: 'true' | 'false' | undefined) =>
  text === undefined ? undefined : text === 'true';

/** Of each order: the values of its key. */
const kinds = {
  newest: ['integer'],
  name: ['text', 'integer'],
  trouble: ['flag', 'text', 'integer'],
} as const;

type PositionKey =
  | readonly [number]
  | readonly [string, number]
  | readonly [number, string, number];

function keyOf({ id, name, isTroubled }: OperatedDomain, order: ClaimOrder): PositionKey {
  if (order === 'trouble') return [isTroubled ? 1 : 0, name, id];
  return order === 'newest' ? [id] : [name, id];
}

function positionOf(key: PositionKey | undefined): ClaimPosition | undefined {
  if (key === undefined) return undefined;
  if (key.length === 1) return { id: key[0] };
  if (key.length === 2) return { name: key[0], id: key[1] };
  return { isTroubled: key[0] === 1, name: key[1], id: key[2] };
}
