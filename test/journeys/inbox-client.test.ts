/** The modules of the live inbox without their page, against a running service. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { before, test } from 'node:test';
import { WebSocketServer } from 'ws';
import { Refused } from '../../docs/public/inbox/api-call.js';
import { Inbox } from '../../docs/public/inbox/inbox.js';
import { MemoryCache } from '../../docs/public/inbox/memory-cache.js';
import {
  decodedSizeOf,
  decodeText,
  fileNameOf,
  formatAddresses,
  sortParts,
} from '../../docs/public/inbox/message-parts.js';
import { ProtocolLog } from '../../docs/public/inbox/protocol-log.js';
import { Session } from '../../docs/public/inbox/session.js';
import { SyncClient } from '../../docs/public/inbox/sync-client.js';
import { startTestService, type TestAccount, type TestService } from '../support/service.ts';

type Message = import('../../docs/public/inbox/sync-client.js').Message;

let service: TestService;
before(async () => {
  service = await startTestService('sqlite');
});

const noChanges = { added: [], updated: [], removed: [] };

/** Waits for things that are told one at a time. */
class Told<T> {
  readonly #past: T[] = [];
  readonly #waiting: ((value: T) => void)[] = [];

  tell(value: T): void {
    const next = this.#waiting.shift();
    if (next) next(value);
    else this.#past.push(value);
  }

