/** The queue of all domains: waiting deliveries with the reason, and the operator's actions. */
import { Type } from 'typebox';
import {
  type BulkAction,
  type OpenDelivery,
  type OpenKey,
  type OpenState,
  type Queue,
  type QueueFilter,
  type QueueGroup,
  senderOf,
} from '../../mail/queue/queue.ts';
import type { Database } from '../../platform/database/database.ts';
import { invalidField, Refusal } from '../../platform/errors/errors.ts';
import type { EpochMs, Step } from '../../platform/time/time.ts';
import { findAccountsAt } from '../../tenants/accounts/accounts.ts';
import { type Actor, recordProgress } from '../../tenants/audit/audit.ts';
import { findClaimIds, findClaimNames } from '../../tenants/domains/domains.ts';
import { credentials, isoTime, LastError, type RouteGroup, replaced } from '../api/api.ts';
import { actorOf } from './audit-routes.ts';
import { type ListKey, listEcho, listFields, nextCursor, readPage } from './lists.ts';

const Instant = Type.String({ format: 'date-time', examples: ['2026-01-31T12:00:00.000Z'] });

const Status = Type.Enum(['queued', 'held', 'failed'], {
  type: 'string',
  description:
    '`queued` waits for its next attempt; `held` waits until it is released or tried again; `failed` has ended.',
  examples: ['queued'],
});

/** The former name of a status, and its former word for `queued`. */
const State = Type.Enum(['pending', 'held', 'failed'], { type: 'string', ...replaced('status') });
type StateName = Type.Static<typeof State>;

const stateNames: Record<OpenState, StateName> = {
  queued: 'pending',
  held: 'held',
  failed: 'failed',
};
const states: Record<StateName, OpenState> = { pending: 'queued', held: 'held', failed: 'failed' };

const count = (description: string) => Type.Integer({ description, examples: [3] });

const GroupBody = Type.Object(
  {
    destination: Type.String({ examples: ['https://receiver.example'] }),
    domain: Type.String({ examples: ['acme.test'] }),
    kind: Type.String({ examples: ['webhook'] }),
    counts: Type.Object(
      {
        queued: count('Deliveries that wait for their next attempt.'),
        held: count('Deliveries that are held.'),
        failed: count('Deliveries that failed in the last 30 days.'),
        pending: Type.Integer({ ...replaced('queued'), examples: [3] }),
      },
      { description: '10,000 stands for as many or more.' },
    ),
    oldest_due_at: Type.Optional(Instant),
    overdue_seconds: Type.Optional(
      Type.Integer({ description: 'How long the next delivery has been due.', examples: [12] }),
    ),
    last_error: Type.Optional(LastError),
  },
  { title: 'QueueGroup', description: 'Deliveries of a domain to one receiver.' },
);

const OpenDeliveryBody = Type.Object(
  {
    id: Type.Integer({ examples: [7] }),
    webhook_id: Type.String({ examples: ['0b0c9e3e-6d0e-4c84-9d5b-5a3f6f4f2f0a'] }),
    mail_id: Type.Optional(
      Type.String({
        description: 'Id of the message, as in the trace.',
        examples: ['019c1a2b-3c4d-7e5f-8a9b-0c1d2e3f4a5b'],
      }),
    ),
    destination: Type.String({ examples: ['https://receiver.example'] }),
    domain: Type.String({ examples: ['acme.test'] }),
    kind: Type.String({ examples: ['webhook'] }),
    status: Status,
    held_by: Type.Optional(
      Type.Enum(['operator', 'suspension'], {
        type: 'string',
        description: 'operator, or suspension of its domain; absent if it cannot be attempted',
        examples: ['operator'],
      }),
    ),
    attempts: Type.Integer({ examples: [2] }),
    created_at: Instant,
    next_attempt_at: Type.Optional(Instant),
    recipient: Type.Optional(Type.String({ examples: ['ann@acme.test'] })),
    subject: Type.Optional(Type.String({ examples: ['Hello'] })),
    message_id: Type.Optional(Type.String({ examples: ['<1@sender.test>'] })),
    last_error: Type.Optional(LastError),
    state: State,
    due_at: Type.Optional(Type.String({ format: 'date-time', ...replaced('next_attempt_at') })),
  },
  { title: 'OpenDelivery', description: 'A delivery that waits, is held or failed.' },
);

