/** `GET /v2/operator/overview`: what the service did in the last hours, for charts. */
import { type Static, Type } from 'typebox';
import type { EpochMs } from '../../platform/time/time.ts';
import { HOURS_MAX, type Traffic, type TrafficPoint } from '../../tenants/usage/usage.ts';
import { Instant, Integer, isoTime, present, type RouteGroup } from '../api/api.ts';
import type { Metrics } from '../metrics/metrics.ts';

const HOURS_DEFAULT = 24;

const Count = (description: string) => Type.Integer({ description, examples: [12] });
const ByName = (description: string, example: Record<string, number>) =>
  Type.Record(Type.String(), Type.Integer(), { description, examples: [example] });
const Milliseconds = (description: string) =>
  Type.Optional(Type.Number({ description, examples: [42] }));

const stored = Count('Bytes in all mailboxes, measured every five minutes.');
const queue = ByName('Deliveries that have not ended, by state.', { queued: 3, held: 0 });

const PointBody = Type.Object(
  {
    at: Instant(),
    received: Count('Messages that came in by SMTP or LMTP and were accepted.'),
    delivered: Count('Their recipients.'),
    refused: ByName('Recipients, messages and connections that were refused for good, by reason.', {
      account_not_found: 2,
    }),
    deferred: Count('Recipients, messages and connections that were deferred.'),
    deferrals: ByName('The same by reason.', { quota_exceeded: 1 }),
    sent: Count(
      'Deliveries of mail that accounts sent, which their receivers took; `sent_24h` of an account counts what it gave.',
    ),
    forwarded: Count('Messages that were forwarded.'),
    webhooks: Count('Webhooks that their receivers accepted.'),
    webhook_attempts: ByName('Attempts of webhooks by outcome.', { delivered: 5, temporary: 1 }),
    bounced: Count('Deliveries of sent and forwarded mail that were given up.'),
    bounces_sent: Count('Bounces that other servers took for it.'),
    smtp_p95_ms: Milliseconds(
      '95 of 100 messages were stored within so many milliseconds, after they were read and checked.',
    ),
    http_p95_ms: Milliseconds('95 of 100 requests were answered within so many milliseconds.'),
    stored_bytes: Type.Optional(stored),
    queue: Type.Optional(queue),
  },
  { title: 'OverviewPoint', description: 'What all nodes counted in five minutes, or in an hour.' },
);

const BeforeBody = Type.Object(
  {
    received: Count('As in a point.'),
    refused: Count('For all reasons.'),
    deferred: Count('For all reasons.'),
    sent: Count('As in a point.'),
    bounced: Count('As in a point.'),
  },
  { description: 'The same number of hours before; absent where not all of them are kept.' },
);

const OverviewBody = Type.Object({
  now: Type.Object({
    stored_bytes: Type.Optional(stored),
    queue: Type.Optional(
      ByName('Deliveries that have not ended, by state, counted now or some seconds ago.', {
        queued: 3,
        held: 0,
      }),
    ),
    oldest_seconds: Type.Optional(Count('Age of the oldest one that is queued.')),
  }),
  before: Type.Optional(BeforeBody),
  series: Type.Array(PointBody, { description: 'The oldest first.' }),
});

interface OverviewParts {
  readonly traffic: Pick<Traffic, 'read' | 'readBefore' | 'flush'>;
  readonly metrics: Pick<Metrics, 'readGauge'>;
  /** The same on all nodes. */
  readonly now: () => EpochMs;
}

/** The route of the overview. */
export function overviewRoutes(parts: OverviewParts): RouteGroup {
  return (app) => {
    app.get('/v2/operator/overview', {
      schema: {
        summary: 'Read what the service did',
        description:
          'In steps of five minutes; of an hour for more than 48 hours. Nodes add their counts once a minute; a node that is killed loses its last minute.',
        operationId: 'getOverview',
        querystring: Type.Object({
          hours: Type.Optional(
            Integer('The last so many hours; 24 when left out.', 24, {
              minimum: 1,
              maximum: HOURS_MAX,
            }),
          ),
        }),
        response: { 200: OverviewBody },
      },
      handler: async ({ query }) => {
        const { traffic, metrics, now } = parts;
        // Includes what just happened on this node.
        await traffic.flush();
        const hours = query.hours ?? HOURS_DEFAULT;
        // One instant for both: else five minutes that begin between them would be in neither, or in both.
        const at = now();
        const [points, before, current] = await Promise.all([
          traffic.read(hours, at),
          traffic.readBefore(hours, at),
          readNow(metrics),
        ]);
        const series = points.map(writePoint);
        const { stored_bytes } = series.findLast((point) => point.queue) ?? {};
        return {
          now: { ...current, ...present({ stored_bytes }) },
          ...(before && { before: writeBefore(before) }),
          series,
        };
      },
    });
  };
}

/** What waits, by the gauges of this node, which count for all; nothing where they cannot be read now. */
async function readNow(metrics: OverviewParts['metrics']) {
  const read = (name: string) => metrics.readGauge(name).catch(() => undefined);
  const depths = await read('postroom_queue_depth');
  const ages = await read('postroom_queue_oldest_age_seconds');
  if (!depths || !ages) return {};
  const countOf = (state: string) =>
    depths.reduce((sum, { labels, value }) => sum + (labels.state === state ? value : 0), 0);
  const oldest = Math.max(0, ...ages.map(({ value }) => value));
  return {
    queue: { queued: countOf('queued'), held: countOf('held') },
    ...(ages.length > 0 && { oldest_seconds: Math.round(oldest) }),
  };
}

const sum = (amounts: Readonly<Record<string, number>>) =>
  Object.values(amounts).reduce((total, amount) => total + amount, 0);

function writeBefore(amounts: Readonly<Record<string, number>>): Static<typeof BeforeBody> {
  const { received, refused, deferred, sent, bounced } = writePoint({ at: 0, amounts });
  return { received, refused: sum(refused), deferred, sent, bounced };
}

function writePoint({ at, amounts }: TrafficPoint): Static<typeof PointBody> {
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
  return {
    at: isoTime(at),
    received: one('received'),
    delivered: one('delivered'),
    refused: all('refused'),
    deferred: sum(deferrals),
    deferrals,
    sent: one('send:delivered'),
    forwarded: one('forward:delivered'),
    webhooks: one('webhook:delivered'),
    webhook_attempts: all('webhook'),
    bounced: one('send:failed') + one('forward:failed'),
    bounces_sent: one('bounce:delivered'),
    ...present({
      smtp_p95_ms: percentile95(all('smtp_seconds')),
      http_p95_ms: percentile95(all('http_seconds')),
      stored_bytes: amounts.stored_bytes,
    }),
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
