/**
 * Prometheus metrics at `GET /metrics`, on a port of their own that only this machine can reach. Stores nothing:
 * counters start at 0 with the process.
 */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import {
  Counter,
  collectDefaultMetrics,
  Gauge,
  Histogram,
  type MetricObjectWithValues,
  type MetricValue,
  Registry,
} from 'prom-client';
import type { AttemptReport } from '../../mail/queue/queue.ts';
import { addImapMetrics, type ImapMetrics } from './imap-metrics.ts';
import { addMailMetrics, type MailMetrics } from './mail-metrics.ts';
import { addRequestMetrics, type RequestMetrics } from './request-metrics.ts';
import {
  addStateMetrics,
  type MetricSources,
  type SharedSource,
  type StateMetrics,
} from './state-metrics.ts';

export type { CommitReport, MetricSources } from './state-metrics.ts';

export interface GaugeValue {
  readonly labels: Readonly<Record<string, string | number | undefined>>;
  readonly value: number;
}

export interface Metrics extends ImapMetrics, MailMetrics, RequestMetrics, StateMetrics {
  /** Reads these sources from now on; before that there are no metrics. */
  watch(sources: MetricSources): void;
  countAttempt(report: AttemptReport): void;
  /** The counts since the start, by the names of the operator's charts. */
  totals(): Promise<Readonly<Record<string, number>>>;
  /** The values that a gauge has now; none where it has none. @throws where they could not be read */
  readGauge(name: string): Promise<readonly GaugeValue[]>;
  /** The text that Prometheus reads. */
  text(): Promise<string>;
}

export function createMetrics(): Metrics {
  let sources: MetricSources = {
    connections: () => 0,
    queueDepths: async () => [],
    now: Date.now,
  };
  const registry = new Registry();
  const unread = new Set<string>();
  collectDefaultMetrics({ register: registry });
  const countAttempt = addAttemptMetrics(registry);
  addSharedMetrics(registry, () => sources.shared);
  return {
    watch(watched) {
      sources = watched;
    },
    ...addImapMetrics(registry),
    ...addMailMetrics(registry),
    ...addRequestMetrics(registry),
    ...addStateMetrics(registry, () => sources, unread),
    countAttempt,
    totals: () => readTotals(registry),
    async readGauge(name) {
      const values = await readValues(registry, name);
      if (unread.has(name)) throw new Error(`${name} could not be read`);
      return values;
    },
    text: () => registry.metrics(),
  };
}

/** On a single node they have no value. */
function addSharedMetrics(registry: Registry, source: () => SharedSource | undefined): void {
  const registers = [registry];
  new Gauge({
    name: 'postroom_redis_up',
    help: 'Whether Redis answers: 1, or 0 where this node counts alone.',
    registers,
    collect() {
      const shared = source();
      if (shared) this.set(Number(shared.isUp()));
      else this.remove();
    },
  });
  new Counter({
    name: 'postroom_shared_changes_total',
    help: 'Changes between nodes: sent, received, or refused because they were none.',
    labelNames: ['result'] as const,
    registers,
    collect() {
      this.reset();
      const counts = Object.entries(source()?.counts ?? {});
      for (const [result, amount] of counts) this.inc({ result }, amount);
    },
  });
}

/** @returns what counts an attempt */
function addAttemptMetrics(registry: Registry): (report: AttemptReport) => void {
  const registers = [registry];
  const attempts = new Counter({
    name: 'postroom_delivery_attempts_total',
    help: 'Attempts to deliver, by kind and outcome.',
    labelNames: ['kind', 'result'] as const,
    registers,
  });
  const latency = new Histogram({
    name: 'postroom_delivery_latency_seconds',
    help: 'From queueing to delivery.',
    labelNames: ['kind'] as const,
    buckets: [0.01, 0.05, 0.1, 0.5, 1, 5, 30, 300, 3600, 86_400],
    registers,
  });
  const failed = new Counter({
    name: 'postroom_deliveries_failed_total',
    help: 'Deliveries that were given up, by kind.',
    labelNames: ['kind'] as const,
    registers,
  });
  return ({ kind, outcome, status, ageMs }) => {
    attempts.inc({ kind, result: outcome.result });
    if (status === 'failed') failed.inc({ kind });
    if (outcome.result === 'delivered') latency.observe({ kind }, ageMs / 1000);
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
