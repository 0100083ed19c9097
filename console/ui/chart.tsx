/** Lines over time. What they show is there as a table, too, for those who do not see or point. */
import uPlot from 'uplot';
import { defineComponent, onBeforeUnmount, onMounted, ref, watch } from 'vue';
import { isDark } from '../theme.ts';

export interface Series {
  readonly name: string;
  /** One for each time; null where nothing was measured. */
  readonly values: readonly (number | null)[];
}

export interface ChartProps {
  title: string;
  /** Seconds since 1970, ascending. */
  times: readonly number[];
  series: readonly Series[];
  format: (value: number) => string;
  /** What stands beside a name while no time is pointed at: the sum of all values, or the last one. */
  summary: 'sum' | 'last';
}

const HEIGHT = 180;
const COLOURS = 7;
const colourName = (index: number) => `--chart-${(index % COLOURS) + 1}`;

const clock = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit' });
const date = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short' });
const both = (second: number) => `${date.format(second * 1000)} ${clock.format(second * 1000)}`;

export const Chart = defineComponent(
  (props: ChartProps) => {
    const place = ref<HTMLElement>();
    const pointed = ref<number>();
    const isTable = ref(false);
    let plot: uPlot | undefined;

    const draw = () => {
      plot?.destroy();
      plot = undefined;
      if (place.value) plot = makePlot(props, place.value, pointed);
    };
    const resize = new ResizeObserver(([entry]) => {
      if (entry) plot?.setSize({ width: entry.contentRect.width, height: HEIGHT });
    });
    watch(place, (element) => {
      resize.disconnect();
      if (element) resize.observe(element);
      draw();
    });
    watch([() => props.times, () => props.series, isDark], draw, { flush: 'post' });
    onMounted(draw);
    onBeforeUnmount(() => {
      resize.disconnect();
      plot?.destroy();
    });

    return () => (
      <figure class="card chart">
        <figcaption>
          <h2>{props.title}</h2>
          <button
            type="button"
            class="plain small"
            aria-pressed={isTable.value}
            aria-label={`${props.title} as a table`}
            onClick={() => {
              isTable.value = !isTable.value;
            }}
          >
            Table
          </button>
        </figcaption>
        <Legend {...props} pointed={pointed.value} />
        {isTable.value ? (
          <ChartTable {...props} />
        ) : (
          <div ref={place} class="plot" role="img" aria-label={describe(props)} />
        )}
      </figure>
    );
  },
  { props: ['title', 'times', 'series', 'format', 'summary'] },
);

/** What a series comes to: at a time, or over all of them. */
function figureOf({ values }: Series, { summary }: ChartProps, at: number | undefined) {
  if (at !== undefined) return values[at] ?? undefined;
  if (summary === 'sum') return values.reduce<number>((sum, value) => sum + (value ?? 0), 0);
  return values.findLast((value) => value !== null) ?? undefined;
}

function describe(props: ChartProps): string {
  const values = props.series.map((series) => {
    const value = figureOf(series, props, undefined);
    return `${series.name} ${value === undefined ? 'not measured' : props.format(value)}`;
  });
  return `${props.title}: ${values.join(', ') || 'nothing'}`;
}

function Legend(props: ChartProps & { pointed: number | undefined }) {
  const at = props.pointed === undefined ? undefined : props.times[props.pointed];
  return (
    <p class="legend">
      {props.series.map((series, index) => {
        const value = figureOf(series, props, props.pointed);
        return (
          <span key={series.name}>
            <i class={`key key-${(index % COLOURS) + 1}`} />
            {series.name} <b>{value === undefined ? '–' : props.format(value)}</b>
          </span>
        );
      })}
      {props.series.length === 0 && <span class="soft">Nothing in this time</span>}
      {at !== undefined && <span class="soft">{both(at)}</span>}
    </p>
  );
}

function ChartTable(props: ChartProps) {
  return (
    <section class="scrolled" tabindex="0" aria-label={`${props.title}, table`}>
      <table class="figures">
        <thead>
          <tr>
            <th scope="col">Time</th>
            {props.series.map(({ name }) => (
              <th key={name} scope="col">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {props.times.map((time, index) => (
            <tr key={time}>
              <th scope="row">{both(time)}</th>
              {props.series.map(({ name, values }) => {
                const value = values[index];
                return <td key={name}>{value == null ? '–' : props.format(value)}</td>;
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

function makePlot(
  { times, series, format }: ChartProps,
  place: HTMLElement,
  pointed: { value: number | undefined },
): uPlot {
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string) => style.getPropertyValue(name).trim();
  const axis = {
    stroke: colour('--ink-soft'),
    grid: { stroke: colour('--line'), width: 1 },
    ticks: { show: false },
    font: `12px ${colour('--sans')}`,
  };
  const isLong = (times.at(-1) ?? 0) - (times[0] ?? 0) > 2 * 86_400;
  const options: uPlot.Options = {
    width: place.clientWidth,
    height: HEIGHT,
    padding: [8, 24, 0, 0],
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false }, points: { size: 6 } },
    scales: { y: { range: (_plot, _low, high) => [0, Math.max(high * 1.1, 4)] } },
    axes: [
      {
        ...axis,
        size: 28,
        values: (_plot, splits) =>
          splits.map((second) => (isLong ? date : clock).format(second * 1000)),
      },
      { ...axis, size: 64, values: (_plot, splits) => splits.map(format) },
    ],
    series: [
      {},
      ...series.map((_one, index) => ({
        stroke: colour(colourName(index)),
        width: 1.75,
        spanGaps: true,
      })),
    ],
    hooks: {
      setCursor: [
        ({ cursor }) => {
          pointed.value = cursor.idx ?? undefined;
        },
      ],
    },
  };
  const data: uPlot.AlignedData = [[...times], ...series.map(({ values }) => [...values])];
  return new uPlot(options, data, place);
}
