/** Metrics of HTTP requests and logins. Labels have few values: no text of a client becomes one. */
import type { Instruments } from './instruments.ts';

interface AnsweredRequest {
  readonly method: string;
  /** The pattern of the route; undefined where no route matched. */
  readonly route: string | undefined;
  readonly status: number;
  readonly ms: number;
}

export function addRequestMetrics({ counter, histogram }: Instruments) {
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
