/** `GET /v2/operator/overview`: what the service did in the last hours, for charts. */
import { Type } from 'typebox';
import { HOURS_MAX, type Traffic, type TrafficPoint } from '../../tenants/usage/usage.ts';
import { credentials, isoTime, type RouteGroup } from '../api/api.ts';

const HOURS_DEFAULT = 24;

const Count = (description: string) => Type.Integer({ description, examples: [12] });
const ByName = (description: string, example: Record<string, number>) =>
  Type.Record(Type.String(), Type.Integer(), { description, examples: [example] });
const Milliseconds = (description: string) =>
  Type.Optional(Type.Number({ description, examples: [42] }));

const stored = Count('Octets in all mailboxes, measured every five minutes.');
const queue = ByName('Deliveries that have not ended, by state.', { queued: 3, held: 0 });

const PointBody = Type.Object(
  {
    at: Type.String({ format: 'date-time', examples: ['2026-01-31T12:00:00.000Z'] }),
    received: Count('Messages that came in by SMTP or LMTP and were accepted.'),
    delivered: Count('Their recipients.'),
    refused: ByName('Recipients, messages and connections that were refused for good, by reason.', {
      account_not_found: 2,
    }),
    deferred: Count('Recipients, messages and connections that were deferred.'),
    deferrals: ByName('The same by reason.', { quota_exceeded: 1 }),
    sent: Count('Deliveries of mail that accounts sent.'),
    forwarded: Count('Messages that were forwarded.'),
    webhooks: Count('Webhooks that their receivers accepted.'),
    webhook_attempts: ByName('Attempts of webhooks by outcome.', { delivered: 5, temporary: 1 }),
    bounced: Count('Bounces that were sent.'),
    smtp_p95_ms: Milliseconds(
      '95 of 100 messages were stored within so many milliseconds, after they were read and checked.',
    ),
    http_p95_ms: Milliseconds('95 of 100 requests were answered within so many milliseconds.'),
    stored_bytes: Type.Optional(stored),
    queue: Type.Optional(queue),
  },
  { title: 'OverviewPoint', description: 'What all nodes counted in five minutes, or in an hour.' },
);

const OverviewBody = Type.Object({
  now: Type.Object({ stored_bytes: Type.Optional(stored), queue: Type.Optional(queue) }),
  series: Type.Array(PointBody, { description: 'The oldest first.' }),
});

/** The route of the overview. */
export function overviewRoutes(traffic: Pick<Traffic, 'read' | 'flush'>): RouteGroup {
  return (app) => {
    app.get(
      '/v2/operator/overview',
      {
        schema: {
          tags: ['Operator'],
          summary: 'Read what the service did',
          description:
            'In steps of five minutes; of an hour for more than 48 hours. Nodes add their counts once a minute; a node that is killed loses its last minute.',
          operationId: 'getOverview',
          security: credentials.operator,
          querystring: Type.Object({
            hours: Type.Optional(
              Type.Integer({
                minimum: 1,
                maximum: HOURS_MAX,
                description: 'The last so many hours; 24 when left out.',
                examples: [24],
              }),
            ),
          }),
          response: { 200: OverviewBody },
        },
      },
      async ({ query }) => {
        // Includes what just happened on this node.
        await traffic.flush();
        const series = (await traffic.read(query.hours ?? HOURS_DEFAULT)).map(writePoint);
        const { stored_bytes = 0, queue } = series.findLast((point) => point.queue) ?? {};
        return { now: queue ? { stored_bytes, queue } : {}, series };
      },
    );
  };
}

function writePoint({ at, amounts }: TrafficPoint): Type.Static<typeof PointBody> {
  const one = (name: string) => amounts[name] ?? 0;
  /** Those whose name begins with this word, by the rest of their names. */
  const all = (word: string) =>
    Object.fromEntries(
      Object.entries(amounts)
        .filter(([name]) => name.startsWith(`${word}:`))
        .map(([name, amount]) => [name.slice(word.length + 1), amount]),
    );
  const deferrals = all('deferred');
  const queue = all('queue');
  const smtp = percentile95(all('smtp_seconds'));
  const http = percentile95(all('http_seconds'));
  return {
    at: isoTime(at),
    received: one('received'),
    delivered: one('delivered'),
    refused: all('refused'),
    deferred: Object.values(deferrals).reduce((sum, amount) => sum + amount, 0),
    deferrals,
    sent: one('send:delivered'),
    forwarded: one('forward:delivered'),
    webhooks: one('webhook:delivered'),
    webhook_attempts: all('webhook'),
    bounced: one('bounce:delivered'),
    ...(smtp !== undefined && { smtp_p95_ms: smtp }),
    ...(http !== undefined && { http_p95_ms: http }),
    ...(amounts.stored_bytes !== undefined && { stored_bytes: amounts.stored_bytes }),
    ...(Object.keys(queue).length > 0 && { queue }),
  };
}

/**
 * The 95th percentile in milliseconds, as Prometheus computes it from a histogram: evenly spread within its bucket.
 *
 * @param buckets how many took at most so many seconds, by that limit; the last one is `+Inf`
 * @returns undefined where there were none
 */
function percentile95(buckets: Readonly<Record<string, number>>): number | undefined {
  const ordered = Object.entries(buckets)
    .map(([bound, count]) => ({ bound: bound === '+Inf' ? Infinity : Number(bound), count }))
    .sort((one, other) => one.bound - other.bound);
  const wanted = 0.95 * (ordered.at(-1)?.count ?? 0);
  if (wanted === 0) return undefined;
  let before = { bound: 0, count: 0 };
  for (const bucket of ordered) {
    if (bucket.count >= wanted) {
      if (bucket.bound === Infinity) return before.bound * 1000;
      const share = (wanted - before.count) / (bucket.count - before.count);
      return Math.round(1000 * (before.bound + share * (bucket.bound - before.bound)));
    }
    before = bucket;
  }
  return undefined;
}
