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
import { createInstruments, type Instruments } from './instruments.ts';
import { addMailMetrics } from './mail-metrics.ts';
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

interface AnsweredRequest {
  readonly method: string;
  /** The pattern of the route; undefined where no route matched. */
  readonly route: string | undefined;
  readonly status: number;
  readonly ms: number;
}

/** Metrics of HTTP requests and logins. Labels have few values: no text of a client becomes one. */
function addRequestMetrics({ counter, histogram }: Instruments) {
  const logins = counter('postroom_logins_total', 'Logins with address and password, by result.', [
    'result',
  ]);
  for (const result of ['succeeded', 'failed', 'limited']) logins.inc({ result }, 0);
  const requests = counter(
    'postroom_http_requests_total',
    'Answered HTTP requests, by route and status.',
    ['method', 'route', 'status'],
  );
  const latency = histogram(
    'postroom_http_request_duration_seconds',
    'From a request to the end of its answer, by route.',
    [0.005, 0.02, 0.1, 0.5, 1, 5, 30],
    ['route'],
  );
  return {
    countRequest({ method, route = 'none', status, ms }: AnsweredRequest) {
      // Node accepts some 30 methods; our routes use four.
      requests.inc({ method: route === 'none' ? 'any' : method, route, status });
      latency.observe({ route }, ms / 1000);
    },
    countLogin(result: 'succeeded' | 'failed' | 'limited') {
      logins.inc({ result });
    },
  };
}

/** What is open by IMAP now. */
interface ImapState {
  readonly connections: number;
  /** After a login; those of them that wait in IDLE. */
  readonly sessions: { readonly open: number; readonly idle: number };
}

/** Metrics of mail programs that open mailboxes by IMAP. */
function addImapMetrics({ counter, read, amounts }: Instruments) {
  let state: (() => ImapState) | undefined;
  read(
    'postroom_imap_connections',
    'Open connections of mail programs by IMAP.',
    async () => state?.().connections,
  );
  read(
    'postroom_imap_sessions',
    'IMAP connections in which an account is open.',
    async () => state?.().sessions.open,
  );
  read(
    'postroom_imap_idle_sessions',
    'IMAP sessions that wait for changes with IDLE.',
    async () => state?.().sessions.idle,
  );
  const commands = counter(
    'postroom_imap_commands_total',
    'IMAP commands, by how they were answered.',
    ['command', 'outcome'],
  );
  // Counted for each line that comes or is sent, where Prometheus' counter would cost as much as all else.
  const octets = { received: 0, sent: 0 };
  amounts(
    'postroom_imap_bytes_total',
    'Bytes that mail programs sent and got by IMAP, before encryption.',
    'direction',
    () => (octets.received + octets.sent > 0 ? octets : {}),
  );
  const refused = counter(
    'postroom_imap_refused_total',
    'IMAP connections that were refused, since too many were open.',
    ['reason'],
  );
  return {
    /** Reads from now on what is open; never called where IMAP is off. */
    watchImap(source: () => ImapState) {
      state = source;
    },
    /** @param command of those that are known, else `other` */
    countImapCommand(command: string, outcome: 'ok' | 'no' | 'bad' | 'bye' | 'failed') {
      commands.inc({ command, outcome });
    },
    countImapOctets(direction: 'received' | 'sent', amount: number) {
      octets[direction] += amount;
    },
    countImapRefusal(reason: 'before_login' | 'of_client' | 'of_user' | 'of_account') {
      refused.inc({ reason });
    },
  };
}
