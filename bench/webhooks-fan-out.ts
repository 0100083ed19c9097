/** Webhooks to one receiver, 32 under way at a time, against plain requests to the same one. */
import { type Benchmark, interleave, median, medianRatio, shorten } from './support/figures.ts';
import { startWorker } from './support/worker.ts';
import type { FannedOut, FanOut } from './webhooks-sender.ts';

const DELIVERIES = 3_000;
const IN_FLIGHT = 32;
const ROUNDS = 5;
const TARGET_PER_SECOND = 500;
/** A long run, for what stays in memory after it. */
const LONG_RUN = 30_000;
const GROWTH_MAX = 16 * 1024 * 1024;

export const webhooksFanOut: Benchmark = {
  name: 'webhooks-fan-out',
  async run() {
    const receiver = startWorker<null, number>('../webhooks-receiver.ts');
    const sender = startWorker<FanOut, FannedOut>('../webhooks-sender.ts', {
      nodeArgs: ['--expose-gc'],
    });
    try {
      const url = `http://127.0.0.1:${await receiver.ask(null)}/hook`;
      const fanOut = (how: FanOut['how'], deliveries = DELIVERIES) =>
        sender.ask({ how, url, deliveries, inFlight: IN_FLIGHT });
      await fanOut('plain');
      await fanOut('queue');
      const rates = await interleave(ROUNDS, {
        plain: async () => (await fanOut('plain')).perSecond,
        queue: async () => (await fanOut('queue')).perSecond,
      });
      const before = (await fanOut('queue')).memory.held;
      const after = (await fanOut('queue', LONG_RUN)).memory.held;
      const ours = median(rates.queue);
      return [
        {
          name: `webhooks, ${IN_FLIGHT} in flight`,
          ours: `${shorten(ours)} /s`,
          reference: `${shorten(median(rates.plain))} /s`,
          ratio: medianRatio(rates.queue, rates.plain).toFixed(2),
          target: `>= ${TARGET_PER_SECOND} /s`,
          met: ours >= TARGET_PER_SECOND,
        },
        {
          name: `memory held after ${shorten(LONG_RUN)} webhooks, after ${shorten(DELIVERIES)}`,
          ours: `${shorten(after / 1024 ** 2)} MiB`,
          reference: `${shorten(before / 1024 ** 2)} MiB`,
          ratio: (after / before).toFixed(2),
          target: '<= 16 MiB more',
          met: after - before <= GROWTH_MAX,
        },
      ];
    } finally {
      await Promise.all([sender.stop(), receiver.stop()]);
    }
  },
};
