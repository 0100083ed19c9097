/** Metrics of HTTP requests and logins. Labels have few values: no text of a client becomes one. */
import { Counter, Histogram, type Registry } from 'prom-client';

export interface AnsweredRequest {
  readonly method: string;
  /** The pattern of the route; undefined where no route matched. */
  readonly route: string | undefined;
  readonly status: number;
  readonly ms: number;
}

export type LoginResult = 'succeeded' | 'failed' | 'limited';

export interface RequestMetrics {
  countRequest(request: AnsweredRequest): void;
  countLogin(result: LoginResult): void;
}

export function addRequestMetrics(registry: Registry): RequestMetrics {
  const logins = new Counter({
    name: 'postroom_logins_total',
    help: 'Logins with address and password, by result.',
    labelNames: ['result'] as const,
    registers: [registry],
  });
  for (const result of ['succeeded', 'failed', 'limited']) logins.inc({ result }, 0);
  return {
    countRequest: addRequests(registry),
    countLogin: (result) => logins.inc({ result }),
  };
}

function addRequests(registry: Registry): RequestMetrics['countRequest'] {
  const registers = [registry];
  const requests = new Counter({
    name: 'postroom_http_requests_total',
    help: 'Answered HTTP requests, by route and status.',
    labelNames: ['method', 'route', 'status'] as const,
    registers,
  });
  const latency = new Histogram({
    name: 'postroom_http_request_duration_seconds',
    help: 'From a request to the end of its answer, by route.',
    labelNames: ['route'] as const,
    buckets: [0.005, 0.02, 0.1, 0.5, 1, 5, 30],
    registers,
  });
  return ({ method, route = 'none', status, ms }) => {
    // Node accepts some 30 methods; our routes use four.
    const known = route === 'none' ? 'any' : method;
    requests.inc({ method: known, route, status });
    latency.observe({ route }, ms / 1000);
  };
}
