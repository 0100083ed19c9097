/** What benchmarks report. */

/** One line of the table: what was measured, beside what it is measured by. */
export interface Figure {
  readonly name: string;
  readonly ours: string;
  readonly reference: string;
  readonly ratio: string;
  readonly target: string;
  readonly met: boolean;
}

/** What the command line gives to every benchmark. */
export interface BenchmarkOptions {
  /** A PostgreSQL server to measure on, where the benchmark can; SQLite when left out. */
  readonly postgres: string | undefined;
  /** How much there is to search in. */
  readonly messages: number;
}

export interface Benchmark {
  readonly name: string;
  run(options: BenchmarkOptions): Promise<Figure[]>;
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const low = sorted[Math.floor((sorted.length - 1) / 2)];
  const high = sorted[Math.ceil((sorted.length - 1) / 2)];
  if (low === undefined || high === undefined) throw new Error('no values');
  return (low + high) / 2;
}

/**
 * Measures several things in turn (A B C A B C ...), so that whatever else the machine does befalls
 * all of them alike.
 *
 * @returns for each thing its figures, in the order of the rounds
 */
export async function interleave<Name extends string>(
  rounds: number,
  things: Readonly<Record<Name, () => Promise<number>>>,
): Promise<Record<Name, number[]>> {
  const names = Object.keys(things) as Name[];
  const values = Object.fromEntries(names.map((name) => [name, []])) as unknown as Record<
    Name,
    number[]
  >;
  for (let round = 0; round < rounds; round++) {
    for (const name of names) values[name].push(await things[name]());
  }
  return values;
}

/** The median of the ratios of each round: the two sides of a round saw the same machine. */
export function medianRatio(ours: readonly number[], reference: readonly number[]): number {
  return median(ours.map((value, round) => value / (reference[round] ?? Number.NaN)));
}

/** A figure that has to be at least so many times the reference. */
export function atLeast(
  name: string,
  unit: string,
  ours: readonly number[],
  reference: readonly number[],
  target: number,
): Figure {
  const ratio = medianRatio(ours, reference);
  return {
    name,
    ours: `${shorten(median(ours))} ${unit}`,
    reference: `${shorten(median(reference))} ${unit}`,
    ratio: ratio.toFixed(2),
    target: `>= ${target}`,
    met: ratio >= target,
  };
}

/** A figure that may be at most so many times the reference. */
export function atMost(
  name: string,
  unit: string,
  ours: readonly number[],
  reference: readonly number[],
  target: number,
): Figure {
  const ratio = medianRatio(ours, reference);
  return {
    ...atLeast(name, unit, ours, reference, 0),
    target: `<= ${target}`,
    met: ratio <= target,
  };
}

/** A figure that counts for itself; where there is a reference, it says how fast the machine was. */
export function absolute(
  name: string,
  values: readonly number[],
  { unit, target, isMost }: { unit: string; target: number; isMost: boolean },
  reference?: readonly number[],
): Figure {
  const value = median(values);
  return {
    name,
    ours: `${shorten(value)} ${unit}`,
    reference: reference ? `${shorten(median(reference))} req/s` : '-',
    ratio: '-',
    target: `${isMost ? '<=' : '>='} ${shorten(target)} ${unit}`,
    met: isMost ? value <= target : value >= target,
  };
}

/** A figure that is shown beside others, and has to be nothing. */
export function beside(
  name: string,
  unit: string,
  ours: readonly number[],
  reference: readonly number[],
): Figure {
  return { ...atLeast(name, unit, ours, reference, 0), target: '-' };
}

/** Three digits, and thousands apart. */
export function shorten(value: number): string {
  return value >= 100
    ? Math.round(value).toLocaleString('en-US')
    : String(Number(value.toPrecision(3)));
}

export function printTable(figures: readonly Figure[]): void {
  const rows = [
    ['name', 'ours', 'reference', 'ratio', 'target', 'met'],
    ...figures.map(({ name, ours, reference, ratio, target, met }) => [
      name,
      ours,
      reference,
      ratio,
      target,
      met ? 'yes' : 'NO',
    ]),
  ];
  const widths = rows[0]?.map((_, column) =>
    Math.max(...rows.map((row) => row[column]?.length ?? 0)),
  );
  for (const row of rows) {
    console.log(row.map((cell, column) => cell.padEnd(widths?.[column] ?? 0)).join(' | '));
  }
}
