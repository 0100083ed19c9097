/** What operators order for many deliveries at once. */
import { Type } from 'typebox';
import {
  type BulkAction,
  type BulkPosition,
  type BulkStep,
  OPEN_STATES,
  type OpenState,
  type Queue,
  type SkipReason,
  type Tally,
} from '../../mail/queue/queue.ts';
import type { ReadDatabase } from '../../platform/database/database.ts';
import { invalidField } from '../../platform/errors/errors.ts';
import type { EpochMs } from '../../platform/time/time.ts';
import { type Actor, recordProgress } from '../../tenants/audit/audit.ts';
import { findClaimNames } from '../../tenants/domains/domains.ts';
import { type Api, Flag, Integer, present, Text } from '../api/api.ts';
import { actorOf } from './audit-routes.ts';
import { isKey, type ListKey, nextCursor, readCursor } from './lists.ts';
import { deliveryFields, filterOf } from './queue-filters.ts';

export interface OrderParts {
  readonly database: ReadDatabase;
  readonly queue: Pick<Queue, 'bulk'>;
  readonly now: () => EpochMs;
}

export const orders: Record<BulkAction, readonly [summary: string, description: string]> = {
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
  { queue, now }: Pick<OrderParts, 'queue' | 'now'>,
  by: Actor,
  order: Parameters<Queue['bulk']>[0],
  target: string,
): Promise<BulkStep> {
  const about = { action: `queue.${order.action}`, target, at: now() };
  return queue.bulk(order, by.actor, (tx, done, noted) =>
    recordProgress(tx, by, { ...about, counts: { ...done } }, noted),
  );
}

/** The most deliveries that one call names. */
const IDS_MAX = 500;

/** A position, as answers name it. */
const NEXT_EXAMPLE = 'WzE3Njk4NjA4MDAwMDAsInF1ZXVlZCIsMSwxNzY5ODU3MjAwMDAwLDdd';

const OrderBody = Type.Object(
  {
    ...deliveryFields,
    ids: Type.Optional(
      Type.Array(Type.Integer({ minimum: 1 }), {
        minItems: 1,
        maxItems: IDS_MAX,
        examples: [[7]],
      }),
    ),
    limit: Type.Optional(
      Integer('The most that are changed: with 1, one is tried.', 1, {
        minimum: 1,
        maximum: 1_000_000,
      }),
    ),
    next: Type.Optional(
      Text('`next` of the answer before, unchanged, with the same filters.', NEXT_EXAMPLE, {
        maxLength: 2048,
      }),
    ),
    dry_run: Type.Optional(
      Flag('Only count the deliveries that match, by status, domain and reason.'),
    ),
  },
  // A misspelt filter must not leave an order for everything.
  { additionalProperties: false },
);

const skipped: Readonly<Record<SkipReason, string>> = {
  under_way: 'An attempt is under way.',
  changed_since: 'They changed after the order was given.',
  due: 'They are due and tried anyway, or wait for the time that their sender set.',
  not_kept: 'Their message is not kept any more (`DELIVERY_BODY_HOURS`).',
  held_otherwise: 'The suspension of their domain holds them, which only its end releases.',
};

const Count = Type.Integer({ examples: [12] });

const StepBody = Type.Object({
  matched: Integer('How many match.', 120),
  changed: Integer('0 in a dry run.', 120),
  more: Type.Optional(Flag('There may be more: call again with `next`.')),
  next: Type.Optional(
    Text('Where the next call continues. The numbers of each call are its own.', NEXT_EXAMPLE),
  ),
  skipped: Type.Optional(
    Type.Object(
      Object.fromEntries(
        Object.entries(skipped).map(([why, description]) => [
          why,
          Type.Optional(Type.Integer({ description, examples: [2] })),
        ]),
      ),
      { description: 'How many fit the filters and stay as they are, by the reason.' },
    ),
  ),
  parts: Type.Optional(
    Type.Object(
      {
        statuses: Type.Array(Type.Object({ status: Type.String(), count: Count })),
        domains: Type.Array(Type.Object({ domain: Type.String(), count: Count })),
        reasons: Type.Array(
          Type.Object({
            reason: Type.Optional(
              Text('Absent: they were not tried yet.', '503 Service Unavailable'),
            ),
            count: Count,
          }),
        ),
      },
      { description: 'What matches, in a dry run: the 20 most frequent of each.' },
    ),
  ),
});

