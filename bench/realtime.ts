/**
 * 5,000 clients of 5,000 accounts: how soon a batch with one event for each reaches the last of
 * them, and what a connected client costs in memory, against a loop over bare `ws` sockets.
 */
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { withAccounts } from './support/accounts.ts';
import { eventsRequest, writeBatch } from './support/event-batches.ts';
import { type Benchmark, interleave, median, medianRatio, shorten } from './support/figures.ts';
import { writeRequest } from './support/http-client.ts';
import type { SocketsTask } from './support/load-sockets.ts';
import type { MemoryUse } from './support/memory.ts';
import { makeTokens } from './support/service.ts';
import { startWorker, type Worker } from './support/worker.ts';

const SOCKETS = 5_000;
/** Opened before memory is first looked at: what is made once is not counted. */
const WARM_UP_SOCKETS = 500;
const ROUNDS = 9;
const TIMES_MAX = 3;
const KB_MAX = 25;
const PROBE = new URL('support/memory-probe.ts', import.meta.url).href;

/** Asks the memory probe in the service. */
async function memoryOfService(pid: number, folder: string): Promise<MemoryUse> {
  const path = join(folder, 'memory.json');
  rmSync(path, { force: true });
  process.kill(pid, 'SIGUSR2');
  while (!existsSync(path)) await delay(10);
  return JSON.parse(readFileSync(path, 'utf8')) as MemoryUse;
}

/** Opens all clients; answers the memory that each took, in KB. */
async function openAll(
  clients: Worker<SocketsTask, number>,
  target: { port: number; greetings: number },
  tokens: readonly (string | undefined)[],
  memory: () => Promise<MemoryUse>,
): Promise<MemoryUse> {
  const some = tokens.slice(0, WARM_UP_SOCKETS);
  const rest = tokens.slice(WARM_UP_SOCKETS);
  await clients.ask({ do: 'open', ...target, tokens: some });
  const before = await memory();
  await clients.ask({ do: 'open', ...target, tokens: rest });
  const after = await memory();
  const each = (of: keyof MemoryUse) => (after[of] - before[of]) / rest.length / 1024;
  return { resident: each('resident'), held: each('held') };
}

export const realtime: Benchmark = {
  name: 'realtime',
  run: () =>
    withAccounts(
      SOCKETS,
      async ({ port, pid }, accounts, { dataDir: folder }) => {
        const bare = startWorker<'port' | 'memory', number | MemoryUse>('reference-sockets.ts', {
          nodeArgs: ['--expose-gc'],
        });
        const bareClients = startWorker<SocketsTask, number>('load-sockets.ts');
        const clients = startWorker<SocketsTask, number>('load-sockets.ts');
        try {
          const tokens = await makeTokens(port, accounts);
          const barePort = Number(await bare.ask('port'));
          const bareMemory = await openAll(
            bareClients,
            { port: barePort, greetings: 0 },
            tokens.map(() => undefined),
            async () => (await bare.ask('memory')) as MemoryUse,
          );
          const memory = await openAll(clients, { port, greetings: 1 }, tokens, () =>
            memoryOfService(pid, folder),
          );
          const users = accounts.map(({ address }) => address);
          let round = 0;
          const times = await interleave(ROUNDS, {
            bare: () =>
              bareClients.ask({ do: 'trigger', port: barePort, request: writeRequest('GET', '/') }),
            ours: () => {
              const request = eventsRequest(writeBatch(users, SOCKETS, round++));
              return clients.ask({ do: 'trigger', port, request });
            },
          });
          const ratio = medianRatio(times.ours, times.bare);
          return [
            {
              name: `realtime, ${SOCKETS} events to ${SOCKETS} sockets, last arrival`,
              ours: `${shorten(median(times.ours))} ms`,
              reference: `${shorten(median(times.bare))} ms`,
              ratio: ratio.toFixed(2),
              target: `<= ${TIMES_MAX}`,
              met: ratio <= TIMES_MAX,
            },
            memoryFigure('resident', memory.resident, bareMemory.resident),
            memoryFigure('held', memory.held, bareMemory.held),
          ];
        } finally {
          await Promise.all([bare.stop(), bareClients.stop(), clients.stop()]);
        }
      },
      ['--expose-gc', '--import', PROBE],
    ),
};

function memoryFigure(kind: string, ours: number, bare: number) {
  return {
    name: `realtime, memory of a socket (${kind})`,
    ours: `${shorten(ours)} KB`,
    reference: `${shorten(bare)} KB`,
    ratio: (ours / bare).toFixed(2),
    target: `<= ${KB_MAX} KB`,
    met: ours <= KB_MAX,
  };
}
