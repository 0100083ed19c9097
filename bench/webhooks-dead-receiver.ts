/** How long a webhook takes beside 10,000 for a dead receiver, against the same without those. */
import { type Benchmark, type Figure, median } from './support/figures.ts';
import { startWorker } from './support/worker.ts';
import type { BesideDead } from './webhooks-beside-dead.ts';

const LIVE = 300;
const DEAD = 10_000;
const TARGET_MS = 1_000;

export const webhooksDeadReceiver: Benchmark = {
  name: 'webhooks-dead-receiver',
  async run() {
    const receiver = startWorker<null, number>('../webhooks-receiver.ts');
    const sender = startWorker<BesideDead, number[]>('../webhooks-beside-dead.ts');
    try {
      const url = `http://127.0.0.1:${await receiver.ask(null)}/hook`;
      const measure = (dead: number, manner: BesideDead['manner']) =>
        sender.ask({ url, live: LIVE, dead, manner });
      const alone = await measure(0, 'silent');
      const figures: Figure[] = [];
      for (const manner of ['silent', 'refusing'] as const) {
        const beside = await measure(DEAD, manner);
        const most = Math.max(...beside);
        figures.push({
          name: `slowest webhook beside 10,000 for a ${manner} receiver`,
          ours: `${most.toFixed(0)} ms`,
          reference: `${Math.max(...alone).toFixed(0)} ms`,
          ratio: `${(median(beside) / median(alone)).toFixed(2)} (medians)`,
          target: `<= ${TARGET_MS} ms`,
          met: most <= TARGET_MS,
        });
      }
      return figures;
    } finally {
      await Promise.all([sender.stop(), receiver.stop()]);
    }
  },
};
