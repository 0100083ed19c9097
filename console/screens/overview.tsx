/** What the service does now and did in the last hours. */
import { computed, defineComponent } from 'vue';
import { useRoute, useRouter } from 'vue-router';
import { read } from '../api/client.ts';
import { load } from '../api/load.ts';
import type { Overview as Answer, OverviewPoint } from '../api/types.ts';
import { Card, Failure, Heading } from '../ui/basics.tsx';
import { Chart, type Series } from '../ui/chart.tsx';
import { Loading } from '../ui/data-table.tsx';
import { formatBytes, formatCompact, formatKnown, formatName, formatNumber } from '../ui/format.ts';
import { Attention } from './attention.tsx';

const ranges = [
  ['1', 'Last hour'],
  ['6', 'Last 6 hours'],
  ['24', 'Last day'],
  ['168', 'Last week'],
  ['720', 'Last 30 days'],
] as const;

const EVERY_MS = 30_000;

export const Overview = defineComponent(() => {
  const route = useRoute();
  const router = useRouter();
  const hours = () => (typeof route.query.hours === 'string' ? route.query.hours : '24');
  const { data, error, reload } = load(
    hours,
    (value, signal) => read<Answer>('/overview', { hours: value }, signal),
    EVERY_MS,
  );
  const choose = (event: Event) => {
    const { value } = event.target as HTMLSelectElement;
    void router.push({ query: value === '24' ? {} : { hours: value } });
  };
  return () => (
    <div class="screen">
      <Heading title="Overview" lead="What came in and went out, and what waits.">
        {() => (
          <select aria-label="Time" value={hours()} onChange={choose}>
            {ranges.map(([value, label]) => (
              <option key={value} value={value}>
                {label}
              </option>
            ))}
          </select>
        )}
      </Heading>
      <Attention />
      <Failure error={error.value} retry={() => void reload()} />
      {data.value ? <Figures overview={data.value} /> : !error.value && <Loading />}
    </div>
  );
});

const sum = (values: Readonly<Record<string, number>>) =>
  Object.values(values).reduce((total, value) => total + value, 0);

/** One series for each name that a record of any point has, those with most first. */
function split(
  points: readonly OverviewPoint[],
  recordOf: (point: OverviewPoint) => Readonly<Record<string, number>> | undefined,
): Series[] {
  const names = new Set(points.flatMap((point) => Object.keys(recordOf(point) ?? {})));
  return [...names]
    .map((name) => ({
      name: formatName(name),
      // Not measured is not the same as none.
      values: points.map((point) => {
        const record = recordOf(point);
        return record === undefined ? null : (record[name] ?? 0);
      }),
    }))
    .sort((one, other) => total(other) - total(one));
}

const total = ({ values }: Series) => values.reduce<number>((all, value) => all + (value ?? 0), 0);

const Figures = defineComponent(
  (props: { overview: Answer }) => {
    const points = computed(() => props.overview.series);
    const times = computed(() => points.value.map(({ at }) => Date.parse(at) / 1000));
    const line = (
      name: string,
      figureOf: (point: OverviewPoint) => number | undefined,
    ): Series => ({
      name,
      values: points.value.map((point) => figureOf(point) ?? null),
    });
    const charts = computed(() => ({
      in: [
        line('Received', ({ received }) => received),
        line('Refused', ({ refused }) => sum(refused)),
        line('Deferred', ({ deferred }) => deferred),
      ],
      out: [
        line('Sent', ({ sent }) => sent),
        line('Forwarded', ({ forwarded }) => forwarded),
        line('Webhooks', ({ webhooks }) => webhooks),
        line('Bounced', ({ bounced }) => bounced),
      ],
      refused: split(points.value, ({ refused }) => refused),
      queue: split(points.value, ({ queue }) => queue),
      latency: [
        line('SMTP', ({ smtp_p95_ms }) => smtp_p95_ms),
        line('HTTP', ({ http_p95_ms }) => http_p95_ms),
      ],
      stored: [line('Stored', ({ stored_bytes }) => stored_bytes)],
    }));
    const common = (title: string, series: Series[]) => ({ title, series, times: times.value });
    return () => (
      <>
        <Tiles overview={props.overview} />
        <div class="charts">
          <Chart {...common('Mail in', charts.value.in)} format={formatCompact} summary="sum" />
          <Chart {...common('Mail out', charts.value.out)} format={formatCompact} summary="sum" />
          <Chart
            {...common('Refused by reason', charts.value.refused)}
            format={formatCompact}
            summary="sum"
          />
          <Chart {...common('Queue', charts.value.queue)} format={formatCompact} summary="last" />
          <Chart
            {...common('Latency, 95th percentile', charts.value.latency)}
            format={formatMs}
            summary="last"
          />
          <Chart {...common('Storage', charts.value.stored)} format={formatBytes} summary="last" />
        </div>
      </>
    );
  },
  { props: ['overview'] },
);

const formatMs = (value: number) =>
  value >= 1000 ? `${(value / 1000).toFixed(1)} s` : `${Math.round(value)} ms`;

function Tiles({ overview: { now, series: points } }: { overview: Answer }) {
  const all = (figureOf: (point: OverviewPoint) => number) =>
    formatNumber(points.reduce((amount, point) => amount + figureOf(point), 0));
  const tiles: [string, string][] = [
    ['Received', all(({ received }) => received)],
    ['Delivered', all(({ delivered }) => delivered)],
    ['Refused', all(({ refused }) => sum(refused))],
    ['Sent', all(({ sent }) => sent)],
    ['Bounced', all(({ bounced }) => bounced)],
    ['Waiting in the queue', formatKnown(now.queue && sum(now.queue))],
    ['Stored', formatKnown(now.stored_bytes, formatBytes)],
  ];
  return (
    <Card>
      {() => (
        <dl class="tiles">
          {tiles.map(([name, value]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{value}</dd>
            </div>
          ))}
        </dl>
      )}
    </Card>
  );
}
