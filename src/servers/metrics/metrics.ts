/**
 * Prometheus metrics at `GET /metrics`, on a port of their own that only this machine can reach. Stores nothing:
 * counters start at 0 with the process.
 */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import {
  collectDefaultMetrics,
  type MetricObjectWithValues,
  type MetricValue,
  type Registry,
} from 'prom-client';
import type { AttemptReport } from '../../mail/queue/queue.ts';
import { addImapMetrics } from './imap-metrics.ts';
import { createInstruments, type Instruments } from './instruments.ts';
import { addMailMetrics } from './mail-metrics.ts';
import { addRequestMetrics } from './request-metrics.ts';
import { addStateMetrics, type MetricSources, type SharedSource } from './state-metrics.ts';

export type { CommitReport, MetricSources } from './state-metrics.ts';

export interface GaugeValue {
  readonly labels: Readonly<Record<string, string | number | undefined>>;
  readonly value: number;
}

export type Metrics = ReturnType<typeof createMetrics>;

export function createMetrics() {
  let sources: MetricSources = {
    connections: () => 0,
    queueDepths: async () => [],
    now: Date.now,
  };
  const instruments = createInstruments();
  const { registry, unread } = instruments;
  collectDefaultMetrics({ register: registry });
  addSharedMetrics(instruments, () => sources.shared);
  return {
    /** Reads these sources from now on; before that there are no metrics. */
    watch(watched: MetricSources) {
      sources = watched;
    },
    ...addImapMetrics(instruments),
    ...addMailMetrics(instruments),
    ...addRequestMetrics(instruments),
    ...addStateMetrics(instruments, () => sources),
    ...addAttemptMetrics(instruments),
    /** The counts since the start, by the names of the operator's charts. */
    totals: () => readTotals(registry),
    /** The values that a gauge has now; none where it has none. @throws where they could not be read */
    async readGauge(name: string): Promise<readonly GaugeValue[]> {
      const values = await readValues(registry, name);
      if (unread.has(name)) throw new Error(`${name} could not be read`);
      return values;
    },
    /** The text that Prometheus reads. */
    text: () => registry.metrics(),
  };
}

/** On a single node they have no value. */
function addSharedMetrics(
  { read, amounts }: Instruments,
  shared: () => SharedSource | undefined,
): void {
  read(
    'postroom_redis_up',
    'Whether Redis answers: 1, or 0 where this node counts alone.',
    async () => {
      const isUp = shared()?.isUp();
      return isUp === undefined ? undefined : Number(isUp);
    },
  );
  amounts(
    'postroom_shared_changes_total',
    'Changes between nodes: sent, received, or refused because they were none.',
    'result',
    () => shared()?.counts ?? {},
  );
}

function addAttemptMetrics({ counter, histogram }: Instruments) {
  const attempts = counter(
    'postroom_delivery_attempts_total',
    'Attempts to deliver, by kind and outcome.',
    ['kind', 'result'],
  );
  const latency = histogram(
    'postroom_delivery_latency_seconds',
    'From queueing to delivery.',
    [0.01, 0.05, 0.1, 0.5, 1, 5, 30, 300, 3600, 86_400],
    ['kind'],
  );
  const failed = counter(
    'postroom_deliveries_failed_total',
    'Deliveries that were given up, by kind.',
    ['kind'],
  );
  return {
    countAttempt({ kind, outcome, status, ageMs }: AttemptReport) {
      attempts.inc({ kind, result: outcome.result });
      if (status === 'failed') failed.inc({ kind });
      if (outcome.result === 'delivered') latency.observe({ kind }, ageMs / 1000);
    },
  };
}

/** Where the metrics can be read, and how to end that. */
export interface MetricsListener {
  readonly port: number;
  close(): Promise<void>;
}

/**
 * Serves the metrics to every client that reaches the address.
 *
 * @throws the error of the socket, e.g. with `code: 'EADDRINUSE'`
 */
export async function serveMetrics(
  metrics: Metrics,
  host: string,
  port: number,
): Promise<MetricsListener> {
  const server = createServer((request, response) => {
    if (request.url !== '/metrics' || request.method !== 'GET') {
      response.writeHead(404).end();
      return;
    }
    metrics.text().then(
      (text) => response.writeHead(200, { 'content-type': 'text/plain; version=0.0.4' }).end(text),
      () => response.writeHead(500).end(),
    );
  });
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, host, resolve);
  });
  // A TCP server that listens has an address of this form.
  const bound = server.address() as AddressInfo;
  return {
    port: bound.port,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/* The counters as the operators' charts use them: by short names, summed over all labels but one. */

type Value = MetricValue<string> & { readonly metricName?: string };

/** By metric: the name under which one of its values counts; undefined where it does not. */
const names: Readonly<Record<string, (value: Value) => string | undefined>> = {
  postroom_receive_duration_seconds: ({ metricName, labels }) => {
    if (metricName?.endsWith('_count')) return 'received';
    return metricName?.endsWith('_bucket') ? `smtp_seconds:${labels.le}` : undefined;
  },
  postroom_http_request_duration_seconds: ({ metricName, labels }) =>
    metricName?.endsWith('_bucket') ? `http_seconds:${labels.le}` : undefined,
  postroom_recipients_total: ({ labels }) =>
    labels.result === 'delivered' ? 'delivered' : undefined,
  postroom_smtp_refusals_total: ({ labels }) =>
    `${labels.result === 'temporary' ? 'deferred' : 'refused'}:${labels.reason}`,
  postroom_delivery_attempts_total: ({ labels }) => `${labels.kind}:${labels.result}`,
  postroom_deliveries_failed_total: ({ labels }) => `${labels.kind}:failed`,
};

/** The values of a metric now; none where there is no such metric. */
async function readValues(registry: Registry, name: string): Promise<readonly Value[]> {
  // The result is plain data for every kind of metric.
  const metric: MetricObjectWithValues<Value> | undefined = await registry
    .getSingleMetric(name)
    ?.get();
  return metric?.values ?? [];
}

/** Reads only counters: gauges may query the database. */
async function readTotals(registry: Registry): Promise<Record<string, number>> {
  const totals: Record<string, number> = {};
  for (const [metric, nameOf] of Object.entries(names)) {
    for (const value of await readValues(registry, metric)) {
      const name = nameOf(value);
      if (name !== undefined) totals[name] = (totals[name] ?? 0) + value.value;
    }
  }
  return totals;
}
