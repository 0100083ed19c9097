/** Fetching messages of 20 KB. */
import { atLeast, type Benchmark } from './support/figures.ts';
import { writeRequest } from './support/http-client.ts';
import { MESSAGES_OF_20_KB, withMailboxes } from './support/mailboxes.ts';
import { CONNECTIONS, measureRates, withHello } from './support/measure-http.ts';
import { makeToken } from './support/service.ts';

const TARGET = 0.3;

export const message: Benchmark = {
  name: 'message',
  run: () =>
    withMailboxes(({ port }, { of20KB }) =>
      withHello(async (hello, play) => {
        const headers = { authorization: `Bearer ${await makeToken(port, of20KB)}` };
        const requests = Array.from({ length: MESSAGES_OF_20_KB }, (_, index) =>
          writeRequest('GET', `/mail/message?mailbox=INBOX&uid=${index + 1}`, headers),
        );
        const loads = { hello, message: { port, connections: CONNECTIONS, requests } };
        const rates = await measureRates(play, loads);
        return [atLeast('message of 20 KB', 'req/s', rates.message, rates.hello, TARGET)];
      }),
    ),
};
