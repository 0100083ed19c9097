/** A sync that finds 10 messages added, 20 updated and 5 removed in a huge mailbox. */
import assert from 'node:assert/strict';
import { atLeast, type Benchmark, beside } from './support/figures.ts';
import { MANY, withMailboxes } from './support/mailboxes.ts';
import { CONNECTIONS, measureRates, withHello } from './support/measure-http.ts';
import { makeToken } from './support/service.ts';
import { syncRequest } from './support/sync-request.ts';

const TARGETS = { sqlite: 0.25, postgres: 0.06 };
const QUESTIONS = 9_000;

/** What is measured has to be what it says. */
async function checkChanges(port: number, bearer: string, body: object): Promise<void> {
  const response = await fetch(`http://127.0.0.1:${port}/mail/sync`, {
    method: 'POST',
    headers: { 'content-type': 'application/json', authorization: `Bearer ${bearer}` },
    body: JSON.stringify(body),
  });
  const { changes } = (await response.json()) as { changes: Record<string, unknown[]> };
  const counts = [changes.added?.length, changes.updated?.length, changes.removed?.length];
  assert.deepEqual(counts, [10, 20, 5]);
}

export const syncChanges: Benchmark = {
  name: 'sync-changes',
  run: (options) =>
    withMailboxes(options, ({ port }, { many }) =>
      withHello(async (hello, play) => {
        const bearer = await makeToken(port, many);
        const { uidvalidity, before } = many;
        await checkChanges(port, bearer, { uidvalidity, token: before });
        const requests = [syncRequest(bearer, uidvalidity, before)];
        // No two alike among so many that none is answered from memory.
        const apart = Array.from({ length: QUESTIONS }, (_, index) =>
          syncRequest(bearer, uidvalidity, before, 1_000 + index),
        );
        const loads = {
          hello,
          sync: { port, connections: CONNECTIONS, requests },
          apart: { port, connections: CONNECTIONS, requests: apart },
        };
        const rates = await measureRates(play, loads);
        const name = `sync, 10 added, 20 updated, 5 removed, ${MANY} messages`;
        const target = TARGETS[options.postgres === undefined ? 'sqlite' : 'postgres'];
        return [
          atLeast(name, 'req/s', rates.sync, rates.hello, target),
          beside(`${name}, asked once each`, 'req/s', rates.apart, rates.hello),
        ];
      }),
    ),
};
