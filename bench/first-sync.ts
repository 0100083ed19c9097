/** The first sync of a huge mailbox: how much it sends, and whether others have to wait for it. */
import { type Benchmark, median, shorten } from './support/figures.ts';
import type { FirstSync, FirstSynced } from './support/load-first-sync.ts';
import { MANY, withMailboxes } from './support/mailboxes.ts';
import { makeToken } from './support/service.ts';
import { startWorker } from './support/worker.ts';

const BYTES_MAX = 2_000_000;
const PAUSE_MAX_MS = 100;
const ROUNDS = 9;

export const firstSync: Benchmark = {
  name: 'first-sync',
  run: (options) =>
    withMailboxes(options, async ({ port }, { many }) => {
      const bearer = await makeToken(port, many);
      const client = startWorker<FirstSync, FirstSynced>('load-first-sync.ts');
      const runs: FirstSynced[] = [];
      try {
        for (let round = 0; round < ROUNDS; round++) runs.push(await client.ask({ port, bearer }));
      } finally {
        await client.stop();
      }
      const bytes = median(runs.map((run) => run.bytes));
      const waits = runs.map(({ longestWait }) => longestWait);
      const took = shorten(median(runs.map(({ ms }) => ms)));
      return [
        {
          name: `first sync of ${MANY} messages, JSON`,
          ours: `${shorten(bytes / 1e6)} MB`,
          reference: '-',
          ratio: '-',
          target: '< 2 MB',
          met: bytes < BYTES_MAX,
        },
        {
          name: `first sync of ${MANY} messages (${took} ms), longest wait of another client`,
          // The first is the worst for code that was never run: it counts like every other.
          ours: `${shorten(median(waits))} ms (worst ${shorten(Math.max(...waits))} ms)`,
          reference: '-',
          ratio: '-',
          target: `< ${PAUSE_MAX_MS} ms`,
          met: median(waits) < PAUSE_MAX_MS,
        },
      ];
    }),
};