const filterFields = {
  destination: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 1000,
      description: 'Origin of a webhook, domain of mail, or address of a mailbox.',
      examples: ['https://receiver.example'],
    }),
  ),
  domain: Type.Optional(Type.String({ minLength: 1, maxLength: 255, examples: ['acme.test'] })),
  kind: Type.Optional(
    Type.Enum(['webhook', 'forward', 'bounce', 'send', 'mailbox', 'copy'], {
      type: 'string',
      description: 'As in the list of deliveries of a domain.',
    }),
  ),
  status: Type.Optional(Status),
  state: Type.Optional(State),
};

/** Where single deliveries are meant. */
const deliveryFields = {
  ...filterFields,
  account: Type.Optional(
    Type.String({
      minLength: 1,
      maxLength: 320,
      description:
        'Address of an account: what it sends, and what waits for its mailbox on a mail server. Deliveries of before 0.4.0 do not have it.',
      examples: ['ada@acme.test'],
    }),
  ),
};

interface QueueParts {
  readonly database: Pick<Database, 'read'>;
  readonly queue: Pick<Queue, 'groups' | 'listOpen' | 'bulk'>;
  readonly now: () => EpochMs;
}

interface Asked {
  readonly destination?: string;
  readonly domain?: string;
  readonly kind?: string;
  readonly status?: OpenState;
  readonly state?: StateName;
  readonly account?: string;
}

function statusOf({ status, state }: Asked): OpenState | undefined {
  return status ?? (state && states[state]);
}

async function filterOf({ database }: QueueParts, asked: Asked): Promise<QueueFilter> {
  const { destination, domain, kind, account } = asked;
  const claims = domain === undefined ? undefined : await findClaimIds(database.read, domain);
  const filter = { destination, kind, state: statusOf(asked), domainIds: claims };
  if (account === undefined) return filter;
  const owners = await findAccountsAt(database.read, account);
  if (owners.length === 0) {
    throw new Refusal('account_not_found', `there is no account ${account}`);
  }
  const meant = owners.filter(({ domainId }) => claims?.includes(domainId) ?? true);
  return {
    ...filter,
    domainIds: meant.map(({ domainId }) => domainId),
    senders: meant.map(senderOf),
  };
}

function writeGroup(
  { destination, domainId, kind, counts, oldestDueAt, lastError }: QueueGroup,
  names: ReadonlyMap<number, string>,
  now: number,
): Type.Static<typeof GroupBody> {
  return {
    destination,
    kind,
    counts: { ...counts, pending: counts.queued },
    domain: names.get(domainId) ?? '',
    ...(oldestDueAt !== undefined && {
      oldest_due_at: isoTime(oldestDueAt),
      overdue_seconds: Math.max(Math.floor((now - oldestDueAt) / 1_000), 0),
    }),
    ...(lastError !== undefined && { last_error: lastError }),
  };
}

function writeOpen(
  delivery: OpenDelivery,
  names: ReadonlyMap<number, string>,
): Type.Static<typeof OpenDeliveryBody> {
  const { status, heldBy, mailId, nextAttemptAt, messageId, lastError } = delivery;
  const { id, destination, kind, attempts, createdAt, recipient, subject } = delivery;
  // The list has none that was delivered.
  const waiting = status === 'delivered' ? 'failed' : status;
  return {
    id,
    destination,
    kind,
    attempts,
    webhook_id: delivery.publicId,
    domain: names.get(delivery.domainId) ?? '',
    status: waiting,
    created_at: isoTime(createdAt),
    ...(mailId !== undefined && { mail_id: mailId }),
    ...(heldBy !== undefined && { held_by: heldBy }),
    ...(nextAttemptAt !== undefined && { next_attempt_at: isoTime(nextAttemptAt) }),
    ...(recipient !== undefined && { recipient }),
    ...(subject !== undefined && { subject }),
    ...(messageId !== undefined && { message_id: messageId }),
    ...(lastError !== undefined && { last_error: lastError }),
    state: stateNames[waiting],
    ...(nextAttemptAt !== undefined && { due_at: isoTime(nextAttemptAt) }),
  };
}

