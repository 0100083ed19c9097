/**
 * Metrics of who speaks with us: SMTP and LMTP, HTTP, logins. Labels have few values: nothing that a client
 * makes up becomes one.
 */

import { Counter, Gauge, Histogram, type Registry } from 'prom-client';
import { answerOf, type ErrorCode } from '../errors/errors.ts';

type MailProtocol = 'smtp' | 'lmtp';

/** What a listener for mail tells. */
export interface MailTraffic {
  connected(): void;
  disconnected(): void;
  /** @param verb as the client sent it, in upper case */
  command(verb: string): void;
  /** A command or a message was refused or put off, for this reason. */
  refused(code: ErrorCode): void;
}

export interface AnsweredRequest {
  readonly method: string;
  /** The pattern of the route; undefined where no route took the request. */
  readonly route: string | undefined;
  readonly status: number;
  readonly ms: number;
}

export type LoginResult = 'succeeded' | 'failed' | 'limited';

export interface TrafficMetrics {
  /** What a listener of the protocol tells from now on. */
  mailTraffic(protocol: MailProtocol): MailTraffic;
  countRequest(request: AnsweredRequest): void;
  countLogin(result: LoginResult): void;
}

const COMMANDS = new Set(
  'HELO EHLO LHLO MAIL RCPT DATA STARTTLS RSET NOOP HELP VRFY QUIT'.split(' '),
);

export function addTrafficMetrics(registry: Registry): TrafficMetrics {
  const logins = new Counter({
    name: 'postroom_logins_total',
    help: 'Logins with address and password, by result.',
    labelNames: ['result'] as const,
    registers: [registry],
  });
  for (const result of ['succeeded', 'failed', 'limited']) logins.inc({ result }, 0);
  return {
    mailTraffic: addMailTraffic(registry),
    countRequest: addRequests(registry),
    countLogin: (result) => logins.inc({ result }),
  };
}

function addMailTraffic(registry: Registry): TrafficMetrics['mailTraffic'] {
  const registers = [registry];
  const open = new Gauge({
    name: 'postroom_smtp_connections',
    help: 'Open connections for mail, by protocol.',
    labelNames: ['protocol'] as const,
    registers,
  });
  const connections = new Counter({
    name: 'postroom_smtp_connections_total',
    help: 'Connections for mail that were taken, by protocol.',
    labelNames: ['protocol'] as const,
    registers,
  });
  const commands = new Counter({
    name: 'postroom_smtp_commands_total',
    help: 'Commands of clients, by protocol and verb.',
    labelNames: ['protocol', 'command'] as const,
    registers,
  });
  const refusals = new Counter({
    name: 'postroom_smtp_refusals_total',
    help: 'Recipients, messages and connections that were refused or put off, by reason.',
    labelNames: ['protocol', 'result', 'reason'] as const,
    registers,
  });
  return (protocol) => ({
    connected() {
      connections.inc({ protocol });
      open.inc({ protocol });
    },
    disconnected: () => open.dec({ protocol }),
    command: (verb) => commands.inc({ protocol, command: COMMANDS.has(verb) ? verb : 'other' }),
    refused(code) {
      const result = answerOf(code).smtp.code < 500 ? 'temporary' : 'permanent';
      refusals.inc({ protocol, result, reason: code });
    },
  });
}

function addRequests(registry: Registry): TrafficMetrics['countRequest'] {
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
    // Node reads some 30 methods; those of our routes are four.
    const known = route === 'none' ? 'any' : method;
    requests.inc({ method: known, route, status });
    latency.observe({ route }, ms / 1000);
  };
}
