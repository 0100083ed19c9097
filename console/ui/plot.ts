/** What a chart is made of, and how uPlot draws it (chart.tsx). */
// Before uPlot.
import './language.ts';
import uPlot from 'uplot';
import type { RouteLocationRaw } from 'vue-router';
import { formatClock, formatDate } from './format.ts';

export interface Series {
  readonly name: string;
  /** One for each time; null where nothing was measured. */
  readonly values: readonly (number | null)[];
  /** Custom property with its colour; those of the charts by turns when left out. */
  readonly colour?: string;
  /** What it counts, one by one. */
  readonly link?: RouteLocationRaw | undefined;
}

export interface ChartProps {
  title: string;
  /** Seconds since 1970, ascending. */
  times: readonly number[];
  series: readonly Series[];
  format: (value: number) => string;
  /** Columns stand on each other, and their names have sums; lines have the last value. */
  kind: 'columns' | 'lines';
  /** Gets the seconds at which a dragged span begins and ends. */
  onSpan?: (after: number, before: number) => void;
}

export const HEIGHT = 160;
export const colourOf = ({ colour }: Series, index: number) =>
  colour ?? `--chart-${(index % 4) + 1}`;

const DAY = 86_400;

/** The seconds that a sample stands for. */
const widthOf = (times: readonly number[]) => (times[1] ?? DAY) - (times[0] ?? 0);

/** Columns that stand on each other: the highest is drawn first, and the others before it. */
function stack(series: readonly Series[]): (number | null)[][] {
  let below: readonly (number | null)[] = [];
  const sums = series.map(({ values }) => {
    below = values.map((value, index) => (value ?? 0) + (below[index] ?? 0));
    return [...below];
  });
  return sums.reverse();
}

function axesOf({ times, format }: ChartProps, colour: (name: string) => string): uPlot.Axis[] {
  const axis = {
    stroke: colour('--ink-soft'),
    grid: { stroke: colour('--line'), width: 1 },
    ticks: { show: false },
    font: `12px ${colour('--sans')}`,
  };
  const isLong = (times.at(-1) ?? 0) - (times[0] ?? 0) > 2 * DAY;
  const write = isLong ? formatDate : formatClock;
  return [
    {
      ...axis,
      grid: { show: false },
      size: 24,
      values: (_plot, splits) => splits.map((second) => write(second * 1000)),
    },
    {
      ...axis,
      size: 56,
      space: 40,
      values: (_plot, splits) => splits.map(format),
    },
  ];
}

function linesOf({ kind, series }: ChartProps, colour: (name: string) => string): uPlot.Series[] {
  const columns = uPlot.paths.bars?.({ size: [0.8, 32, 1] });
  const all = series.map((one, index): uPlot.Series => {
    const ink = colour(colourOf(one, index));
    if (kind === 'columns' && columns) {
      return { fill: ink, stroke: ink, width: 0, paths: columns, points: { show: false } };
    }
    const measured = one.values.flatMap((value, at) => (value === null ? [] : [at]));
    // A line needs two of them.
    const points = { show: true, size: 7, fill: ink, filter: () => measured };
    return {
      stroke: ink,
      width: 1.75,
      spanGaps: true,
      points: measured.length === 1 ? points : { show: false },
    };
  });
  return kind === 'columns' ? all.reverse() : all;
}

export function drawChart(
  props: ChartProps,
  place: HTMLElement,
  point: (index: number | undefined) => void,
): uPlot {
  const { times, kind, series, onSpan } = props;
  const style = getComputedStyle(document.documentElement);
  const colour = (name: string) => style.getPropertyValue(name).trim();
  const half = widthOf(times) / 2;
  const middles = times.map((time) => time + half);
  const options: uPlot.Options = {
    width: place.clientWidth,
    height: HEIGHT,
    // On the right half of the last label, which may stand at the end of the axis.
    padding: [8, 28, 0, 0],
    legend: { show: false },
    cursor: {
      y: false,
      drag: { x: onSpan !== undefined, y: false, setScale: false },
      points: { show: kind === 'lines', size: 6 },
      // The others follow the cursor; a span is of the chart that it was dragged on.
      sync: {
        key: 'charts',
        filters: { pub: (type) => type === 'mousemove' || type === 'mouseleave' },
      },
    },
    scales: {
      x: { range: () => [(middles[0] ?? 0) - half, (middles.at(-1) ?? 0) + half] },
      y: { range: (_plot, _low, high) => [0, Math.max(high * 1.1, 4)] },
    },
    axes: axesOf(props, colour),
    series: [{}, ...linesOf(props, colour)],
    hooks: {
      setCursor: [({ cursor }) => point(cursor.idx ?? undefined)],
      setSelect: [
        (plot) => {
          const { left, width } = plot.select;
          if (width > 0) onSpan?.(plot.posToVal(left, 'x'), plot.posToVal(left + width, 'x'));
        },
      ],
    },
  };
  const values = series.map((one) => [...one.values]);
  const data: uPlot.AlignedData = [middles, ...(kind === 'columns' ? stack(series) : values)];
  return new uPlot(options, data, place);
}
