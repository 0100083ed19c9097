/** The alerts and the queries of the dashboard, read and run by Prometheus's own `promtool`. */
import assert from 'node:assert/strict';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import { type TestContext, test } from 'node:test';
import { parse } from 'yaml';
import {
  ALERT_TESTS,
  ALERTS,
  type Alert,
  dashboardQueries,
  readAlerts,
  readDashboard,
} from '../support/prometheus-files.ts';
import { runCommand } from './mail-server.ts';
import { FAULT, type Fault, faults } from './prometheus-faults.ts';

/** Seconds between two scrapes: often, and as seldom as Prometheus does by default. */
const SCRAPES = [15, 60];
/** Seconds after the begin of a fault in which no alert may fire. */
const AFTER = 60 * 60;

async function temporaryFolder(t: TestContext): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'postroom-promtool-'));
  t.after(() => rm(directory, { recursive: true, force: true }));
  return directory;
}

/** A test of promtool in which the alert must not fire, in any minute. */
function quiet(name: string, { series, history = 0 }: Fault, scrape: number) {
  const scrapes = Math.ceil((history + FAULT.begins + AFTER) / scrape);
  const times = Array.from({ length: scrapes }, (_, n) => n * scrape - history);
  return {
    name: `${name}, read every ${scrape} s`,
    interval: `${scrape}s`,
    input_series: Object.entries(series).map(([series, valueAt]) => ({
      series,
      values: times.map((at) => valueAt(at) + history).join(' '),
    })),
    alert_rule_test: Array.from({ length: AFTER / 60 }, (_, minute) => ({
      eval_time: `${(history + FAULT.begins) / 60 + minute}m`,
      alertname: name,
      exp_alerts: [],
    })),
  };
}

interface RuleTest {
  readonly alert_rule_test: readonly { readonly alertname: string }[];
}

/**
 * Runs promtool with tests. It evaluates all rules of a file in each minute, and so the alerts that a test is about
 * have a file of their own. JSON is YAML.
 */
async function testRules(
  alerts: readonly Alert[],
  tests: readonly RuleTest[],
  folder: string,
): Promise<void> {
  const namesOf = (one: RuleTest) => one.alert_rule_test.map(({ alertname }) => alertname);
  const groups = Map.groupBy(tests, (one) => [...new Set(namesOf(one))].toSorted().join('-'));
  const files = [...groups].map(async ([name, tests]) => {
    const names = new Set(tests.flatMap(namesOf));
    const rules = alerts.filter(({ alert }) => names.has(alert));
    assert.equal(rules.length, names.size, name);
    const [rulesFile, file] = [join(folder, `${name}.rules.json`), join(folder, `${name}.json`)];
    await writeFile(rulesFile, JSON.stringify({ groups: [{ name, rules }] }));
    const content = { rule_files: [rulesFile], evaluation_interval: '1m', tests };
    await writeFile(file, JSON.stringify(content));
    return file;
  });
  await runCommand('promtool', ['test', 'rules', ...(await Promise.all(files))]);
}

test('the alerts are valid, and fire only for what they name', async (t) => {
  await runCommand('promtool', ['check', 'rules', ALERTS]);
  // As texts: values such as `0x30` are no numbers.
  const { tests, ...rest } = parse(await readFile(ALERT_TESTS, 'utf8'), { schema: 'failsafe' });
  assert.deepEqual(rest, { rule_files: [basename(ALERTS)], evaluation_interval: '1m' });
  await testRules(readAlerts(), tests, await temporaryFolder(t));
});

test('a fault of 60 s pages nobody', async (t) => {
  const alerts = readAlerts();
  const critical = alerts.filter(({ labels }) => labels.severity === 'critical');
  assert.deepEqual(Object.keys(faults).toSorted(), critical.map(({ alert }) => alert).toSorted());
  const folder = await temporaryFolder(t);
  const tests = (some: [string, Fault][]) =>
    some.flatMap(([name, fault]) => {
      // A day's history is read seldom, so that it is short.
      const scrapes = fault.history === undefined ? SCRAPES : SCRAPES.slice(-1);
      return scrapes.map((scrape) => quiet(name, fault, scrape));
    });
  await testRules(alerts, tests(Object.entries(faults)), folder);

  // They are the faults that the alerts report: without `for`, each fires.
  const noticed = Object.entries(faults).filter(([, { isBelow }]) => !isBelow);
  const hasty = alerts.map(({ for: _, ...alert }) => alert);
  const said = await testRules(hasty, tests(noticed), folder).then(
    () => '',
    (error: Error) => error.message,
  );
  for (const [name] of noticed) {
    for (const scrape of SCRAPES) {
      assert.match(said, new RegExp(`name: ${name}, read every ${scrape} s,`));
    }
  }
});

test('planned restarts page nobody', async (t) => {
  const node = 'instance="a", job="postroom"';
  const planned: Fault = {
    series: {
      // Every ten minutes, and away for 30 s.
      [`process_start_time_seconds{${node}}`]: (at) => 600 * Math.floor(at / 600),
      [`up{${node}}`]: (at) => Number(at % 600 >= 30),
    },
  };
  const tests = ['PostroomRestarts', 'PostroomDown'].flatMap((name) =>
    SCRAPES.map((scrape) => quiet(name, planned, scrape)),
  );
  await testRules(readAlerts(), tests, await temporaryFolder(t));
});

test('the queries of the dashboard are valid', async (t) => {
  const directory = await temporaryFolder(t);
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
