import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createMetrics, serveMetrics } from './metrics.ts';

test('deliveries that are given up count for the charts, whatever the last attempt came to', async () => {
  const metrics = createMetrics();
  const report = {
    attemptMs: 1,
    ageMs: 1,
    outcome: { result: 'temporary', error: { text: '451' } },
  } as const;
  metrics.countAttempt({ ...report, kind: 'send', status: 'queued' });
  metrics.countAttempt({ ...report, kind: 'send', status: 'failed' });
  const totals = await metrics.totals();
  assert.deepEqual([totals['send:failed'], totals['send:temporary']], [1, 2]);
});

test('counters and gauges are read as Prometheus reads them', async (t) => {
  const metrics = createMetrics();
  let queueReads = 0;
  let domainReads = 0;
  metrics.watch({
    domainsUnableToSend: async () => ++domainReads + 1,
    connections: () => 7,
    now: Date.now,
    queueDepths: async () => {
      queueReads++;
      const [oldestCreatedAt, nextAttemptAt] = [Date.now() - 60_000, Date.now() - 30_000];
      return [
        { kind: 'webhook', state: 'queued', count: 3, oldestCreatedAt, nextAttemptAt },
        { kind: 'webhook', state: 'held', count: 1, oldestCreatedAt, nextAttemptAt: 0 },
        { kind: 'send', state: 'queued', count: 2, oldestCreatedAt, nextAttemptAt: 1e15 },
      ];
    },
    disks: async () => [{ folder: '/data', free: 5, size: 10 }],
    searchWaiting: () => Promise.reject(new Error('the database is away')),
  });
  metrics.countRecipient('delivered');
  metrics.countRecipient('delivered');
  metrics.countRecipient('permanent');
  const listener = await serveMetrics(metrics, '127.0.0.1', 0);
  t.after(() => listener.close());
  const url = `http://127.0.0.1:${listener.port}`;
  const text = await (await fetch(`${url}/metrics`)).text();
  assert.match(text, /^postroom_recipients_total\{result="delivered"\} 2$/m);
  assert.match(text, /^postroom_recipients_total\{result="permanent"\} 1$/m);
  assert.match(text, /^postroom_realtime_connections 7$/m);
  assert.match(text, /^postroom_queue_depth\{kind="webhook",state="queued"\} 3$/m);
  assert.match(text, /^postroom_queue_depth\{kind="webhook",state="held"\} 1$/m);
  assert.match(text, /^postroom_queue_oldest_age_seconds\{kind="webhook"\} 60/m);
  assert.match(text, /^postroom_queue_overdue_seconds\{kind="webhook"\} 30/m);
  assert.match(text, /^postroom_queue_overdue_seconds\{kind="send"\} 0$/m);
  assert.match(text, /^postroom_domains_cannot_send 2$/m);
  assert.match(text, /^postroom_disk_free_bytes\{folder="\/data"\} 5$/m);
  assert.doesNotMatch(text, /^postroom_search_waiting /m, 'what cannot be read is left out');
  await (await fetch(`${url}/metrics`)).text();
  assert.deepEqual([queueReads, domainReads], [1, 1], 'rows are not counted at each scrape');
  assert.match(text, /^process_resident_memory_bytes \d+/m);
  assert.equal((await fetch(`${url}/`)).status, 404);
  await listener.close();
  await assert.rejects(fetch(`${url}/metrics`));
});

test('a scrape does not wait for a database or a disk that hangs', {
  timeout: 10_000,
}, async () => {
  const metrics = createMetrics();
  const never = () => new Promise<never>(() => {});
  metrics.watch({
    connections: () => 7,
    now: Date.now,
    queueDepths: never,
    disks: never,
    searchWaiting: never,
  });
  for (let scrape = 0; scrape < 2; scrape++) {
    const text = await metrics.text();
    assert.match(text, /^postroom_realtime_connections 7$/m);
    assert.doesNotMatch(text, /^postroom_(queue_depth|disk_free_bytes|search_waiting)[ {]/m);
  }
});

test('a gauge that could not be read is told from one that has no value', async () => {
  const metrics = createMetrics();
  let isAway = true;
  const read = async <Value>(value: Value) => {
    if (isAway) throw new Error('the database is away');
    return value;
  };
  metrics.watch({
    connections: () => 0,
    now: Date.now,
    queueDepths: () => read([]),
    searchWaiting: () => read(3),
  });
  for (const name of ['postroom_queue_depth', 'postroom_search_waiting']) {
    await assert.rejects(metrics.readGauge(name), /could not be read/, name);
  }
  assert.deepEqual(await metrics.readGauge('postroom_body_store_up'), [], 'nobody says');
  assert.deepEqual(await metrics.readGauge('postroom_redis_up'), [], 'nor Redis');
  isAway = false;
  assert.deepEqual(await metrics.readGauge('postroom_queue_depth'), []);
  const [waiting] = await metrics.readGauge('postroom_search_waiting');
  assert.equal(waiting?.value, 3);
});

test('no label has text of a client', async () => {
  const metrics = createMetrics();
  const traffic = metrics.mailTraffic('smtp');
  for (let n = 0; n < 100; n++) {
    traffic.command(`X${n}`);
    metrics.countRequest({ method: `M${n}`, route: undefined, status: 404, ms: 1 });
  }
  traffic.connected();
  traffic.command('MAIL');
  traffic.refused('account_not_found');
  traffic.refused('storage_full');
  metrics.countRequest({ method: 'GET', route: '/mail/message', status: 200, ms: 3 });
  const text = await metrics.text();
  const lines = text.split('\n').filter((line) => /^postroom_(smtp|http_requests)/.test(line));
  assert.deepEqual(lines, [
    'postroom_smtp_connections{protocol="smtp"} 1',
    'postroom_smtp_connections_total{protocol="smtp"} 1',
    'postroom_smtp_commands_total{protocol="smtp",command="other"} 100',
    'postroom_smtp_commands_total{protocol="smtp",command="MAIL"} 1',
    'postroom_smtp_refusals_total{protocol="smtp",result="permanent",reason="account_not_found"} 1',
    'postroom_smtp_refusals_total{protocol="smtp",result="temporary",reason="storage_full"} 1',
    'postroom_http_requests_total{method="any",route="none",status="404"} 100',
    'postroom_http_requests_total{method="GET",route="/mail/message",status="200"} 1',
  ]);
});
