/** The log of the protocol: bounded, and without what grants access. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import type { TrafficEvent } from '../../sdk/src/mail/client.ts';
import { addTraffic, isFailure, type TrafficEntry } from '../panel/traffic-log.ts';

function event(body: unknown, title = 'POST /mail/sync'): TrafficEvent {
  return { direction: 'sent', channel: 'http', title, body, at: 0 };
}

test('the newest entries are kept, and never more text than fits', () => {
  let entries: readonly TrafficEntry[] = [];
  for (let at = 0; at < 500; at++) entries = addTraffic(entries, event('x'.repeat(50_000)));
  const size = entries.reduce((sum, { text }) => sum + text.length, 0);
  assert.ok(size <= 1_000_000 && entries.length > 40, `${entries.length} entries, ${size}`);
  assert.match(entries.at(-1)?.text ?? '', /30000 more characters$/);
  for (let at = 0; at < 500; at++) entries = addTraffic(entries, event(undefined));
  assert.equal(entries.length, 200);
  assert.equal(entries.at(-1)?.id, 1000);
});

test('no credential is shown; a sync token, which grants nothing, is', () => {
  const [entry] = addTraffic(
    [],
    event({ password: 'pw"1', token: 'eyJhbGciOi.x.y', nested: [{ token: '1714.12' }] }),
  );
  assert.doesNotMatch(entry?.text ?? '', /pw|eyJ/);
  assert.match(entry?.text ?? '', /"token": "1714\.12"/);
});

test('answers that say no stand out', () => {
  const received = { ...event(''), direction: 'received' as const };
  assert.ok(isFailure({ ...received, title: '429 POST /mail/sync' }));
  assert.ok(!isFailure({ ...received, title: '200' }));
});

test('heartbeats do not push out what an app does', () => {
  const before = addTraffic([], event({}));
  const heartbeat = { ...event({ type: 'heartbeat' }, 'heartbeat'), channel: 'websocket' as const };
  assert.equal(addTraffic(before, heartbeat), before);
});