  next(): Promise<T> {
    const past = this.#past.shift();
    return past === undefined
      ? new Promise((resolve) => this.#waiting.push(resolve))
      : Promise.resolve(past);
  }
}

async function openInbox(account: TestAccount, cache = new MemoryCache(), limit = 500) {
  const log = new ProtocolLog();
  const session = new Session({ origin: service.url, log });
  await session.signIn(account.address, account.password);
  const settled = new Told<true>();
  const arrived = new Told<string[]>();
  const ended = new Told<string>();
  const changed = new Told<string>();
  const states: string[] = [];
  const inbox = new Inbox({
    origin: service.url,
    session,
    cache,
    log,
    onState: (state) => states.push(state),
    onMailboxes: () => undefined,
    onChange: (mailbox) => changed.tell(mailbox),
    onArrival: (_mailbox, messages: Message[]) =>
      arrived.tell(messages.map(({ envelope }) => envelope.subject)),
    onSettled: () => settled.tell(true),
    onEnd: (why) => ended.tell(why),
    onTrouble: (detail) => assert.fail(detail),
    tuning: { firstDelayMs: 20, maxDelayMs: 100, limit },
  });
  await inbox.start();
  const subjects = async () => {
    const { messages } = await cache.newest(account.address, 'INBOX', 1_000);
    return messages.map(({ envelope }) => envelope.subject);
  };
  return { inbox, session, log, cache, settled, arrived, ended, changed, states, subjects };
}

const mail = (to: TestAccount, subject: string) => ({
  from: 'bob@sender.test',
  to: to.address,
  subject,
  text: 'Hello',
});

test('hello, first sync in pages, arrival, flags, removal, and a pause', async () => {
  const ann = await service.makeAccount();
  for (const subject of ['1', '2', '3', '4', '5']) await service.send(mail(ann, subject));
  const first = await openInbox(ann, new MemoryCache(), 2);
  await first.settled.next();
  assert.equal(first.inbox.account, ann.address);
  assert.equal(first.inbox.mailboxes[0], 'INBOX');
  assert.deepEqual(await first.subjects(), ['5', '4', '3', '2', '1']);
  assert.equal(
    first.log.entries.filter(({ title }) => title === 'POST /mail/sync INBOX').length,
    3,
  );

  await service.send(mail(ann, '6'));
  assert.deepEqual(await first.arrived.next(), ['6']);
  await service.mailstore.setFlags(ann, { mailbox: 'INBOX', uids: [6] }, { add: ['\\Flagged'] });
  await service.mailstore.expunge(ann, { mailbox: 'INBOX', uids: [1] });
  while ((await first.subjects()).length !== 5) await first.changed.next();
  const read = await first.cache.read(ann.address, 'INBOX', 6);
  assert.deepEqual(read?.message.flags, ['\\Flagged']);
  first.inbox.stop();

  // Another start with the same cache: hello says what it is behind in, and no more is asked.
  await service.send(mail(ann, '7'));
  const second = await openInbox(ann, first.cache);
  await second.settled.next();
  assert.deepEqual(await second.arrived.next(), ['7']);
  assert.deepEqual(await second.subjects(), ['7', '6', '5', '4', '3', '2']);
  const asked = second.log.entries.filter(({ title }) => title.startsWith('POST /mail/sync'));
  assert.deepEqual(
    asked.map(({ title }) => title),
    ['POST /mail/sync INBOX'],
  );
  second.inbox.stop();
});

test('a change is in the cache with its answer: one request, and none for its event', async () => {
  const ann = await service.makeAccount();
  for (const subject of ['1', '2']) await service.send(mail(ann, subject));
  const { inbox, cache, log, settled, changed } = await openInbox(ann);
  await settled.next();
  const asked = () =>
    log.entries.filter(({ protocol }) => protocol === 'http').map(({ title }) => title);
  const heard = () => log.entries.filter(({ title }) => title === 'mailbox_changed').length;
  const before = asked().length;
  const answer = await inbox.change('/mail/flags', 'INBOX', { uids: [1], add: ['\\Seen'] });
  assert.deepEqual(answer.updated[0].flags, ['\\Seen']);
  const read = await cache.read(ann.address, 'INBOX', 1);
  assert.deepEqual(read?.message.flags, ['\\Seen']);
  assert.equal((await cache.mailboxes(ann.address)).get('INBOX'), 1);
  while (heard() < 1) await changed.next();
  await inbox.change('/mail/flags', 'INBOX', { uids: [1], remove: ['\\Seen'] });
  while (heard() < 2) await changed.next();
  assert.deepEqual(asked().slice(before), ['POST /mail/flags INBOX', 'POST /mail/flags INBOX']);
  assert.equal((await cache.mailboxes(ann.address)).get('INBOX'), 2);
  // Several at once: each in its turn.
  const flags = ['\\Flagged', 'one', 'two'];
  await Promise.all(
    flags.map((flag) => inbox.change('/mail/flags', 'INBOX', { uids: [2], add: [flag] })),
  );
  const second = await cache.read(ann.address, 'INBOX', 2);
  assert.deepEqual(second?.message.flags.toSorted(), flags.toSorted());
  const moved = await inbox.change('/mail/move', 'INBOX', { uids: [1, 99], to: 'Trash' });
  assert.deepEqual(moved.moved, [{ uid: 1, toUid: 1 }]);
  assert.equal(await cache.read(ann.address, 'INBOX', 1), undefined);
  await assert.rejects(
    inbox.change('/mail/move', 'INBOX', { uids: [2], to: 'Nowhere' }),
    (error) => error instanceof Refused && error.code === 'mailbox_not_found',
  );
  inbox.stop();
});

test('a cache that the server no longer knows starts again, without false news', async () => {
  const ann = await service.makeAccount();
  await service.send(mail(ann, 'here'));
  const cache = new MemoryCache();
  const ghost = {
    uid: 9,
    envelope: { subject: 'ghost' },
    flags: [],
    size: 1,
    internalDate: '2026-01-01T00:00:00Z',
    bodyStructure: { type: 'text/plain', part: '1' },
  };
  const nothing = { updated: [], removed: [] };
  await cache.apply(ann.address, undefined, {
    mailbox: 'INBOX',
    uidvalidity: '1',
    token: '99999',
    changes: { ...nothing, added: [ghost] },
  });
  const { inbox, settled, subjects, arrived } = await openInbox(ann, cache);
  await settled.next();
  assert.deepEqual(await subjects(), ['here']);
  await service.send(mail(ann, 'news'));
  assert.deepEqual(await arrived.next(), ['news'], 'what was shown anew is no news');
  inbox.stop();
});

test('two clients with one cache: a page from another state is not applied', async () => {
  const ann = await service.makeAccount();
  for (const subject of ['1', '2', '3', '4', '5', '6']) await service.send(mail(ann, subject));
  const { session } = await openInbox(ann).then((opened) => {
    opened.inbox.stop();
    return opened;
  });
  const cache = new MemoryCache();
  let overtaken = 0;
  const clientOf = (limit: number) =>
    new SyncClient({
      account: ann.address,
      cache: {
        position: (account, mailbox) => cache.position(account, mailbox),
        apply: async (account, base, page) => {
          const applied = await cache.apply(account, base, page);
          if (!applied) overtaken++;
          return applied;
        },
      },
      ask: (body) => session.json('/mail/sync', { method: 'POST', body }),
      limit,
    });
  await Promise.all([
    clientOf(1).sync('INBOX'),
    clientOf(1).sync('INBOX'),
    clientOf(2).sync('INBOX'),
  ]);
  assert.ok(overtaken > 0);
  const { messages } = await cache.newest(ann.address, 'INBOX', 100);
  assert.deepEqual(
    messages.map(({ uid }) => uid),
    [6, 5, 4, 3, 2, 1],
  );
});

test('a token that was revoked is renewed while the password is right', async () => {
  const ann = await service.makeAccount();
  const opened = await openInbox(ann);
  await opened.settled.next();
  const before = opened.session.token;
  const reset = `/v2/email-accounts/${ann.id}/password/reset`;
  // The same password again: every token is revoked, and its sockets are closed with 4401.
  await service.v2('POST', reset, { user_id: ann.userId, password: ann.password });
  await opened.settled.next();
  assert.notEqual(opened.session.token, before);
  assert.equal(opened.states.at(-1), 'live');
  await service.v2('POST', reset, { user_id: ann.userId });
  assert.equal(await opened.ended.next(), 'expired');
  opened.inbox.stop();
});

test('a suspended account ends it', async () => {
  const ann = await service.makeAccount();
  const opened = await openInbox(ann);
  await opened.settled.next();
  const body = { user_id: ann.userId, status: 'suspended' };
  await service.v2('PUT', `/v2/email-accounts/${ann.id}`, body);
  assert.equal(await opened.ended.next(), 'inactive');
  assert.equal(opened.states.at(-1), 'stopped');
});

test('a server that greets but cannot sync is asked less and less often', async (t) => {
  let broken = true;
  const server = createServer((request, response) => {
    const [status, body] =
      request.url === '/mail/token'
        ? [200, { token: 't' }]
        : broken
          ? [500, { code: 'internal', detail: 'broken' }]
          : request.url === '/mail/mailboxes'
            ? [200, { mailboxes: [] }]
            : [200, { mailbox: 'INBOX', uidvalidity: '1', token: '1', changes: noChanges }];
    response.writeHead(status, { 'content-type': 'application/json' });
    response.end(JSON.stringify(body));
  }).listen(0, '127.0.0.1');
  const sockets = new WebSocketServer({ server, handleProtocols: () => 'postroom' });
  t.after(() => {
    for (const client of sockets.clients) client.terminate();
    server.close();
  });
  const mailboxes = [{ mailbox: 'INBOX', uidvalidity: '1', token: '1' }];
  sockets.on('connection', (socket) =>
    socket.send(JSON.stringify({ type: 'hello', user: 'a@b.test', mailboxes })),
  );
  await once(server, 'listening');
  const bound = server.address();
  const origin = `http://127.0.0.1:${typeof bound === 'object' ? bound?.port : 0}`;
  const log = new ProtocolLog();
  const session = new Session({ origin, log });
  await session.signIn('a@b.test', 'x');
  const delays = new Told<number>();
  const settled = new Told<true>();
  const inbox = new Inbox({
    origin,
    session,
    log,
    cache: new MemoryCache(),
    onState: (_state, retryInMs) => retryInMs > 0 && delays.tell(retryInMs),
    onMailboxes: () => undefined,
    onChange: () => undefined,
    onArrival: () => undefined,
    onSettled: () => settled.tell(true),
    onEnd: (why) => assert.fail(why),
    onTrouble: (detail) => assert.equal(detail, 'broken'),
    tuning: { firstDelayMs: 4, maxDelayMs: 1_000 },
  });
  await inbox.start();
  const seen = [await delays.next(), await delays.next(), await delays.next(), await delays.next()];
  // Between half and all of 4, 8, 16, 32: whatever chance says, two steps are more than one.
  assert.ok(Number(seen[2]) > Number(seen[0]) && Number(seen[3]) > Number(seen[1]), String(seen));
  broken = false;
  await settled.next();
  inbox.stop();
});

test('the client waits for Retry-After, and reports other refusals', async () => {
  let calls = 0;
  const server = createServer((request, response) => {
    calls++;
    const isBusy = request.url === '/busy' && calls < 3;
    response.writeHead(isBusy ? 429 : request.url === '/busy' ? 200 : 404, {
      'content-type': 'application/json',
      ...(isBusy && { 'retry-after': '0' }),
    });
    response.end(isBusy ? '{"code":"rate_limited"}' : '{"code":"message_not_found"}');
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const bound = server.address();
  const origin = `http://127.0.0.1:${typeof bound === 'object' ? bound?.port : 0}`;
  const waits: number[] = [];
  const session = new Session({
    origin,
    log: new ProtocolLog(),
    onWait: (seconds) => waits.push(seconds),
  });
  assert.equal((await session.request('/busy')).status, 200);
  assert.deepEqual(waits, [0, 0]);
  await assert.rejects(session.request('/absent'), (error) => {
    assert.ok(error instanceof Refused);
    return error.status === 404 && error.code === 'message_not_found';
  });
  server.close();
});

test('a user who signs in after another one sees nothing of that one', async () => {
  const ann = await service.makeAccount();
  const eve = await service.addAccount(ann, 'eve');
  const session = new Session({ origin: service.url, log: new ProtocolLog() });
  await session.signIn(ann.address, ann.password);
  session.remember(ann.address);
  await session.signIn(ann.address.toUpperCase(), ann.password);
  assert.equal(session.account, ann.address);
  await session.signIn(eve.address, eve.password);
  assert.equal(session.account, '');
  session.remember(eve.address);
  await session.useToken(ann.token);
  assert.equal(session.account, '');
});

test('secrets never come into the protocol log', async () => {
  const ann = await service.makeAccount();
  const { log, settled, inbox, session } = await openInbox(ann);
  await settled.next();
  const text = JSON.stringify(log.entries);
  assert.ok(text.includes('bearer.•••') && text.includes('Bearer •••'));
  assert.ok(!text.includes(session.token) && !text.includes(ann.password));
  inbox.stop();
});

test('parts are sorted by what a reader does with them', () => {
  const leaf = (part: string, type: string, more = {}) => ({ part, type, ...more });
  const structure = {
    type: 'multipart/mixed',
    childNodes: [
      {
        type: 'multipart/alternative',
        part: '1',
        childNodes: [
          leaf('1.1', 'text/plain'),
          {
            type: 'multipart/related',
            part: '1.2',
            childNodes: [
              leaf('1.2.1', 'text/html'),
              leaf('1.2.2', 'image/png', { id: '<a@x>' }),
              leaf('1.2.3', 'image/svg+xml', { id: '<b@x>' }),
            ],
          },
        ],
      },
      leaf('2', 'text/plain', { dispositionParameters: { filename: 'notes.txt' } }),
      leaf('3', 'message/rfc822', { childNodes: [leaf('3.1', 'text/plain')] }),
    ],
  };
  const { html, text, images, attachments } = sortParts(structure);
  assert.equal(html?.part, '1.2.1');
  assert.equal(text?.part, '1.1');
  assert.deepEqual(
    images.map(({ part }) => part),
    ['1.2.2'],
  );
  assert.deepEqual(
    attachments.map((part) => fileNameOf(part)),
    ['part-1.2.3', 'notes.txt', 'message.eml'],
  );
});

test('names, sizes and charsets from strangers', () => {
  const named = (filename: string) => ({
    type: 'a/b',
    part: '2',
    dispositionParameters: { filename },
  });
  assert.equal(fileNameOf(named('../../etc/passwd')), '....etcpasswd');
  assert.equal(fileNameOf(named('..')), 'part-2');
  assert.equal(fileNameOf(named('fdp\u202eexe.pdf')), 'fdpexe.pdf');
  assert.equal(decodedSizeOf({ type: 'a/b', encoding: 'base64', size: 78 }), 57);
  const bytes = (...values: number[]) => new Uint8Array(values).buffer;
  assert.equal(decodeText(bytes(0xc3, 0xbc), 'utf-8'), 'ü');
  assert.equal(decodeText(bytes(0xfc), 'iso-8859-1'), 'ü');
  assert.equal(decodeText(bytes(0xfc), undefined), 'ü');
  assert.equal(decodeText(bytes(0xc3, 0xbc), 'no-such-charset'), 'ü');
  // The beginning of a long text may end within a character; that says nothing of its charset.
  assert.equal(decodeText(bytes(0xc3, 0xbc, 0xc3), 'utf-8', true), 'ü');
  assert.equal(decodeText(bytes(0xc3, 0xbc, 0xe2, 0x82), undefined, true), 'ü');
  assert.equal(decodeText(bytes(0xfc, 0x20), undefined, true), 'ü ');
  const turned = { name: 'Eve \u202emoc.knab\u2066', address: 'eve@sender.test' };
  assert.deepEqual(formatAddresses([turned]), ['Eve moc.knab']);
});

test('its files are not counted by the rate limit: one page is two dozen of them', async () => {
  const limited = await startTestService('sqlite', { RATE_LIMIT_PER_MINUTE: '1000' });
  const isCounted = async (path: string) => {
    const response = await fetch(limited.url + path);
    await response.body?.cancel();
    return response.headers.has('x-ratelimit-limit');
  };
  for (const path of ['/docs/inbox/main.js', '/docs/inbox/page.css', '/docs/inbox/main.js?v=1']) {
    assert.equal(await isCounted(path), false, path);
  }
  for (const path of [
    '/docs/inbox',
    '/docs/inbox/x/main.js',
    '/docs/inbox/main.json',
    '/mail/sync',
  ]) {
    assert.equal(await isCounted(path), true, path);
  }
});
