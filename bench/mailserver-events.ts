/** Mail server events in batches of 1,000 lines, against their signature and parsing alone. */
import { withAccounts } from './support/accounts.ts';
import { atLeast, type Benchmark, interleave } from './support/figures.ts';
import type { Played } from './support/http-client.ts';
import type { EventsLoad } from './support/load-events.ts';
import type { BatchesToRead } from './support/reference-events.ts';
import { startWorker } from './support/worker.ts';

/** Each event is a row in the database, which the reference does without. */
const TARGET = 0.05;
const LINES = 1_000;
const BATCHES = 100;
const USERS = 1_000;
const CONNECTIONS = 4;
const ROUNDS = 7;

export const mailserverEvents: Benchmark = {
  name: 'mailserver-events',
  run: () =>
    withAccounts(USERS, async ({ port }, accounts) => {
      const users = accounts.map(({ address }) => address);
      const reference = startWorker<BatchesToRead, number>('reference-events.ts');
      const generator = startWorker<EventsLoad, Played>('load-events.ts');
      try {
        const batches = { users, batches: BATCHES, lines: LINES };
        const ours = async () => {
          const played = await generator.ask({ ...batches, port, connections: CONNECTIONS });
          return (played.answers * LINES) / played.seconds;
        };
        await Promise.all([reference.ask(batches), ours()]);
        const rates = await interleave(ROUNDS, { reference: () => reference.ask(batches), ours });
        const name = `mail server events, ${LINES} a batch`;
        return [atLeast(name, 'events/s', rates.ours, rates.reference, TARGET)];
      } finally {
        await Promise.all([reference.stop(), generator.stop()]);
      }
    }),
};
