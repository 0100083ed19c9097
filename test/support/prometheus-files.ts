/** What stands in the files for Prometheus and Grafana: alerts, their tests, and the queries of the dashboard. */
import { readFileSync } from 'node:fs';
import { parse as parseYaml } from 'yaml';
import { repository } from './doc-pages.ts';

export const ALERTS = `${repository}deploy/prometheus/alerts.yml`;
export const ALERT_TESTS = `${repository}deploy/prometheus/alerts.test.yml`;

export interface Alert {
  readonly alert: string;
  readonly expr: string;
  readonly for?: string;
  readonly labels: { readonly severity: string };
  readonly annotations: { readonly summary: string; readonly runbook_url: string };
}

export function readAlerts(): Alert[] {
  const { groups } = parseYaml(readFileSync(ALERTS, 'utf8'));
  return groups.flatMap(({ rules }: { rules: Alert[] }) => rules);
}

/** The alerts that some test expects to fire. */
export function readFiringAlerts(): Set<string> {
  const { tests } = parseYaml(readFileSync(ALERT_TESTS, 'utf8'));
  return new Set(
    tests.flatMap((one: { alert_rule_test: { alertname: string; exp_alerts: unknown[] }[] }) =>
      one.alert_rule_test
        .filter(({ exp_alerts }) => exp_alerts.length > 0)
        .map(({ alertname }) => alertname),
    ),
  );
}

export interface Panel {
  readonly id: number;
  readonly type: string;
  readonly title: string;
  readonly gridPos: {
    readonly x: number;
    readonly y: number;
    readonly w: number;
    readonly h: number;
  };
  readonly targets?: readonly { readonly expr: string }[];
}

export interface Dashboard {
  readonly panels: readonly Panel[];
  readonly annotations: { readonly list: readonly { readonly expr: string }[] };
  readonly templating: { readonly list: readonly { readonly name: string }[] };
}

export function readDashboard(): Dashboard {
  return JSON.parse(readFileSync(`${repository}deploy/grafana/postroom.json`, 'utf8'));
}

/** Every query of the dashboard, as Grafana writes it there. */
export function dashboardQueries({ panels, annotations }: Dashboard): string[] {
  const shown = panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));
  return [...shown, ...annotations.list.map(({ expr }) => expr)];
}

/** The metrics that a query of PromQL names, without what Prometheus adds by itself (`up`). */
export function metricsIn(query: string): string[] {
  return query.match(/\b(?:postroom|process|nodejs)_\w+/g) ?? [];
}

/** The labels that a query of PromQL asks for, with the metric: `[metric, label]`. */
export function labelsIn(query: string): [metric: string, label: string][] {
  return [...query.matchAll(/\b(postroom_\w+)\{([^}]*)\}/g)].flatMap(
    ([, metric = '', inside = '']) =>
      [...inside.matchAll(/(\w+)\s*(?:=~|!~|!=|=)/g)].map(([, label = '']): [string, string] => [
        metric,
        label,
      ]),
  );
}