/** As a client gets it. */
export type OrderStep = Type.Static<typeof StepBody>;

const isPosition = isKey('integer', 'text', 'integer', 'integer', 'integer');

/** When an order was given, and where it continues: state, claim (0 for all), time and id. */
function isOrderKey(
  values: ListKey,
): values is readonly [number, OpenState, number, number, number] {
  return isPosition(values) && values[0] >= 0 && OPEN_STATES.some((one) => one === values[1]);
}

function readPosition(next: string | undefined) {
  if (next === undefined) return {};
  const [now, state, domain, at, id] = readCursor(next, isOrderKey, 'next');
  return { now, after: { state, domainId: domain || undefined, at, id } };
}

function writePosition({ now, after }: BulkPosition): string | undefined {
  return after && nextCursor([now, after.state, after.domainId ?? 0, after.at, after.id]);
}

export function orderRoute(app: Api, parts: OrderParts, action: BulkAction): void {
  const { database, now } = parts;
  const [summary, description] = orders[action];
  app.post(`/v2/operator/queue/${action}`, {
    config: { refusals: ['account_not_found'] },
    schema: {
      summary,
      description: `${description} At least one filter is given, or \`ids\`. Deliveries that are being attempted right now are not changed. After 5 seconds the answer has \`more\`: call again with \`next\`.`,
      operationId: `${action}Queue`,
      body: OrderBody,
      response: { 200: StepBody },
    },
    handler: async (request) => {
      const { ids, dry_run: isDryRun = false, next, limit, ...asked } = request.body;
      if (
        ids === undefined &&
        Object.keys(asked).every((name) => !Object.hasOwn(deliveryFields, name))
      ) {
        throw invalidField('destination', 'or another filter must be given, or ids');
      }
      const position = readPosition(next);
      const filter = { ...(await filterOf(database.read, asked, position.now ?? now())), ids };
      const order = { action, filter, isDryRun, limit, heldBy: 'operator', ...position } as const;
      const target = JSON.stringify({ ...asked, ids });
      return writeStep(parts, await orderBulk(parts, actorOf(request), order, target));
    },
  });
}

async function writeStep(
  { database }: OrderParts,
  { matched, changed, more, next, skipped, parts }: BulkStep,
): Promise<OrderStep> {
  return {
    matched,
    changed,
    ...(more && { more }),
    ...present({ next: next && writePosition(next) }),
    ...(Object.keys(skipped).length > 0 && { skipped }),
    ...(parts && { parts: await writeParts(database, parts) }),
  };
}

async function writeParts(
  { read }: OrderParts['database'],
  { states, domainIds, reasons }: NonNullable<BulkStep['parts']>,
) {
  const names = await findClaimNames(
    read,
    domainIds.map(({ value }) => value),
  );
  return {
    statuses: states.map(({ value, count }) => ({ status: value, count })),
    domains: sumByName(domainIds, names),
    reasons: reasons.map(({ value, count }) => ({ ...present({ reason: value }), count })),
  };
}

/** Several claims may have one name. */
function sumByName(tally: Tally<number>, names: ReadonlyMap<number, string>) {
  const counts = new Map<string, number>();
  for (const { value, count } of tally) {
    const name = names.get(value) ?? '';
    counts.set(name, (counts.get(name) ?? 0) + count);
  }
  return [...counts].map(([domain, count]) => ({ domain, count }));
}