function isGroupKey(values: ListKey): values is readonly [string, number, string] {
  const [destination, domain, kind] = values;
  return (
    values.length === 3 &&
    typeof destination === 'string' &&
    Number.isSafeInteger(domain) &&
    typeof kind === 'string'
  );
}

function isOpenKey(
  values: ListKey,
): values is readonly [string, number, string, StateName, number] {
  const [destination, domain, kind, state, id] = values;
  return (
    values.length === 5 &&
    isGroupKey([destination ?? 0, domain ?? '', kind ?? 0]) &&
    typeof state === 'string' &&
    state in states &&
    Number.isSafeInteger(id)
  );
}

function toOpenKey(key: readonly [string, number, string, StateName, number] | undefined) {
  if (!key) return undefined;
  const [destination, domain_id, kind, state, id] = key;
  return { destination, domain_id, kind, status: states[state], id };
}

function writeOpenKey({ destination, domain_id, kind, status, id }: OpenKey): ListKey {
  return [destination, domain_id, kind, status === 'delivered' ? 'failed' : stateNames[status], id];
}

/** `GET /v2/operator/queue` and `GET /v2/operator/queue/deliveries`. */
export function queueRoutes(parts: QueueParts): RouteGroup {
  const { database, queue, now } = parts;
  return (app) => {
    app.get(
      '/v2/operator/queue',
      {
        schema: {
          tags: ['Operator'],
          summary: 'Count the deliveries that wait',
          description:
            'Counts the deliveries that wait, are held or failed, by receiver, domain and kind, in the order of their names. With filters a page may have fewer items than `limit` and still a cursor.',
          operationId: 'listQueue',
          security: credentials.operator,
          querystring: Type.Object({ ...filterFields, ...listFields }),
          response: { 200: Type.Object({ items: Type.Array(GroupBody), ...listEcho }) },
        },
      },
      async ({ query }) => {
        const { limit, after } = readPage(query, isGroupKey);
        const [destination = '', domainId = 0, kind = ''] = after ?? [];
        const { groups, next } = await queue.groups(await filterOf(parts, query), {
          after: after && { destination, domainId, kind },
          limit,
        });
        const ids = groups.map((group) => group.domainId);
        const names = await findClaimNames(database.read, ids);
        return {
          items: groups.map((group) => writeGroup(group, names, now())),
          limit,
          ...(next && { cursor: nextCursor([next.destination, next.domainId, next.kind]) }),
        };
      },
    );
    app.get(
      '/v2/operator/queue/deliveries',
      {
        config: { refusals: ['account_not_found'] },
        schema: {
          tags: ['Operator'],
          summary: 'List single deliveries that wait',
          description:
            'Those of a domain come newest first; without `domain` they come by receiver, each newest first. With filters a page ' +
            'may have fewer items than `limit` and still a cursor.',
          operationId: 'listQueueDeliveries',
          security: credentials.operator,
          querystring: Type.Object({ ...deliveryFields, ...listFields }),
          response: { 200: Type.Object({ items: Type.Array(OpenDeliveryBody), ...listEcho }) },
        },
      },
      async ({ query }) => {
        const { limit, after } = readPage(query, isOpenKey);
        const filter = await filterOf(parts, query);
        const { items, next } = await queue.listOpen(filter, { after: toOpenKey(after), limit });
        const ids = items.map((item) => item.domainId);
        const names = await findClaimNames(database.read, ids);
        return {
          items: items.map((item) => writeOpen(item, names)),
          limit,
          ...(next && { cursor: nextCursor(writeOpenKey(next)) }),
        };
      },
    );
    for (const action of Object.keys(summaries) as BulkAction[]) addBulkRoute(app, parts, action);
  };
}

