/** What the overview shows, out of what the service counted in steps of five minutes or an hour. */
import type { Overview, OverviewPoint } from '../api/types.ts';
import type { Series } from '../ui/plot.ts';
import { mailWithin, queueOf } from './links.ts';

type Amounts = Readonly<Record<string, number>>;

export const sum = (amounts: Amounts) =>
  Object.values(amounts).reduce((total, amount) => total + amount, 0);

export function totalsOf(points: readonly OverviewPoint[]) {
  const all = (figureOf: (point: OverviewPoint) => number) =>
    points.reduce((amount, point) => amount + figureOf(point), 0);
  return {
    received: all(({ received }) => received),
    refused: all(({ refused }) => sum(refused)),
    sent: all(({ sent }) => sent),
    bounced: all(({ bounced }) => bounced),
  };
}

/** Reasons of refusals with their number, the most frequent first. */
export function topReasons(points: readonly OverviewPoint[]): [reason: string, amount: number][] {
  const amounts = new Map<string, number>();
  for (const { refused } of points) {
    for (const [reason, amount] of Object.entries(refused)) {
      amounts.set(reason, (amounts.get(reason) ?? 0) + amount);
    }
  }
  return [...amounts].sort(([, one], [, other]) => other - one);
}

/** A chart has so many columns at most: more would be thinner than the gaps between them. */
const COLUMNS = 75;
/** How many steps become one: all divide a day. */
const JOINED = [1, 2, 3, 4, 6, 12, 24] as const;

/** Joins the points of a column. */
function join(points: readonly OverviewPoint[]): OverviewPoint[][] {
  const step = Date.parse(points[1]?.at ?? '') - Date.parse(points[0]?.at ?? '');
  const joined = JOINED.find((some) => points.length / some <= COLUMNS) ?? points.length;
  const width = step * joined || 1;
  const groups = Map.groupBy(points, ({ at }) => Math.floor(Date.parse(at) / width));
  return [...groups.values()];
}

export interface OverviewCharts {
  /** Seconds since 1970. */
  readonly times: readonly number[];
  readonly mailIn: readonly Series[];
  readonly mailOut: readonly Series[];
  readonly waiting: readonly Series[];
  readonly latency: readonly Series[];
}

export function chartsOf({ series, now }: Overview): OverviewCharts {
  // The queue is measured every five minutes, and read now.
  const points = series.map((point, index) =>
    index === series.length - 1 && now.queue ? { ...point, queue: now.queue } : point,
  );
  const groups = join(points);
  const counted = (
    name: string,
    figureOf: (point: OverviewPoint) => number,
    { link, colour }: Pick<Series, 'link' | 'colour'>,
  ): Series => ({
    name,
    values: groups.map((group) => group.reduce((total, point) => total + figureOf(point), 0)),
    link,
    ...(colour && { colour }),
  });
  const start = Date.parse(series[0]?.at ?? '') || Date.now();
  /** The messages of the whole span. */
  const mail = (terms: string) => mailWithin(start, Date.now(), terms);
  /** The highest of what was measured. */
  const measured = (
    name: string,
    figureOf: (point: OverviewPoint) => number | undefined,
    colour?: string,
  ): Series => ({
    name,
    values: groups.map((group) => {
      const values = group.map(figureOf).filter((value) => value !== undefined);
      return values.length === 0 ? null : Math.max(...values);
    }),
    ...(colour && { colour }),
  });
  return {
    times: groups.map(([first]) => Date.parse(first?.at ?? '') / 1000),
    mailIn: [
      counted('Received', ({ received }) => received, { link: mail('dir:in') }),
      counted('Refused', ({ refused }) => sum(refused), {
        link: mail('is:refused'),
        colour: '--bad',
      }),
      counted('Deferred', ({ deferred }) => deferred, {
        link: mail('is:deferred_by_us'),
        colour: '--chart-4',
      }),
    ],
    mailOut: [
      counted('Delivered', ({ sent }) => sent, { link: mail('dir:out is:delivered') }),
      // Messages are not told by these: what of them waits is in the queue.
      counted('Forwarded', ({ forwarded }) => forwarded, { link: queueOf('kind:forward') }),
      counted('Webhooks', ({ webhooks }) => webhooks, { link: queueOf('kind:webhook') }),
      counted('Bounced', ({ bounced }) => bounced, { link: mail('is:bounced'), colour: '--bad' }),
    ],
    waiting: [
      {
        ...measured('Queued', ({ queue }) => queue && (queue.queued ?? 0), '--chart-4'),
        link: queueOf('is:queued'),
      },
      {
        ...measured('Held', ({ queue }) => queue && (queue.held ?? 0), '--chart-3'),
        link: queueOf('is:held'),
      },
    ],
    latency: [
      measured('SMTP', ({ smtp_p95_ms }) => smtp_p95_ms),
      measured('HTTP', ({ http_p95_ms }) => http_p95_ms),
    ],
  };
}
