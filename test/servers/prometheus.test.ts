/** The alerts and the queries of the dashboard, read and run by Prometheus's own `promtool`. */
import assert from 'node:assert/strict';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import {
  ALERT_TESTS,
  ALERTS,
  dashboardQueries,
  readDashboard,
} from '../support/prometheus-files.ts';
import { runCommand } from './mail-server.ts';

test('the alerts are valid, and fire only for what they name', async () => {
  await runCommand('promtool', ['check', 'rules', ALERTS]);
  await runCommand('promtool', ['test', 'rules', ALERT_TESTS]);
});

test('the queries of the dashboard are valid', async (t) => {
  const directory = await mkdtemp(join(tmpdir(), 'postroom-promtool-'));
  t.after(() => rm(directory, { recursive: true, force: true }));
  const check = async (queries: readonly string[]) => {
    // JSON is YAML; Grafana puts in its variables before it asks.
    const rules = queries.map((expr, index) => ({
      record: `dashboard:${index}`,
      expr: expr.replaceAll('$__rate_interval', '5m').replaceAll('$instance', '.*'),
    }));
    const file = join(directory, 'rules.json');
    await writeFile(file, JSON.stringify({ groups: [{ name: 'dashboard', rules }] }));
    return runCommand('promtool', ['check', 'rules', file]);
  };
  const queries = dashboardQueries(readDashboard());
  const said = await check(queries);
  assert.ok(said.includes(`${queries.length} rules found`), said);
  await assert.rejects(check(['sum(rate(postroom_recipients_total[5m])']), /unclosed left paren/);
});