const summaries: Record<BulkAction, readonly [summary: string, description: string]> = {
  retry: [
    'Try deliveries again',
    'Deliveries that wait or failed are tried again now, from the start of their schedule, with the same ' +
      '`webhook-id`; with `status: held` those that are held. The limits for one receiver hold as always: one at a time ' +
      'while it fails.',
  ],
  hold: [
    'Hold deliveries back',
    'Deliveries that wait are not attempted until they are released or tried again.',
  ],
  release: [
    'Release deliveries',
    'Held deliveries wait for their next attempt again, and are due when they were due before.',
  ],
  drop: [
    'Drop deliveries',
    'Deliveries that wait or are held end as failed. No bounce is sent, so the sender does not learn of it; an ' +
      'account sees `bounced` for what it sent itself. The trace and the audit log note it. A copy for a mailbox ' +
      '(`webhook_then_store`) is stored all the same. Each can be tried again as long as its message is kept ' +
      '(`DELIVERY_BODY_HOURS`).',
  ],
};

/**
 * Carries out one step of an order, with its entry in the audit log.
 *
 * @param target which deliveries are meant, for people
 */
export function orderBulk(
  { queue, now }: Pick<QueueParts, 'now'> & { readonly queue: Pick<Queue, 'bulk'> },
  by: Actor,
  order: Parameters<Queue['bulk']>[0],
  target: string,
): Promise<Step> {
  const about = { action: `queue.${order.action}`, target, at: now() };
  return queue.bulk(order, by.actor, (tx, done, noted) =>
    recordProgress(tx, by, { ...about, counts: { ...done } }, noted),
  );
}

/** The most deliveries that one call names. */
const IDS_MAX = 500;

function addBulkRoute(app: Parameters<RouteGroup>[0], parts: QueueParts, action: BulkAction): void {
  const { now } = parts;
  const [summary, description] = summaries[action];
  app.post(
    `/v2/operator/queue/${action}`,
    {
      config: { refusals: ['account_not_found'] },
      schema: {
        tags: ['Operator'],
        summary,
        description:
          `${description} At least one of \`destination\`, \`domain\`, \`account\`, \`kind\`, \`status\` and \`ids\` is given. ` +
          'Deliveries that are being attempted right now are not changed. After 5 seconds the answer has `more`: call again.',
        operationId: `${action}Queue`,
        security: credentials.operator,
        body: Type.Object({
          ...deliveryFields,
          ids: Type.Optional(
            Type.Array(Type.Integer({ minimum: 1 }), {
              minItems: 1,
              maxItems: IDS_MAX,
              examples: [[7]],
            }),
          ),
          older_than: Type.Optional(
            Type.Integer({
              minimum: 0,
              maximum: 31_536_000,
              description: 'Only those that were queued at least so many seconds ago.',
              examples: [3600],
            }),
          ),
          dry_run: Type.Optional(
            Type.Boolean({
              description: 'Only count the deliveries that match.',
              examples: [true],
            }),
          ),
        }),
        response: {
          200: Type.Object({
            matched: Type.Integer({ description: 'How many match.', examples: [120] }),
            changed: Type.Integer({ description: '0 in a dry run.', examples: [120] }),
            more: Type.Optional(
              Type.Boolean({ description: 'There may be more: call again.', examples: [true] }),
            ),
          }),
        },
      },
    },
    async (request) => {
      const { ids, older_than: age, dry_run: isDryRun = false, ...asked } = request.body;
      const { destination, domain, account, kind } = asked;
      if (
        [ids, destination, domain, account, kind, statusOf(asked)].every((one) => one === undefined)
      ) {
        throw invalidField('destination', 'or domain, account, kind, status or ids must be given');
      }
      const before = age === undefined ? undefined : now() - age * 1_000;
      const filter = { ...(await filterOf(parts, asked)), ids, before };
      const by = actorOf(request);
      const order = { action, filter, isDryRun, heldBy: 'operator' } as const;
      const target = JSON.stringify({ ...asked, ids, older_than: age });
      const { more, ...counts } = await orderBulk(parts, by, order, target);
      return { ...counts, ...(more && { more }) };
    },
  );
}
