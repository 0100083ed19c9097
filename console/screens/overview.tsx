/** What needs somebody, and what came in, went out and waits. */
import { computed, defineComponent } from 'vue';
import { type RouteLocationRaw, RouterLink, useRoute, useRouter } from 'vue-router';
import { read } from '../api/client.ts';
import { load } from '../api/load.ts';
import type { Overview as Answer } from '../api/types.ts';
import { Card, Failure, Heading } from '../ui/basics.tsx';
import { Chart } from '../ui/chart.tsx';
import { Loading } from '../ui/data-table.tsx';
import {
  formatClock,
  formatCompact,
  formatName,
  formatNumber,
  formatShare,
  formatSpan,
} from '../ui/format.ts';
import { Attention } from './attention.tsx';
import { mailWithin, refusedWithin } from './links.ts';
import { chartsOf, sum, topReasons, totalsOf } from './overview-figures.ts';

const ranges = [
  ['1', 'Last hour'],
  ['6', 'Last 6 hours'],
  ['24', 'Last 24 hours'],
  ['168', 'Last 7 days'],
  ['720', 'Last 30 days'],
] as const;

const EVERY_MS = 60_000;
const HOUR_MS = 3_600_000;
const REASONS = 5;

export const Overview = defineComponent(() => {
  const route = useRoute();
  const router = useRouter();
  const hours = () => (typeof route.query.hours === 'string' ? route.query.hours : '24');
  const { data, error, isLoading, at, reload } = load(
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
      <Heading title="Overview">
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
      <Failure error={error.value} since={data.value && at.value} retry={() => void reload()} />
      {data.value ? (
        <div class="figures-of" aria-busy={isLoading.value}>
          <Tiles overview={data.value} hours={Number(hours())} />
          <Charts overview={data.value} />
        </div>
      ) : (
        !error.value && <Loading />
      )}
    </div>
  );
});

interface Tile {
  readonly name: string;
  readonly value: number;
  readonly link: RouteLocationRaw;
  /** In the span before; undefined where that is not known. */
  readonly before: number | undefined;
  readonly note?: string;
}

function Tiles({ overview: { now, before, series }, hours }: { overview: Answer; hours: number }) {
  const totals = totalsOf(series);
  const mail = (terms: string) => mailWithin(Date.now() - hours * HOUR_MS, Date.now(), terms);
  const waiting = sum(now.queue ?? {});
  // Counted at the beginning of the span, in place of within the span before.
  const waited = series[0]?.queue && sum(series[0].queue);
  const tiles: readonly Tile[] = [
    { name: 'Received', value: totals.received, before: before?.received, link: mail('dir:in') },
    { name: 'Refused', value: totals.refused, before: before?.refused, link: mail('is:refused') },
    {
      name: 'Delivered',
      value: totals.sent,
      before: before?.sent,
      link: mail('dir:out is:delivered'),
    },
    {
      name: 'Bounced',
      value: totals.bounced,
      before: before?.bounced,
      link: mail('is:bounced'),
      ...(totals.bounced > 0 && {
        note: formatShare(totals.bounced, totals.sent + totals.bounced),
      }),
    },
    {
      name: 'Waiting',
      value: waiting,
      before: waited,
      link: '/queue',
      ...(waiting > 0 &&
        now.oldest_seconds !== undefined && {
          note: `oldest ${formatSpan(now.oldest_seconds, 1)}`,
        }),
    },
  ];
  const span = hours < 48 ? `${hours} h` : `${hours / 24} d`;
  return (
    <ul class="tiles">
      {tiles.map(({ name, value, link, before: earlier, note }) => (
        <li key={name} class="card">
          <RouterLink to={link}>{() => name}</RouterLink>
          <p class="figure" title={formatNumber(value)}>
            {formatCompact(value)}
            {note && <span class="soft small">{note}</span>}
          </p>
          <p class="soft small">
            {earlier === undefined
              ? '–'
              : `${formatNumber(earlier)} ${name === 'Waiting' ? `${span} ago` : `in the ${span} before`}`}
          </p>
        </li>
      ))}
    </ul>
  );
}

const formatMs = (value: number) =>
  value >= 1000 ? `${(value / 1000).toFixed(1)} s` : `${Math.round(value)} ms`;

const Charts = defineComponent(
  (props: { overview: Answer }) => {
    const router = useRouter();
    const charts = computed(() => chartsOf(props.overview));
    const open = (after: number, before: number) =>
      void router.push(mailWithin(after * 1000, before * 1000));
    return () => {
      const { times, mailIn, mailOut, waiting, latency } = charts.value;
      const columns = { times, kind: 'columns', format: formatCompact, onSpan: open } as const;
      const lines = { times, kind: 'lines', onSpan: open } as const;
      return (
        <div class="charts">
          <Chart title="Mail in" series={mailIn} {...columns} />
          <Chart title="Mail out" series={mailOut} {...columns} />
          <Chart title="Waiting" series={waiting} {...lines} format={formatCompact} />
          <Chart title="Latency, 95th percentile" series={latency} {...lines} format={formatMs} />
          <Reasons overview={props.overview} />
        </div>
      );
    };
  },
  { props: ['overview'] },
);

/** What was refused most often, and how often. */
function Reasons({ overview: { series } }: { overview: Answer }) {
  const reasons = topReasons(series);
  const total = totalsOf(series).refused;
  const start = series[0] && formatClock(series[0].at);
  const since = Date.parse(series[0]?.at ?? '') || Date.now();
  return (
    <Card title="Refused by reason">
      {() =>
        reasons.length === 0 ? (
          <p class="soft">Nothing was refused since {start}.</p>
        ) : (
          <ol class="reasons">
            {reasons.slice(0, REASONS).map(([reason, amount]) => (
              <li key={reason}>
                <RouterLink to={refusedWithin(since, Date.now(), reason)}>
                  {() => formatName(reason)}
                </RouterLink>
                <meter min={0} max={total} value={amount} aria-label={formatName(reason)} />
                <b>{formatNumber(amount)}</b>
              </li>
            ))}
          </ol>
        )
      }
    </Card>
  );
}
