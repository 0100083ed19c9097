/** Which requests have a line in the log. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { FastifyReply, FastifyRequest } from 'fastify';
import { pino } from 'pino';
import { RequestLog } from './request-log.ts';

test('what was refused or slow has a line, but no question of a balancer, and nobody who waits for events', () => {
  const lines: string[] = [];
  const logger = pino({ level: 'info' }, { write: (line: string) => void lines.push(line) });
  const log = new RequestLog(logger, () => false);
  const isTold = (url: string, statusCode: number, elapsedTime: number) => {
    lines.length = 0;
    const request = {
      method: 'GET',
      routeOptions: { url },
      id: '1',
      raw: { socket: {}, headers: {} },
    };
    const reply = { statusCode, elapsedTime };
    log.requestCompleted(
      null,
      request as unknown as FastifyRequest,
      reply as unknown as FastifyReply,
    );
    return lines.length === 1;
  };
  assert.equal(isTold('/mail/sync', 200, 5), false);
  assert.equal(isTold('/mail/sync', 200, 1_500), true);
  assert.equal(isTold('/mail/sync', 503, 5), true);
  assert.equal(isTold('/readyz', 503, 5), false);
  assert.equal(isTold('/readyz', 503, 5_000), false);
  assert.equal(isTold('/v2/events', 200, 25_000), false);
  assert.equal(isTold('/v2/events', 410, 5), true);
});
