/** Files of mail that waits: they go with it whatever happens, and no mail goes without one that it had. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { memoryStore, openMail, type Store } from '../../src/mail.ts';
import { FakeServer } from '../../src/testing/testing.ts';
import { platformOf } from './platform-of.ts';
import { World } from './world.ts';

const content = Buffer.from('the file');
const file = { filename: 'a.txt', contentType: 'text/plain', content };
const mail = { to: [{ address: 'bob@sender.test' }], subject: 'Later', attachments: [file] };
const inBase64 = content.toString('base64');

/** A client whose store is lost when the test says so. */
async function openLosable(store: Store, isOnline = true) {
  let isLost = false;
  const gone = <T>() => Promise.reject<T>(new Error('the store is lost'));
  const losable: Store = {
    get: (table, key) => (isLost ? gone() : store.get(table, key)),
    range: (query) => (isLost ? gone() : store.range(query)),
    transact: (options, changes) => (isLost ? gone() : store.transact(options, changes)),
    update: (table, key, decide) => (isLost ? gone() : store.update(table, key, decide)),
    close: async () => undefined,
  };
  const server = new FakeServer();
  server.online = isOnline;
  const { clock } = server;
  const account = server.addAccount({ address: 'ada@acme.test' });
  const client = await openMail({
    baseUrl: 'https://mail.test',
    address: 'ada@acme.test',
    auth: async () => server.issueToken(account),
    store: losable,
    platform: platformOf(server),
  });
  const lose = () => {
    isLost = true;
    losable.onLost?.(new Error('closed by the browser'));
  };
  /** The contents of files that went to the server. */
  const sent = () =>
    server.requests
      .filter(({ path }) => path === '/mail/send')
      .map(({ body }) => (body as { attachments: { content: string }[] }).attachments[0]?.content);
  await clock.advance(5000);
  return { server, clock, account, client, lose, sent };
}

test('mail that waits has its files, also where the store is lost meanwhile', async () => {
  const { server, clock, account, client, lose, sent } = await openLosable(memoryStore(), false);
  await client.send(mail);
  lose();
  server.online = true;
  await clock.advance(60_000);
  assert.equal(account.sends.all.length, 1);
  assert.deepEqual(new Set(sent()), new Set([inBase64]));
  await client.close();
});

test('mail does not go without a file that was lost with the store: it waits for the next start', async () => {
  const store = memoryStore();
  const first = await openLosable(store, false);
  await first.client.send(mail);
  await first.client.close();
  const second = await openLosable(store, false);
  second.lose();
  second.server.online = true;
  await second.clock.advance(60_000);
  assert.deepEqual(second.sent(), []);
  assert.deepEqual(
    (await second.client.pending()).map(({ kind }) => kind),
    ['send'],
  );
  await second.client.close();
  const third = await openLosable(store);
  assert.deepEqual([third.account.sends.all.length, third.sent()], [1, [inBase64]]);
  await third.client.close();
});

test('mail that is refused while it is taken back is a draft with its files', async () => {
  const world = new World({ seed: 1, withLocks: true });
  const { client } = await world.open();
  await world.pass(5000);
  world.server.failNext({ status: 503, retryAfter: 2 }, '/mail/send');
  world.server.failNext({ status: 409, code: 'domain_not_ready' }, '/mail/send');
  const sent = await client.send(mail);
  await world.pass(500);
  const cancelled = sent.cancel();
  await world.pass(20_000, cancelled);
  assert.equal(await cancelled, undefined);
  await assert.rejects(sent.applied, /domain_not_ready/);
  const [draft, ...others] = world.server.requests.filter(({ path }) => path === '/mail/append');
  assert.equal(others.length, 0);
  assert.ok(Buffer.from(draft?.body as Uint8Array).includes(inBase64));
  assert.deepEqual(await world.store.range({ table: 'blobs', prefix: [] }), []);
});
