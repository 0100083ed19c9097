/** Putting messages into mailboxes: as they are, for every device to see, on every store. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { connect } from 'node:net';
import { before, test } from 'node:test';
import { onEachEngine } from '../support/databases.ts';
import { type Answer, nodeCount, startTestService, type TestService } from '../support/service.ts';
import { openSocket } from '../support/web-socket.ts';

/** Less than the default, so that a test need not send 60 MB. */
const MESSAGE_MAX = 300_000;

const draft =
  'From: ann@acme.test\r\nTo: bob@example.test\r\nSubject: Zwetschgen\r\n' +
  'Message-ID: <draft-1@acme.test>\r\n\r\nNot sent yet.\r\n';

onEachEngine('adding messages', (engine) => {
  let service: TestService;
  before(async () => {
    service = await startTestService(engine, { MAX_MESSAGE_BYTES: String(MESSAGE_MAX) });
  });

  async function append(
    token: string,
    query: string,
    body: string | Uint8Array | ReadableStream,
    type = 'message/rfc822',
  ): Promise<Answer> {
    const response = await fetch(`${service.url}/mail/append?${query}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${token}`, 'content-type': type },
      body: body instanceof Uint8Array ? new Uint8Array(body) : body,
      duplex: 'half',
    });
    return {
      status: response.status,
      headers: response.headers,
      body: JSON.parse(await response.text()),
    };
  }

  async function sourceOf(token: string, mailbox: string, uid: number): Promise<Buffer> {
    const response = await fetch(`${service.url}/mail/message?mailbox=${mailbox}&uid=${uid}`, {
      headers: { authorization: `Bearer ${token}`, accept: 'message/rfc822' },
    });
    assert.equal(response.status, 200);
    return Buffer.from(await response.arrayBuffer());
  }

  const sync = async (token: string, body: object) =>
    (await service.mail(token, 'POST', '/mail/sync', body)).body;

  test('a message has its flags, is announced to the other device and found', async () => {
    const { token } = await service.makeAccount();
    const socket = await openSocket(service, token);
    const hello = await socket.next();
    const drafts = hello.mailboxes.find(
      ({ specialUse }: { specialUse?: string }) => specialUse === '\\Drafts',
    );
    const mailbox = drafts?.mailbox ?? 'INBOX';
    const before = await sync(token, { mailbox });
    const query = new URLSearchParams([
      ['mailbox', mailbox],
      ['flags', '\\Draft \\seen'],
      ['flags', 'work'],
    ]);
    const added = await append(token, `${query}`, draft);
    assert.equal(added.status, 201, JSON.stringify(added.body));
    assert.deepEqual(Object.keys(added.body), ['mailbox', 'uidvalidity', 'uid']);
    assert.equal(added.body.uidvalidity, before.uidvalidity);
    const event = await socket.next();
    assert.equal(event.mailbox, mailbox);
    const { uidvalidity, token: since } = before;
    const delta = await sync(token, {
      mailbox,
      uidvalidity,
      token: since,
      fields: ['flags', 'envelope'],
    });
    assert.equal(delta.token, event.token);
    const [message] = delta.changes.added;
    assert.equal(message.uid, added.body.uid);
    assert.deepEqual(message.flags, ['\\Draft', '\\Seen', 'work']);
    assert.equal(message.envelope.subject, 'Zwetschgen');
    assert.deepEqual(await sourceOf(token, mailbox, added.body.uid), Buffer.from(draft));
    for (;;) {
      const { body } = await service.mail(token, 'POST', '/mail/search', { text: 'zwetschgen' });
      if (body.indexing) continue;
      assert.equal(body.matches[0].uid, added.body.uid);
      break;
    }
    socket.close();
  });

  const skip = nodeCount > 1 && 'each node has slots of its own';
  test('uploads of two users that never end leave slots to others', { skip }, async () => {
    const { token } = await service.makeAccount();
    const stop = new AbortController();
    let unfinished: Promise<unknown>[] = [];
    for (let users = 0; users < 2; users++) {
      const first = await service.makeAccount('a0');
      const others = ['a1', 'a2', 'a3', 'a4', 'a5', 'a6', 'a7'];
      const accounts = [first];
      for (const name of others) accounts.push(await service.addAccount(first, name));
      const { promise: isFull, resolve } = Promise.withResolvers<void>();
      let refused = 0;
      const upload = async (of: string) => {
        const response = await fetch(`${service.url}/mail/append?mailbox=INBOX`, {
          method: 'POST',
          headers: { authorization: `Bearer ${of}`, 'content-type': 'message/rfc822' },
          body: new ReadableStream({ start: (body) => body.enqueue(Buffer.from('From: a')) }),
          duplex: 'half',
          signal: stop.signal,
        });
        // Thirty of a user are read.
        if (response.status === 429 && ++refused === 2) resolve();
      };
      const uploads = accounts.flatMap((of) => Array.from({ length: 4 }, () => upload(of.token)));
      unfinished = [...unfinished, ...uploads.map((one) => one.catch(() => {}))];
      await isFull;
    }
    assert.equal((await append(token, 'mailbox=INBOX', draft)).status, 201);
    stop.abort();
    await Promise.all(unfinished);
  });

  test('an import keeps the time at which a message arrived, also over a copy and a move', async () => {
    const { token } = await service.makeAccount();
    const internalDate = '2019-02-03T04:05:06.000Z';
    const { mailboxes } = (await service.mail(token, 'GET', '/mail/mailboxes')).body;
    const named = (use: string) =>
      mailboxes.find(({ specialUse }: { specialUse?: string }) => specialUse === use).mailbox;
    for (const [given, kept] of [
      [internalDate, internalDate],
      ['2019-02-03T05:05:06+01:00', internalDate],
      ['1999-12-31T23:59:59Z', '1999-12-31T23:59:59.000Z'],
    ] as const) {
      const query = new URLSearchParams({ mailbox: 'INBOX', internalDate: given });
      const { status, body } = await append(token, `${query}`, draft);
      assert.equal(status, 201, JSON.stringify(body));
      for (const [path, to] of [
        ['copy', named('\\Archive')],
        ['move', named('\\Trash')],
      ]) {
        const request = { mailbox: 'INBOX', uids: [body.uid], to };
        assert.equal((await service.mail(token, 'POST', `/mail/${path}`, request)).status, 200);
        const { changes } = await sync(token, { mailbox: to, fields: ['internalDate'] });
        assert.equal(changes.added.at(-1).internalDate, kept, to);
      }
    }
    const { matches } = (
      await service.mail(token, 'POST', '/mail/search', {
        before: '2019-02-04',
        since: '2019-02-03',
      })
    ).body;
    assert.equal(matches.length, 4);
    for (const bad of ['yesterday', '2019-02-30T00:00:00Z', '2019-02-03', '1969-12-31T23:59:59Z']) {
      const { status, body } = await append(token, `mailbox=INBOX&internalDate=${bad}`, draft);
      assert.equal(status, 400, bad);
      assert.equal(body.errors[0].field, 'internalDate');
    }
  });

  test('broken MIME is stored unchanged', async () => {
    const { token } = await service.makeAccount();
    const broken = Buffer.from(
      'Content-Type: multipart/mixed; boundary="\xff\r\nSubject: =?utf-8?B?broken\r\n\r\n--x\r\n\xfe\xff\r\n',
      'latin1',
    );
    const large = Buffer.concat([Buffer.from(draft), Buffer.alloc(13 * 15_000, 'lines of it\r\n')]);
    for (const source of [broken, large]) {
      const { status, body } = await append(token, 'mailbox=INBOX', source);
      assert.equal(status, 201, JSON.stringify(body));
      assert.ok((await sourceOf(token, 'INBOX', body.uid)).equals(source));
    }
  });

  test('many at once each get a UID of their own', async () => {
    const { token } = await service.makeAccount();
    const sources = [1, 2, 3, 4].map((n) => `Subject: ${n}\r\n\r\n${'x'.repeat(n)}\r\n`);
    const answers = await Promise.all(
      sources.map((source) => append(token, 'mailbox=INBOX', source)),
    );
    for (const [index, { status, body }] of answers.entries()) {
      assert.equal(status, 201);
      assert.equal((await sourceOf(token, 'INBOX', body.uid)).toString(), sources[index]);
    }
  });

  const flags64 = Array.from({ length: 65 }, (_, n) => `k${n}`).join('+');
  const refusals: [string, string, string | Uint8Array, number, string][] = [
    ['0 bytes', 'mailbox=INBOX', '', 400, 'invalid_request'],
    ['no mailbox', '', draft, 400, 'invalid_request'],
    ['a mailbox that is not there', 'mailbox=None', draft, 404, 'mailbox_not_found'],
    ['\\Recent', 'mailbox=INBOX&flags=%5CRecent', draft, 400, 'invalid_request'],
    ['no atom', 'mailbox=INBOX&flags=a%22b', draft, 400, 'invalid_request'],
    ['a list with commas', 'mailbox=INBOX&flags=%5CSeen,%5CDraft', draft, 400, 'invalid_request'],
    ['65 keywords', `mailbox=INBOX&flags=${flags64}`, draft, 400, 'invalid_request'],
    ['too large', 'mailbox=INBOX', Buffer.alloc(MESSAGE_MAX + 1, 'a'), 413, 'body_too_large'],
  ];

  test('a message that cannot be added is refused with the reason, and nothing is added', async () => {
    const { token } = await service.makeAccount();
    const before = await sync(token, {});
    for (const [title, query, body, status, code] of refusals) {
      const answer = await append(token, query, body);
      assert.deepEqual([answer.status, answer.body.code], [status, code], title);
    }
    const json = await append(token, 'mailbox=INBOX', '{}', 'application/json');
    assert.deepEqual([json.status, json.body.code], [415, 'unsupported_media_type']);
    const stranger = await append('no-token', 'mailbox=INBOX', draft);
    assert.equal(stranger.status, 401);
    assert.equal((await sync(token, {})).token, before.token);
  });

  test('a message without a length is cut off where it grows too large', async () => {
    const { token } = await service.makeAccount();
    const chunk = new TextEncoder().encode('x'.repeat(50_000));
    let sent = 0;
    const endless = new ReadableStream({
      pull(controller) {
        sent += chunk.length;
        if (sent > 20 * MESSAGE_MAX) controller.close();
        else controller.enqueue(chunk);
      },
    });
    const { status, body } = await append(token, 'mailbox=INBOX', endless);
    assert.deepEqual([status, body.code], [413, 'body_too_large']);
    assert.deepEqual((await sync(token, {})).changes.added, []);
  });

  test('a message that breaks off is not stored', async () => {
    const { token } = await service.makeAccount();
    const { port, hostname } = new URL(service.url);
    const socket = connect(Number(port), hostname);
    socket.on('error', () => undefined);
    socket.write(
      `POST /mail/append?mailbox=INBOX HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${token}\r\n` +
        `content-type: message/rfc822\r\ncontent-length: 250000\r\n\r\n${'x'.repeat(100_000)}`,
    );
    // Another request on the way is answered: the unfinished one holds nobody up.
    assert.equal((await append(token, 'mailbox=INBOX', draft)).status, 201);
    socket.destroy();
    await once(socket, 'close');
    assert.equal((await append(token, 'mailbox=INBOX', draft)).status, 201);
    assert.equal((await sync(token, {})).changes.added.length, 2);
  });
});
