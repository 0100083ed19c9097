/**
 * Counts as columns, measured values as lines. What they show is there as a table, too, for those who do not see or point.
 * All charts of a screen have one cursor; a span that is dragged over one is given to `onSpan`. Where there is one sample alone it
 * is a dot, and the legend says since when there are any.
 */
import type uPlot from 'uplot';
import { computed, defineComponent, onBeforeUnmount, onMounted, ref, watch } from 'vue';
import { RouterLink } from 'vue-router';
import { zone } from '../remembered.ts';
import { isDark } from '../theme.ts';
import { formatClock, formatDateClock } from './format.ts';
import { type ChartProps, colourOf, drawChart, HEIGHT, type Series } from './plot.ts';

/** The place that is pointed at on all charts. */
const pointed = ref<number>();

export const Chart = defineComponent(
  (props: ChartProps) => {
    const place = ref<HTMLElement>();
    const isTable = ref(false);
    let plot: uPlot | undefined;
    // A look that brings the same draws nothing.
    const drawn = computed(() =>
      JSON.stringify([props.times, props.series.map(({ values }) => values)]),
    );

    const draw = () => {
      plot?.destroy();
      plot = undefined;
      if (!place.value) return;
      const point = (index: number | undefined) => {
        pointed.value = index;
      };
      plot = drawChart(props, place.value, point);
    };
    const resize = new ResizeObserver(([entry]) => {
      if (entry) plot?.setSize({ width: entry.contentRect.width, height: HEIGHT });
    });
    watch(place, (element) => {
      resize.disconnect();
      if (element) resize.observe(element);
      draw();
    });
    watch([drawn, isDark, zone], draw, { flush: 'post' });
    onMounted(draw);
    onBeforeUnmount(() => {
      resize.disconnect();
      plot?.destroy();
    });
    const toggle = () => {
      isTable.value = !isTable.value;
    };

    return () => (
      <figure class="card chart">
        <figcaption>
          <h2>{props.title}</h2>
          <button
            type="button"
            class="plain small"
            aria-pressed={isTable.value}
            aria-label={`${props.title} as a table`}
            onClick={toggle}
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
  { props: ['title', 'times', 'series', 'format', 'kind', 'onSpan'] },
);

/** What a series comes to: at a time, or over all of them. */
function figureOf({ values }: Series, { kind }: ChartProps, at: number | undefined) {
  if (at !== undefined) return values[at] ?? undefined;
  if (kind === 'columns') return values.reduce<number>((sum, value) => sum + (value ?? 0), 0);
  return values.findLast((value) => value !== null) ?? undefined;
}

function describe(props: ChartProps): string {
  const values = props.series.map((series) => {
    const value = figureOf(series, props, undefined);
    return `${series.name} ${value === undefined ? 'not measured' : props.format(value)}`;
  });
  return `${props.title}: ${values.join(', ') || 'nothing'}`;
}

/** When the first value was measured, where that is not the beginning. */
function measuredSince({ times, series, kind }: ChartProps): number | undefined {
  if (kind === 'columns') return undefined;
  const first = times.findIndex((_time, index) =>
    series.some(({ values }) => values[index] != null),
  );
  return first > times.length / 10 ? times[first] : undefined;
}

function Legend(props: ChartProps & { pointed: number | undefined }) {
  const at = props.pointed === undefined ? undefined : props.times[props.pointed];
  const since = measuredSince(props);
  return (
    <p class="legend">
      {props.series.map((series, index) => {
        const value = figureOf(series, props, props.pointed);
        const { name, link } = series;
        return (
          <span key={name}>
            <i class="key" style={{ background: `var(${colourOf(series, index)})` }} />
            {link ? <RouterLink to={link}>{() => name}</RouterLink> : name}{' '}
            <b>{value === undefined ? '–' : props.format(value)}</b>
          </span>
        );
      })}
      {at !== undefined && <span class="soft">{formatDateClock(at * 1000)}</span>}
      {at === undefined && since !== undefined && (
        <span class="soft">measured since {formatClock(since * 1000)}</span>
      )}
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
              <th scope="row">{formatDateClock(time * 1000)}</th>
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
