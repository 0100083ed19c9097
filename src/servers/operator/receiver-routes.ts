/** The queue by receiver: what waits for each, since when and why; and what a part of the queue consists of. */
import { Type } from 'typebox';
import {
  listReceivers,
  type QueueReceiver,
  type QueueSummary,
  summarize,
} from '../../mail/queue/queue.ts';
import { findClaimNames } from '../../tenants/domains/domains.ts';
import { type Api, Instant, Integer, present, Text, writerOf } from '../api/api.ts';
import { answerUntil, isKey, listEcho, listFields, readPage } from './lists.ts';
import { deliveryFields, filterOf } from './queue-filters.ts';
import type { OrderParts } from './queue-orders.ts';

const count = (description: string) => Type.Integer({ description, examples: [3] });

const Counts = Type.Object({
  queued: count('Wait for their next attempt.'),
  held: count('Are held.'),
  failed: count('Failed; 0 unless `status` asks for them.'),
});

const Reason = Text(
  'Of the last failed attempt, without the addresses, ids and waiting times in it, so that many deliveries have the same.',
  '451 4.7.1 Greylisted, try again in … seconds',
);

const line = {
  counts: Counts,
  oldest_at: Type.Optional(Instant()),
  next_attempt_at: Type.Optional(Instant()),
};

const ReceiverBody = Type.Object(
  {
    destination: Type.String({ examples: ['https://receiver.example'] }),
    kinds: Type.Array(Type.String(), { examples: [['webhook']] }),
    ...line,
    overdue_seconds: Type.Optional(Integer('How long the next one has been due.', 12)),
    failed_at: Type.Optional(Instant()),
    reason: Type.Optional(Reason),
    reason_count: Type.Optional(count('How many have this reason, which is the most frequent.')),
    domains: Type.Array(Type.String(), {
      description: 'Those with most of it first, at most 20.',
      examples: [['acme.test']],
    }),
    domain_count: count('How many there are.'),
    last_success_at: Type.Optional(Instant('Of a delivery to it in the last 30 days.')),
  },
  { title: 'QueueReceiver', description: 'What waits for one receiver, or failed at it.' },
);

const SummaryBody = Type.Object(
  {
    ...line,
    untried: count('Were not tried yet.'),
    reasons: Type.Array(Type.Object({ reason: Reason, ...line })),
    domains: Type.Array(Type.Object({ domain: Type.String({ examples: ['acme.test'] }), ...line })),
    senders: Type.Array(
      Type.Object({
        sender: Type.Optional(
          Text('Empty for bounces; absent for deliveries from before 0.4.0.', 'ada@acme.test'),
        ),
        ...line,
      }),
    ),
  },
  { title: 'QueueSummary', description: 'The 20 most frequent of each part.' },
);

const DOMAINS_NAMED = 20;

const writeLine = writerOf(Type.Object(line));
const write = writerOf(ReceiverBody);

function writeReceiver(receiver: QueueReceiver, names: ReadonlyMap<number, string>, now: number) {
  const { nextAttemptAt: due, reason, domainIds } = receiver;
  return write({
    ...receiver,
    overdueSeconds: due === undefined ? undefined : Math.max(Math.floor((now - due) / 1_000), 0),
    reason: reason?.text,
    reasonCount: reason?.count,
    domains: [...new Set(domainIds.slice(0, DOMAINS_NAMED).map((id) => names.get(id) ?? ''))],
    domainCount: domainIds.length,
  });
}

function writeSummary(
  { untried, reasons, domains, senders, ...whole }: QueueSummary,
  names: ReadonlyMap<number, string>,
): Type.Static<typeof SummaryBody> {
  return {
    ...writeLine(whole),
    untried,
    reasons: reasons.map((one) => ({ reason: one.text, ...writeLine(one) })),
    domains: domains.map((one) => ({
      domain: names.get(one.domainId) ?? '',
      ...writeLine(one),
    })),
    senders: senders.map((one) => ({ ...present({ sender: one.mailFrom }), ...writeLine(one) })),
  };
}

export function receiverRoutes(app: Api, { database, now }: OrderParts): void {
  app.get('/v2/operator/queue/receivers', {
    config: { refusals: ['account_not_found'] },
    schema: {
      summary: 'List receivers with what waits for them',
      description:
        'A row for each receiver with what is queued or held for it, the oldest first: since when, why, and what comes next. With ' +
        '`status: failed` those at which deliveries failed in the last 30 days, by the time of the last failure.',
      operationId: 'listQueueReceivers',
      querystring: Type.Object({ ...deliveryFields, ...listFields }),
      response: {
        200: Type.Object({
          items: Type.Array(ReceiverBody),
          ...listEcho,
          total: Type.Optional(count('Receivers in all; absent on a page behind the last one.')),
        }),
      },
    },
    handler: async ({ query }) => {
      const { limit, after } = readPage(query, isKey('text', 'integer'));
      const filter = await filterOf(database.read, query, now());
      const [destination = '', rank = 0] = after ?? [];
      const page = { after: after && { destination, rank }, limit };
      const { receivers, next, total } = await listReceivers(database, filter, page);
      const ids = receivers.flatMap(({ domainIds }) => domainIds.slice(0, DOMAINS_NAMED));
      const names = await findClaimNames(database.read, ids);
      const items = receivers.map((receiver) => writeReceiver(receiver, names, now()));
      const key = next && [next.destination, next.rank];
      return { ...answerUntil(items, limit, key), ...present({ total }) };
    },
  });
  app.get('/v2/operator/queue/summary', {
    config: { refusals: ['account_not_found'] },
    schema: {
      summary: 'Count a part of the queue',
      description:
        'Counts what fits the filters by reason, domain and sender; without `status` what is queued or held.',
      operationId: 'summarizeQueue',
      querystring: Type.Object(deliveryFields),
      response: { 200: SummaryBody },
    },
    handler: async ({ query }) => {
      const summary = await summarize(database, await filterOf(database.read, query, now()));
      const ids = summary.domains.map(({ domainId }) => domainId);
      return writeSummary(summary, await findClaimNames(database.read, ids));
    },
  });
}
