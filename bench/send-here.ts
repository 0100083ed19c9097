/**
 * Mail of 2 KB from one account to another one here, by HTTP. On PostgreSQL the reference is pgbench: the same rows, each by a
 * statement of its own, without HTTP, the message's composition and its signature.
 */
import { join } from 'node:path';
import { withAccounts } from './support/accounts.ts';
import { atLeast, type Benchmark, type Figure } from './support/figures.ts';
import { writeRequest } from './support/http-client.ts';
import type { HttpLoad } from './support/load-http.ts';
import { CONNECTIONS, measureRates, withHello } from './support/measure-http.ts';
import { runPgbench, writeSendScript } from './support/pgbench.ts';
import { makeToken } from './support/service.ts';

const TARGETS = { sqlite: 0.02, postgres: 0.3 };
const ACCOUNTS = 50;
const SECONDS = 4;

export const sendHere: Benchmark = {
  name: 'send-here',
  run: ({ postgres }) =>
    withAccounts(
      ACCOUNTS,
      async ({ port }, accounts, { dataDir, databaseUrl }) =>
        withHello(async (hello, play): Promise<Figure[]> => {
          const tokens = await Promise.all(accounts.map((account) => makeToken(port, account)));
          const requests = tokens.map((bearer, at) => {
            const headers = {
              authorization: `Bearer ${bearer}`,
              'content-type': 'application/json',
            };
            const to = [{ address: accounts[(at + ACCOUNTS / 2) % ACCOUNTS]?.address }];
            const text = 'The quick brown fox jumps over the lazy dog.\r\n'.repeat(40);
            const body = JSON.stringify({ to, subject: 'Hello', text });
            return writeRequest('POST', '/mail/send', headers, body);
          });
          const ours: HttpLoad = { port, connections: CONNECTIONS, requests };
          const name = 'mail to another account here';
          if (databaseUrl === undefined) {
            const rates = await measureRates(play, { hello, ours });
            return [atLeast(name, 'req/s', rates.ours, rates.hello, TARGETS.sqlite)];
          }
          const script = join(dataDir, 'send.sql');
          writeSendScript(script);
          const reference: number[] = [];
          const measured: number[] = [];
          for (let round = 0; round < 5; round++) {
            const rates = await measureRates(play, { ours }, { rounds: 1, seconds: SECONDS });
            measured.push(...rates.ours);
            const options = { clients: 20, accounts: ACCOUNTS, seconds: SECONDS };
            reference.push(await runPgbench(databaseUrl, script, options));
          }
          return [
            atLeast(`${name}, beside pgbench`, 'req/s', measured, reference, TARGETS.postgres),
          ];
        }),
      [],
      postgres,
    ),
};
