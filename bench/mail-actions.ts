/** What an app does with mail: sets flags, reads messages without a MIME parser, sends. */
import { absolute, atLeast, type Benchmark, type Figure } from './support/figures.ts';
import { type Played, writeRequest } from './support/http-client.ts';
import type { HttpLoad } from './support/load-http.ts';
import { MESSAGES_OF_20_KB, withMailboxes } from './support/mailboxes.ts';
import { CONNECTIONS, measureRates, withHello } from './support/measure-http.ts';
import { makeToken } from './support/service.ts';

const TARGETS = { flags: 0.08, content: 0.08, send: 0.04, messages: 10_000, thousandMs: 20 };
/** Messages that one call of /mail/messages asks for. */
const PAGE = 100;
/** Later than any run ends: what is measured is the acceptance alone. */
const DELAY_SECONDS = 86_400;

function requestsOf(bearer: string) {
  const headers = { authorization: `Bearer ${bearer}`, 'content-type': 'application/json' };
  const post = (path: string, body: object) =>
    writeRequest('POST', path, headers, JSON.stringify(body));
  const uids = Array.from({ length: MESSAGES_OF_20_KB }, (_, index) => index + 1);
  const flags = (some: readonly number[], round: number) =>
    post('/mail/flags', {
      mailbox: 'INBOX',
      uids: some,
      ...(round % 2 === 0 ? { add: ['\\Flagged'] } : { remove: ['\\Flagged'] }),
    });
  return {
    flags: [0, 1].flatMap((round) => uids.map((uid) => flags([uid], round))),
    thousand: [0, 1].map((round) => flags(uids.slice(0, 1_000), round)),
    content: uids.map((uid) =>
      writeRequest('GET', `/mail/content?mailbox=INBOX&uid=${uid}`, headers),
    ),
    messages: Array.from({ length: MESSAGES_OF_20_KB / PAGE }, (_, page) =>
      post('/mail/messages', {
        mailbox: 'INBOX',
        uids: uids.slice(page * PAGE, (page + 1) * PAGE),
        fields: ['envelope', 'flags', 'preview'],
      }),
    ),
    send: [
      post('/mail/send', {
        to: [{ address: 'bob@far.test' }],
        subject: 'A message of 20 KB',
        text: 'The quick brown fox jumps over the lazy dog, again and again.\r\n'.repeat(325),
        delaySeconds: DELAY_SECONDS,
      }),
    ],
  };
}

async function measure(
  port: number,
  bearer: string,
  hello: HttpLoad,
  play: (load: HttpLoad) => Promise<Played>,
): Promise<Figure[]> {
  const requests = requestsOf(bearer);
  const target = { port, connections: CONNECTIONS };
  const rates = await measureRates(play, {
    hello,
    flags: { ...target, requests: requests.flags },
    thousand: { port, connections: 1, requests: requests.thousand },
    content: { ...target, requests: requests.content },
    messages: { ...target, requests: requests.messages },
    send: { ...target, requests: requests.send },
  });
  const { hello: reference } = rates;
  const thousandMs = rates.thousand.map((rate) => 1_000 / rate);
  const messages = rates.messages.map((rate) => rate * PAGE);
  return [
    atLeast('flags on one message', 'req/s', rates.flags, reference, TARGETS.flags),
    absolute(
      'flags on 1,000 messages in one call',
      thousandMs,
      { unit: 'ms', target: TARGETS.thousandMs, isMost: true },
      reference,
    ),
    atLeast('content of a message of 20 KB', 'req/s', rates.content, reference, TARGETS.content),
    absolute(
      `/mail/messages, ${PAGE} at a time`,
      messages,
      { unit: 'messages/s', target: TARGETS.messages, isMost: false },
      reference,
    ),
    atLeast('send of 20 KB', 'req/s', rates.send, reference, TARGETS.send),
  ];
}

export const mailActions: Benchmark = {
  name: 'mail-actions',
  run: (options) =>
    withMailboxes(options, ({ port }, { of20KB }) =>
      withHello(async (hello, play) => measure(port, await makeToken(port, of20KB), hello, play)),
    ),
};
