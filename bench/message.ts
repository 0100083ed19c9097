/** Fetching messages of 20 KB, each in turn. */
import { atLeast, type Benchmark } from './support/figures.ts';
import { writeRequest } from './support/http-client.ts';
import { MESSAGES_OF_20_KB, withMailboxes } from './support/mailboxes.ts';
import { CONNECTIONS, measureRates, withHello } from './support/measure-http.ts';
import { makeToken } from './support/service.ts';

const TARGETS = { sqlite: 0.08, postgres: 0.12 };

export const message: Benchmark = {
  name: 'message',
  run: (options) =>
    withMailboxes(options, ({ port }, { of20KB }) =>
      withHello(async (hello, play) => {
        const headers = { authorization: `Bearer ${await makeToken(port, of20KB)}` };
        const all = Array.from({ length: MESSAGES_OF_20_KB }, (_, index) =>
          writeRequest('GET', `/mail/message?mailbox=INBOX&uid=${index + 1}`, headers),
        );
        const where = { port, connections: CONNECTIONS };
        const loads = {
          hello,
          all: { ...where, requests: all },
        };
        const rates = await measureRates(play, loads);
        const target = TARGETS[options.postgres === undefined ? 'sqlite' : 'postgres'];
        return [
          atLeast(
            `message of 20 KB, ${all.length} in turn`,
            'req/s',
            rates.all,
            rates.hello,
            target,
          ),
        ];
      }),
    ),
};
