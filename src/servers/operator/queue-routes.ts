/** The queue of all domains: what waits and what failed, counted and one by one, with the reason. */
import { Type } from 'typebox';
import {
  type BulkAction,
  type KnownDelivery,
  listGroups,
  listOpen,
  type QueueGroup,
} from '../../mail/queue/queue.ts';
import { findClaimNames } from '../../tenants/domains/domains.ts';
import {
  DeliveryKind,
  Instant,
  Integer,
  LastError,
  OneOf,
  type RouteGroup,
  replaced,
  Text,
  writerOf,
} from '../api/api.ts';
import { answerUntil, isKey, listEcho, listFields, readPage } from './lists.ts';
import {
  deliveryFields,
  filterFields,
  filterOf,
  State,
  Status,
  stateNames,
} from './queue-filters.ts';
import { type OrderParts, orderRoute, orders } from './queue-orders.ts';
import { receiverRoutes } from './receiver-routes.ts';

const count = (description: string) => Type.Integer({ description, examples: [3] });

const GroupBody = Type.Object(
  {
    destination: Type.String({ examples: ['https://receiver.example'] }),
    domain: Type.String({ examples: ['acme.test'] }),
    kind: DeliveryKind,
    counts: Type.Object(
      {
        queued: count('Deliveries that wait for their next attempt.'),
        held: count('Deliveries that are held.'),
        failed: count('Deliveries that failed in the last 30 days.'),
        pending: Type.Integer({ ...replaced('queued'), examples: [3] }),
      },
      { description: '10,000 stands for as many or more.' },
    ),
    oldest_due_at: Type.Optional(Instant()),
    overdue_seconds: Type.Optional(Integer('How long the next delivery has been due.', 12)),
    last_error: Type.Optional(LastError),
  },
  { title: 'QueueGroup', description: 'Deliveries of a domain to one receiver.' },
);

const OpenDeliveryBody = Type.Object(
  {
    id: Type.Integer({ examples: [7] }),
    webhook_id: Type.String({ examples: ['0b0c9e3e-6d0e-4c84-9d5b-5a3f6f4f2f0a'] }),
    mail_id: Type.Optional(
      Text('Id of the message, as in the trace.', '019c1a2b-3c4d-7e5f-8a9b-0c1d2e3f4a5b'),
    ),
    destination: Type.String({ examples: ['https://receiver.example'] }),
    url: Type.Optional(
      Text(
        'Where a webhook is posted, in full. Deliveries from before 0.4.0 do not have it.',
        'https://receiver.example/hooks/mail',
      ),
    ),
    domain: Type.String({ examples: ['acme.test'] }),
    kind: DeliveryKind,
    status: Status,
    held_by: Type.Optional(
      OneOf(
        ['operator', 'suspension'],
        'operator, or suspension of its domain; absent if it cannot be attempted',
      ),
    ),
    attempts: Type.Integer({ examples: [2] }),
    created_at: Instant(),
    next_attempt_at: Type.Optional(Instant()),
    sender: Type.Optional(Text('From whom the message is; empty for a bounce.', 'ada@acme.test')),
    recipient: Type.Optional(Type.String({ examples: ['ann@acme.test'] })),
    subject: Type.Optional(Type.String({ examples: ['Hello'] })),
    message_id: Type.Optional(Type.String({ examples: ['<1@sender.test>'] })),
    last_error: Type.Optional(LastError),
    state: State,
    due_at: Type.Optional(Type.String({ format: 'date-time', ...replaced('next_attempt_at') })),
  },
  { title: 'OpenDelivery', description: 'A delivery that waits, is held or failed.' },
);

const writeGroupOf = writerOf(GroupBody);

function writeGroup(group: QueueGroup, names: ReadonlyMap<number, string>, now: number) {
  const { domainId, counts, oldestDueAt: due } = group;
  return writeGroupOf({
    ...group,
    counts: { ...counts, pending: counts.queued },
    domain: names.get(domainId) ?? '',
    overdueSeconds: due === undefined ? undefined : Math.max(Math.floor((now - due) / 1_000), 0),
  });
}

const writeOpenDelivery = writerOf(OpenDeliveryBody);

function writeOpen(delivery: KnownDelivery, names: ReadonlyMap<number, string>) {
  // The list has none that was delivered.
  const status = delivery.status === 'delivered' ? 'failed' : delivery.status;
  return writeOpenDelivery({
    ...delivery,
    status,
    state: stateNames[status],
    webhookId: delivery.publicId,
    domain: names.get(delivery.domainId) ?? '',
    sender: delivery.mailFrom,
    dueAt: delivery.nextAttemptAt,
  });
}

/** The routes below `/v2/operator/queue`. */
export function queueRoutes(parts: OrderParts): RouteGroup {
  const { database, now } = parts;
  return (app) => {
    app.get('/v2/operator/queue', {
      schema: {
        summary: 'Count the deliveries that wait',
        description:
          'Counts the deliveries that wait, are held or failed, by receiver, domain and kind, in the order of their names.',
        operationId: 'listQueue',
        querystring: Type.Object({ ...filterFields, ...listFields }),
        response: { 200: Type.Object({ items: Type.Array(GroupBody), ...listEcho }) },
      },
      handler: async ({ query }) => {
        const { limit, after } = readPage(query, isKey('text', 'integer', 'text'));
        const [destination = '', domainId = 0, kind = ''] = after ?? [];
        const { states, ...filter } = await filterOf(database.read, query, now());
        const asked = { ...filter, state: states?.[0] };
        const { groups, next } = await listGroups(database, asked, {
          after: after && { destination, domainId, kind },
          limit,
        });
        const ids = groups.map((group) => group.domainId);
        const names = await findClaimNames(database.read, ids);
        const items = groups.map((group) => writeGroup(group, names, now()));
        return answerUntil(items, limit, next && [next.destination, next.domainId, next.kind]);
      },
    });
    app.get('/v2/operator/queue/deliveries', {
      config: { refusals: ['account_not_found'] },
      schema: {
        summary: 'List single deliveries that wait',
        description: 'The newest come first.',
        operationId: 'listQueueDeliveries',
        querystring: Type.Object({ ...deliveryFields, ...listFields }),
        response: { 200: Type.Object({ items: Type.Array(OpenDeliveryBody), ...listEcho }) },
      },
      handler: async ({ query }) => {
        const { limit, after: [before] = [] } = readPage(query, isKey('integer'));
        const filter = await filterOf(database.read, query, now());
        const { items: found, next } = await listOpen(database, filter, { before, limit });
        const ids = found.map((delivery) => delivery.domainId);
        const names = await findClaimNames(database.read, ids);
        const items = found.map((delivery) => writeOpen(delivery, names));
        return answerUntil(items, limit, next === undefined ? undefined : [next]);
      },
    });
    receiverRoutes(app, parts);
    for (const action of Object.keys(orders) as BulkAction[]) orderRoute(app, parts, action);
  };
}
