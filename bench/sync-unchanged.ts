/** A sync that finds nothing new, in a small mailbox and in a huge one, against reference H. */
import { atLeast, type Benchmark, median, medianRatio, shorten } from './support/figures.ts';
import { FEW, MANY, withMailboxes } from './support/mailboxes.ts';
import { CONNECTIONS, measureRates, withHello } from './support/measure-http.ts';
import { makeToken } from './support/service.ts';
import { syncRequest } from './support/sync-request.ts';

const TARGETS = { sqlite: 0.5, postgres: 0.2 };
const SAME_WITHIN = 0.1;

export const syncUnchanged: Benchmark = {
  name: 'sync-unchanged',
  run: (options) =>
    withMailboxes(options, (service, { few, many }) =>
      withHello(async (hello, play) => {
        const { port } = service;
        const load = async (account: typeof few) => ({
          port,
          connections: CONNECTIONS,
          requests: [
            syncRequest(await makeToken(port, account), account.uidvalidity, account.token),
          ],
        });
        const loads = { hello, few: await load(few), many: await load(many) };
        const rates = await measureRates(play, loads);
        const same = medianRatio(rates.many, rates.few);
        const unit = 'req/s';
        const target = TARGETS[options.postgres === undefined ? 'sqlite' : 'postgres'];
        return [
          atLeast(`sync, no change, ${FEW} messages`, unit, rates.few, rates.hello, target),
          atLeast(`sync, no change, ${MANY} messages`, unit, rates.many, rates.hello, target),
          {
            name: `sync, no change, ${MANY} as fast as ${FEW}`,
            ours: `${shorten(median(rates.many))} ${unit}`,
            reference: `${shorten(median(rates.few))} ${unit}`,
            ratio: same.toFixed(2),
            target: `>= ${1 - SAME_WITHIN}`,
            met: same >= 1 - SAME_WITHIN,
          },
        ];
      }),
    ),
};
