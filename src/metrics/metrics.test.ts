import assert from 'node:assert/strict';
import { test } from 'node:test';
import { createMetrics, serveMetrics } from './metrics.ts';

test('counters and gauges are read as Prometheus reads them', async () => {
  const metrics = createMetrics();
  metrics.watch({
    connections: () => 7,
    queueDepths: async () => [{ kind: 'webhook', queued: 3, oldestCreatedAt: Date.now() - 60_000 }],
  });
  metrics.countRecipient('delivered');
  metrics.countRecipient('delivered');
  metrics.countRecipient('permanent');
  const listener = await serveMetrics(metrics, 0);
  const url = `http://127.0.0.1:${listener.port}`;
  const text = await (await fetch(`${url}/metrics`)).text();
  assert.match(text, /^postroom_recipients_total\{result="delivered"\} 2$/m);
  assert.match(text, /^postroom_recipients_total\{result="permanent"\} 1$/m);
  assert.match(text, /^postroom_realtime_connections 7$/m);
  assert.match(text, /^postroom_queue_depth\{kind="webhook"\} 3$/m);
  assert.match(text, /^process_resident_memory_bytes \d+/m);
  assert.equal((await fetch(`${url}/`)).status, 404);
  await listener.close();
  await assert.rejects(fetch(`${url}/metrics`));
});
