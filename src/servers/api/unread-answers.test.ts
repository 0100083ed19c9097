import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type IncomingMessage, request, type ServerResponse } from 'node:http';
import { before, test } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { type RunningApi, startApi } from '../../../test/support/api/start-api.ts';

let api: RunningApi;
let authorization: string;

/** More than the share of an account. */
const LARGE = 'x'.repeat(17 * 1024 * 1024);

before(async () => {
  api = await startApi('sqlite', {
    routes: [
      (app, tools) => {
        app.get('/large', async (asked, reply) => {
          await tools.authenticateMail(asked);
          return reply.type('text/plain').send(LARGE);
        });
      },
    ],
  });
  await api.activateDomain('demo', 'acme.test');
  const owner = { userId: 'demo', domain: 'acme.test', localPart: 'ada' };
  const { account } = await api.accounts.create(owner);
  authorization = `Bearer ${(await api.tokens.issue(account)).token}`;
});

/** Gets the start of an answer, and reads no more. */
async function get(path: string): Promise<IncomingMessage> {
  const asked = request(api.url + path, { headers: { authorization }, agent: false }).end();
  asked.on('error', () => {});
  const [answer] = await once(asked, 'response');
  return answer;
}

test('an account that does not read its answers gets no more large ones', async () => {
  const unread = await get('/large');
  assert.equal(unread.statusCode, 200);
  const refused = await get('/large');
  assert.equal(refused.statusCode, 429);
  assert.equal(refused.headers['retry-after'], '2');
  refused.destroy();
  assert.equal((await get('/mail/mailboxes')).statusCode, 200, 'a small one');
  unread.destroy();
  for (let status = 429; status !== 200; await setImmediate()) {
    const again = await get('/large');
    status = again.statusCode ?? 0;
    again.destroy();
  }
});

test('a client that left is passed over by those who wait to read texts', async (t) => {
  const reading: { uid: number; end: () => void }[] = [];
  t.mock.method(
    api.mailstore,
    'fetchMessage',
    async (_user: unknown, _mailbox: string, uid: number) => {
      await new Promise<void>((end) => reading.push({ uid, end }));
      return { uid, flags: [], structure: {}, open() {}, describe: async () => ({}) };
    },
  );
  const answers: ServerResponse[] = [];
  api.app.server.on('request', (_asked, answer) => answers.push(answer));
  const left = new AbortController();
  const read = async (uid: number, signal: AbortSignal | null = null) => {
    const { status } = await fetch(`${api.url}/mail/messages`, {
      method: 'POST',
      headers: { authorization, 'content-type': 'application/json' },
      body: JSON.stringify({ mailbox: 'INBOX', uids: [uid], fields: ['flags'] }),
      signal,
    });
    return status;
  };
  const first = [read(1), read(2)];
  while (reading.length < 2) await setImmediate();
  const gone = assert.rejects(read(3, left.signal));
  while (answers.length < 3) await setImmediate();
  const third = answers[2] as ServerResponse;
  const closed = once(third, 'close');
  left.abort();
  await Promise.all([gone, closed]);
  const later = read(4);
  while (answers.length < 4) await setImmediate();
  for (const { end } of reading) end();
  assert.deepEqual(await Promise.all(first), [200, 200]);
  while (reading.length < 3) await setImmediate();
  for (const { end } of reading) end();
  assert.equal(await later, 200);
  assert.deepEqual(
    reading.map(({ uid }) => uid),
    [1, 2, 4],
  );
});

test('an account reads the texts of two requests at a time', async (t) => {
  let most = 0;
  let underWay = 0;
  t.mock.method(
    api.mailstore,
    'fetchMessage',
    async (_user: unknown, _mailbox: string, uid: number) => {
      most = Math.max(most, ++underWay);
      await setImmediate();
      underWay--;
      return { uid, flags: [], structure: {}, open() {}, describe: async () => ({}) };
    },
  );
  const uids = Array.from({ length: 20 }, (_, at) => at + 1);
  const read = async () => {
    const { status } = await fetch(`${api.url}/mail/messages`, {
      method: 'POST',
      headers: { authorization, 'content-type': 'application/json' },
      body: JSON.stringify({ mailbox: 'INBOX', uids, fields: ['flags'] }),
    });
    return status;
  };
  assert.deepEqual(await Promise.all([read(), read(), read(), read()]), Array(4).fill(200));
  assert.equal(most, 2);
});
