/**
 * Prometheus metrics at `GET /metrics`, on a port of their own that only this machine reaches. Holds
 * nothing in storage: counters start at 0 with the process.
 */
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Counter, collectDefaultMetrics, Gauge, Registry } from 'prom-client';

export interface MetricSources {
  /** Open connections of the realtime channel. */
  connections(): number;
}

export interface Metrics {
  /** Counts recipients of inbound messages by what became of them. */
  countRecipient(result: 'delivered' | 'temporary' | 'permanent'): void;
  /** The text that Prometheus reads. */
  text(): Promise<string>;
}

export function createMetrics(sources: MetricSources): Metrics {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const recipients = new Counter({
    name: 'postroom_recipients_total',
    help: 'Recipients of inbound messages, by what became of them.',
    labelNames: ['result'] as const,
    registers: [registry],
  });
  new Gauge({
    name: 'postroom_realtime_connections',
    help: 'Open connections of the realtime channel.',
    registers: [registry],
    collect() {
      this.set(sources.connections());
    },
  });
  return {
    countRecipient: (result) => recipients.inc({ result }),
    text: () => registry.metrics(),
  };
}

/** Where the metrics can be read, and how to end that. */
export interface MetricsListener {
  readonly port: number;
  close(): Promise<void>;
}

/**
 * Serves the metrics on loopback.
 *
 * @throws the error of the socket, e.g. with `code: 'EADDRINUSE'`
 */
export async function serveMetrics(metrics: Metrics, port: number): Promise<MetricsListener> {
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
    server.listen(port, '127.0.0.1', resolve);
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
