/** What a delivery costs the queue with 100,000 queued, against the same with 1,000. */
import type { QueueCost, QueueLoad } from './queue-worker.ts';
import { type Benchmark, type Figure, interleave, median, medianRatio } from './support/figures.ts';
import { startWorker } from './support/worker.ts';

const FEW = 1_000;
const MANY = 100_000;
const DELIVERIES = 3_000;
const ROUNDS = 5;
/** Flat, but for the caches that a larger table misses. */
const TARGET = 1.5;

export const queueCost: Benchmark = {
  name: 'queue-cost',
  async run() {
    const worker = startWorker<QueueLoad, QueueCost>('../queue-worker.ts');
    try {
      const cpu: Record<number, number[]> = { [FEW]: [], [MANY]: [] };
      const cost = (queued: number) => async () => {
        const { ms, cpuMs } = await worker.ask({ queued, deliveries: DELIVERIES });
        cpu[queued]?.push(cpuMs);
        return ms;
      };
      await cost(FEW)();
      cpu[FEW] = [];
      const { few, many } = await interleave(ROUNDS, { few: cost(FEW), many: cost(MANY) });
      return [
        atMost('queue: time of a delivery, 100,000 queued / 1,000', many, few),
        atMost('queue: processor of the same', cpu[MANY] ?? [], cpu[FEW] ?? []),
      ];
    } finally {
      await worker.stop();
    }
  },
};

function atMost(name: string, ours: readonly number[], reference: readonly number[]): Figure {
  const ratio = medianRatio(ours, reference);
  return {
    name,
    ours: `${median(ours).toFixed(3)} ms`,
    reference: `${median(reference).toFixed(3)} ms`,
    ratio: ratio.toFixed(2),
    target: `<= ${TARGET}`,
    met: ratio <= TARGET,
  };
}
