/** What the counters say now, as the charts of operators have it: by short names, over all labels but one. */
import type { MetricObjectWithValues, MetricValue, Registry } from 'prom-client';

type Value = MetricValue<string> & { readonly metricName?: string };

/** By metric: the name that one of its values counts for; undefined where it counts for none. */
const names: Readonly<Record<string, (value: Value) => string | undefined>> = {
  postroom_receive_duration_seconds: ({ metricName, labels }) => {
    if (metricName?.endsWith('_count')) return 'received';
    return metricName?.endsWith('_bucket') ? `smtp_seconds:${labels.le}` : undefined;
  },
  postroom_http_request_duration_seconds: ({ metricName, labels }) =>
    metricName?.endsWith('_bucket') ? `http_seconds:${labels.le}` : undefined,
  postroom_recipients_total: ({ labels }) =>
    labels.result === 'delivered' ? 'delivered' : undefined,
  postroom_smtp_refusals_total: ({ labels }) =>
    `${labels.result === 'temporary' ? 'deferred' : 'refused'}:${labels.reason}`,
  postroom_delivery_attempts_total: ({ labels }) => `${labels.kind}:${labels.result}`,
};

/** Reads counters alone: gauges may ask the database. */
export async function readTotals(registry: Registry): Promise<Record<string, number>> {
  const totals: Record<string, number> = {};
  for (const [metric, nameOf] of Object.entries(names)) {
    // What is read is plain data, whatever kind of metric it is.
    const read = registry.getSingleMetric(metric)?.get() as
      | Promise<MetricObjectWithValues<Value>>
      | undefined;
    for (const value of (await read)?.values ?? []) {
      const name = nameOf(value);
      if (name !== undefined) totals[name] = (totals[name] ?? 0) + value.value;
    }
  }
  return totals;
}
