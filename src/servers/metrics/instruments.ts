/** Makes the metrics of one process. */
import { Counter, Gauge, Histogram, Registry } from 'prom-client';
import { within } from '../../platform/time/time.ts';

export type Instruments = ReturnType<typeof createInstruments>;

/** How long a scrape waits for a value of the database or the disk; then the value is left out. */
const READ_MS = 500;

/** The value of a gauge; undefined, and noted, where it cannot be read in time: the others are needed most then. */
const readerFor =
  (unread: Set<string>) =>
  async <Value>(name: string, value: Promise<Value>): Promise<Value | undefined> => {
    const failed = Symbol(name);
    const found = await within(
      value.catch(() => failed),
      READ_MS,
      failed,
    );
    if (typeof found === 'symbol') {
      unread.add(name);
      return undefined;
    }
    unread.delete(name);
    return found;
  };

export function createInstruments() {
  const registry = new Registry();
  const registers = [registry];
  /** Names of gauges that could not be read when they were last asked. */
  const unread = new Set<string>();
  const inTime = readerFor(unread);
  return {
    registry,
    unread,
    counter: <Label extends string = never>(name: string, help: string, labelNames: Label[] = []) =>
      new Counter({ name, help, labelNames, registers }),
    gauge: <Label extends string = never>(name: string, help: string, labelNames: Label[] = []) =>
      new Gauge({ name, help, labelNames, registers }),
    histogram: <Label extends string = never>(
      name: string,
      help: string,
      buckets: number[],
      labelNames: Label[] = [],
    ) => new Histogram({ name, help, labelNames, buckets, registers }),
    /** A gauge that is read at each scrape, and has no value where there is none now. */
    read(name: string, help: string, value: () => Promise<number | undefined>) {
      new Gauge({
        name,
        help,
        registers,
        async collect() {
          const now = await inTime(name, value());
          if (now === undefined) this.remove();
          else this.set(now);
        },
      });
    },
    /** The same with a value for each of what is read. */
    readEach<Item, Label extends string>(
      name: string,
      help: string,
      items: () => Promise<readonly Item[]>,
      labelNames: Label[],
      set: (gauge: Gauge<Label>, item: Item) => void,
    ) {
      new Gauge({
        name,
        help,
        labelNames,
        registers,
        async collect() {
          const found = await inTime(name, items());
          this.reset();
          for (const item of found ?? []) set(this, item);
        },
      });
    },
    /** A counter of amounts that are counted elsewhere, by their names. */
    amounts<Label extends string>(
      name: string,
      help: string,
      label: Label,
      read: () => Readonly<Record<string, number>>,
    ) {
      new Counter<string>({
        name,
        help,
        labelNames: [label],
        registers,
        collect() {
          this.reset();
          for (const [of, amount] of Object.entries(read())) this.inc({ [label]: of }, amount);
        },
      });
    },
  };
}
