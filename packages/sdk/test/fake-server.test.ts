/** The fake server of `@postroom/sdk/testing` answers as the service does; and what it does besides. */
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { startTestService } from '../../../test/support/service.ts';
import type { Sync } from '../src/api-types.ts';
import { FakeServer, VirtualClock } from '../src/testing/testing.ts';

const BASE = 'https://mail.test';

interface Told {
  readonly status: number;
  readonly body: unknown;
}

const isIndexing = ({ body }: Told) => (body as { indexing?: boolean } | null)?.indexing === true;

/** A call of a mailbox: what is sent, and the answer as JSON, or as text. */
type CallMail = (
  method: string,
  path: string,
  body?: unknown,
  headers?: Record<string, string>,
) => Promise<Told>;

function caller(base: string, send: typeof fetch, token: string): CallMail {
  return async (method, path, body, headers = {}) => {
    const isSource = typeof body === 'string';
    const response = await send(base + path, {
      method,
      headers: {
        authorization: `Bearer ${token}`,
        ...(body !== undefined && {
          'content-type': isSource ? 'message/rfc822' : 'application/json',
        }),
        ...headers,
      },
      ...(body !== undefined && { body: isSource ? body : JSON.stringify(body) }),
    });
    const text = await response.text();
    const isJson = response.headers.get('content-type')?.includes('json');
    return { status: response.status, body: isJson ? JSON.parse(text) : text };
  };
}

/** Members that only name something: equal where they are equal within their own server. */
const NAMES =
  /^(?:id|mailboxId|uidvalidity|messageId|inReplyTo|threadId|emailId|request_id|cursor)$/;
/** Of answers that refuse, what is for people. */
const FOR_PEOPLE = /^(?:type|title|detail|message)$/;

/** Makes the answers of two servers comparable: names are numbered as they come. */
function normalizer() {
  const names = new Map<unknown, string>();
  const nameOf = (value: unknown) => {
    if (!names.has(value)) names.set(value, `#${names.size}`);
    return names.get(value);
  };
  return function normalize(value: unknown, member = ''): unknown {
    if (Array.isArray(value)) return value.map((one) => normalize(one));
    if (typeof value === 'object' && value !== null) {
      const entries = Object.entries(value).filter(([name]) => !FOR_PEOPLE.test(name));
      return Object.fromEntries(entries.map(([name, one]) => [name, normalize(one, name)]).sort());
    }
    if (NAMES.test(member)) return member === 'request_id' ? 'an id' : nameOf(value);
    if (member === 'date' || member === 'internalDate' || member === 'sendAt') return 'a date';
    return value;
  };
}

const mailOf = (n: number, more = '') =>
  `From: Bob <bob@sender.test>\r\nTo: ann@d1.test\r\nSubject: Invoice ${n}\r\n` +
  `Date: Sat, 31 Jan 2026 12:00:00 +0000\r\nMessage-ID: <${n}@sender.test>\r\n${more}` +
  `Content-Type: text/plain; charset=utf-8\r\n\r\nHello Ann,\r\n> quoted\r\nthis is number ${n}.\r\n`;
const MIXED =
  'From: "Carol, Sales" <carol@sender.test>\r\nTo: ann@d1.test, Eve <eve@else.test>\r\nSubject: Grüße\r\n' +
  'Message-ID: <m@sender.test>\r\nMIME-Version: 1.0\r\nContent-Type: multipart/mixed; boundary="b"\r\n\r\n' +
  '--b\r\nContent-Type: multipart/alternative; boundary=c\r\n\r\n--c\r\nContent-Type: text/plain; charset=utf-8\r\n\r\nplain\r\n' +
  '--c\r\nContent-Type: text/html; charset=utf-8\r\nContent-Transfer-Encoding: base64\r\n\r\nPHA+aHRtbDwvcD4=\r\n--c--\r\n' +
  '--b\r\nContent-Type: text/csv\r\nContent-Disposition: attachment; filename="a.csv"\r\nContent-Transfer-Encoding: base64\r\n\r\nMSwyCg==\r\n--b--\r\n';

const FIELDS = ['envelope', 'flags', 'size', 'preview', 'threadId', 'hasAttachment', 'emailId'];

/** What an app does, told step by step; tokens are carried on from the answers. */
async function live(call: CallMail, told: (step: string, answer: Told) => void) {
  const tell = async (step: string, ...args: Parameters<CallMail>) => {
    let answer = await call(...args);
    // The index of a busy service is a moment behind.
    while (isIndexing(answer)) answer = await call(...args);
    told(step, answer);
    // biome-ignore lint/suspicious/noExplicitAny: whatever JSON came back
    return answer.body as any;
  };
  const sync = (step: string, body: object) => tell(step, 'POST', '/mail/sync', body);
  await tell('mailboxes', 'GET', '/mail/mailboxes');
  const empty = await sync('an empty mailbox', { mailbox: 'INBOX', fields: FIELDS });
  const { uidvalidity } = empty;
  for (let n = 1; n <= 6; n++) {
    await tell(
      `append ${n}`,
      'POST',
      `/mail/append?mailbox=INBOX&internalDate=2026-01-0${n}T00:00:00Z`,
      mailOf(n),
    );
  }
  await tell('append with parts', 'POST', '/mail/append?mailbox=inbox&flags=%5Cseen%20x', MIXED);
  await tell(
    'an answer',
    'POST',
    '/mail/append?mailbox=INBOX',
    mailOf(9, 'References: <1@sender.test>\r\n'),
  );
  const all = await sync('what came', {
    mailbox: 'INBOX',
    uidvalidity,
    token: empty.token,
    fields: FIELDS,
  });
  const first = await sync('a first page, newest first', {
    mailbox: 'INBOX',
    limit: 3,
    order: 'newest',
    fields: FIELDS,
  });
  await tell('flags', 'POST', '/mail/flags', {
    mailbox: 'INBOX',
    uids: [5, 2, 99],
    add: ['\\flagged', 'b'],
    remove: ['B'],
  });
  await tell('delete', 'POST', '/mail/delete', { mailbox: 'INBOX', uids: [4, 4, 98], uidvalidity });
  const second = await sync('the second page', {
    mailbox: 'INBOX',
    uidvalidity,
    token: first.token,
    limit: 3,
  });
  const last = await sync('the last page', {
    mailbox: 'INBOX',
    uidvalidity,
    token: second.token,
    limit: 3,
  });
  await sync('changes since the first page', {
    mailbox: 'INBOX',
    uidvalidity,
    token: last.token,
    limit: 1,
  });
  const since = { uidvalidity, token: all.token };
  await tell('flags with a sync', 'POST', '/mail/flags', {
    mailbox: 'INBOX',
    uids: [1],
    add: ['\\Seen'],
    since,
    fields: ['flags'],
  });
  const key = { 'idempotency-key': 'move-1' };
  const move = { mailbox: 'INBOX', uids: [2, 3], to: 'Archive', since };
  await tell('move', 'POST', '/mail/move', move, key);
  await tell('move again', 'POST', '/mail/move', move, key);
  await tell('move with a key of another', 'POST', '/mail/move', { ...move, uids: [1] }, key);
  await tell('move without a target', 'POST', '/mail/move', { ...move, to: 'Nowhere' });
  await tell('move to the same', 'POST', '/mail/move', { ...move, to: 'INBOX' });
  await tell('copy', 'POST', '/mail/copy', { mailbox: 'Archive', uids: [1], to: 'INBOX' });
  await sync('the target', { mailbox: 'Archive', fields: FIELDS });
  await tell('wrong flag', 'POST', '/mail/flags', {
    mailbox: 'INBOX',
    uids: [1],
    add: ['\\Wrong'],
  });
  await tell('no uids', 'POST', '/mail/flags', { mailbox: 'INBOX', uids: [], add: [] });
  await tell('other uidvalidity', 'POST', '/mail/delete', {
    mailbox: 'INBOX',
    uids: [1],
    uidvalidity: '1',
  });
  await sync('other uidvalidity, with a token', {
    mailbox: 'INBOX',
    uidvalidity: '1',
    token: '1',
    limit: 1,
  });
  await sync('a token from the future', { mailbox: 'INBOX', uidvalidity, token: '99999' });
  await sync('a token that is none', { mailbox: 'INBOX', uidvalidity, token: 'x' });
  await sync('a token without uidvalidity', { mailbox: 'INBOX', token: '3' });
  await tell('content', 'GET', '/mail/content?uid=7');
  await tell('messages', 'POST', '/mail/messages', {
    mailbox: 'INBOX',
    uids: [7, 1, 77],
    fields: ['text', 'attachments'],
  });
  await tell('attachment', 'GET', '/mail/attachment?uid=7&part=2');
  await tell('no such part', 'GET', '/mail/attachment?uid=7&part=9');
  await tell('no such message', 'GET', '/mail/content?uid=4');
  await tell('source', 'GET', '/mail/message?uid=7', undefined, { accept: 'message/rfc822' });
  await tell('search', 'POST', '/mail/search', {
    mailbox: 'INBOX',
    subject: 'invoice',
    notFlags: ['\\Seen'],
  });
  await tell('search of a prefix', 'POST', '/mail/search', {
    mailbox: 'INBOX',
    from: 'carol',
    text: 'pla*',
  });
  await tell('search without words', 'POST', '/mail/search', { text: '!' });
  await mailboxes(tell);
  await sends(tell);
  await tell('mailboxes at the end', 'GET', '/mail/mailboxes');
}

// biome-ignore lint/suspicious/noExplicitAny: whatever JSON came back
type Tell = (step: string, ...args: Parameters<CallMail>) => Promise<any>;

async function mailboxes(tell: Tell) {
  await tell('create', 'POST', '/mail/mailboxes/create', { mailbox: 'Projects' });
  await tell('create below', 'POST', '/mail/mailboxes/create', { mailbox: 'Projects/A' });
  await tell('create again', 'POST', '/mail/mailboxes/create', { mailbox: 'projects' });
  await tell('rename', 'POST', '/mail/mailboxes/rename', { mailbox: 'Projects', to: 'Work' });
  await tell('rename one of all', 'POST', '/mail/mailboxes/rename', { mailbox: 'Sent', to: 'Out' });
  await tell('renamed', 'GET', '/mail/mailboxes');
  await tell('delete a mailbox', 'POST', '/mail/mailboxes/delete', { mailbox: 'Work/A' });
  await tell('delete it again', 'POST', '/mail/mailboxes/delete', { mailbox: 'Work/A' });
}

async function sends(tell: Tell) {
  const mail = {
    to: [{ address: 'bob@else.test', name: 'Bob' }],
    subject: 'Hi',
    text: 'Hello',
    delaySeconds: 600,
  };
  const key = { 'idempotency-key': 'send-1' };
  const sent = await tell('send', 'POST', '/mail/send', mail, key);
  await tell('send again', 'POST', '/mail/send', mail, key);
  await tell('send another with its key', 'POST', '/mail/send', { ...mail, subject: 'Ho' }, key);
  await tell('find it', 'GET', '/mail/sends?key=send-1');
  await tell('find none', 'GET', '/mail/sends?key=send-2');
  await tell('read some', 'POST', '/mail/sends/read', {
    ids: ['00000000-0000-4000-8000-999999999999', sent.id, sent.id],
  });
  await tell('cancel', 'POST', '/mail/sends/cancel', { id: sent.id });
  await tell('cancel again', 'POST', '/mail/sends/cancel', { id: sent.id });
  await tell('the draft', 'POST', '/mail/sync', {
    mailbox: 'Drafts',
    fields: ['flags', 'envelope', 'preview'],
  });
  await tell('to nobody', 'POST', '/mail/send', { ...mail, to: [] });
  await tell('from another', 'POST', '/mail/send', { ...mail, from: { address: 'eve@else.test' } });
  const draft = { mailbox: 'Drafts', uid: 1 };
  const inReplyTo = { mailbox: 'INBOX', uid: 1 };
  const attachments = [{ mailbox: 'INBOX', uid: 7, part: '2' }];
  await tell('send the draft as an answer', 'POST', '/mail/send', {
    ...mail,
    draft,
    inReplyTo,
    attachments,
  });
  await tell('the draft stays until then', 'POST', '/mail/sync', { mailbox: 'Drafts' });
  await tell('the copy', 'POST', '/mail/messages', {
    mailbox: 'Sent',
    uids: [2],
    fields: ['flags', 'envelope', 'preview', 'threadId', 'text', 'attachments'],
  });
  await tell('answered', 'POST', '/mail/sync', { mailbox: 'INBOX', fields: ['flags'] });
  const unfinished = { text: 'Hello', inReplyTo, attachments };
  const saved = await tell('save a draft', 'POST', '/mail/drafts', unfinished, {
    'idempotency-key': 'd',
  });
  await tell('save it again', 'POST', '/mail/drafts', unfinished, { 'idempotency-key': 'd' });
  const next = { text: 'Hello.', attachments: [{ ...saved, part: '2' }], draft: saved };
  const { uid } = await tell('save another in its place', 'POST', '/mail/drafts', next);
  await tell('that one', 'POST', '/mail/messages', {
    mailbox: 'Drafts',
    uids: [saved.uid, uid],
    fields: ['flags', 'envelope', 'preview', 'text', 'attachments'],
  });
  const other = { ...next, draft: inReplyTo, attachments: [] };
  await tell('save it in place of no draft', 'POST', '/mail/drafts', other);
}

test('the fake answers as the service does', async () => {
  const service = await startTestService('sqlite');
  const real = await service.makeAccount();
  const fake = new FakeServer({ clock: new VirtualClock(Date.now()) });
  const account = fake.addAccount({ address: real.address, displayName: 'Test' });
  const { token } = fake.issueToken(account);
  const steps: [string, unknown][] = [];
  const normalize = normalizer();
  await live(caller(service.url, fetch, real.token), (step, answer) =>
    steps.push([step, normalize(answer)]),
  );
  const [first] = steps;
  assert.ok(first);
  const normalizeFake = normalizer();
  await live(caller(BASE, fake.fetch, token), (step, answer) => {
    const [expected, wanted] = steps.shift() ?? [];
    assert.equal(step, expected);
    assert.deepEqual(normalizeFake(answer), wanted, step);
  });
  assert.deepEqual(steps, []);
});

function start(options: ConstructorParameters<typeof FakeServer>[0] = {}) {
  const server = new FakeServer(options);
  const account = server.addAccount({ address: 'ada@acme.test', password: 'correct horse' });
  const { token } = server.issueToken(account);
  return { server, account, token, call: caller(BASE, server.fetch, token) };
}

const list = ['GET', '/mail/mailboxes'] as const;

test('requests and answers are lost, refused and late, each when a test says so', async () => {
  const { server, account, call } = start();
  account.deliver('INBOX', { subject: 'one' });
  const flag = () => call('POST', '/mail/flags', { mailbox: 'INBOX', uids: [1], add: ['\\Seen'] });
  const flags = () => account.mailbox('INBOX').find(1)?.flags;
  server.failNext({ lose: 'request' }, '/mail/flags');
  assert.equal((await call(...list)).status, 200);
  await assert.rejects(flag(), TypeError);
  assert.deepEqual(flags(), []);
  server.failNext({ lose: 'answer' });
  await assert.rejects(flag(), TypeError);
  assert.deepEqual(flags(), ['\\Seen']);
  server.failNext({ status: 503, retryAfter: 7 });
  assert.equal((await flag()).status, 503);
  server.fault = ({ path }) => (path === '/mail/flags' ? { delayMs: 1000 } : undefined);
  let answered = false;
  const late = flag().finally(() => {
    answered = true;
  });
  await server.clock.advance(999);
  assert.equal(answered, false);
  await server.clock.advance(1);
  assert.equal((await late).status, 200);
  const paths = server.requests.map(({ path }) => path);
  assert.deepEqual(paths, ['/mail/mailboxes', ...Array.from({ length: 3 }, () => '/mail/flags')]);
  server.online = false;
  await assert.rejects(call(...list), TypeError);
});

test('a request that is ended while its answer is late is rejected', async () => {
  const { server, token } = start();
  server.failNext({ delayMs: Number.POSITIVE_INFINITY });
  const stop = new AbortController();
  const headers = { authorization: `Bearer ${token}` };
  const late = server.fetch(`${BASE}/mail/mailboxes`, { headers, signal: stop.signal });
  await server.clock.advance(1);
  stop.abort(new Error('enough'));
  await assert.rejects(late, /enough/);
});

test('tokens end, and a minute has only so many requests', async () => {
  const { server, account, call } = start({ tokenSeconds: 100, rateLimitPerMinute: 2 });
  const statuses = async () => [(await call(...list)).status, (await call(...list)).status];
  assert.deepEqual(await statuses(), [200, 200]);
  assert.equal((await call(...list)).status, 429);
  await server.clock.advance(60_000);
  assert.deepEqual(await statuses(), [200, 200]);
  await server.clock.advance(60_000);
  assert.deepEqual(await statuses(), [401, 401]);
  await server.clock.advance(60_000);
  const body = { address: account.address, password: 'wrong' };
  assert.equal((await call('POST', '/mail/token', body)).status, 401);
  const login = await call('POST', '/mail/token', { ...body, password: 'correct horse' });
  assert.equal(login.status, 200);
  server.suspend(account);
  await server.clock.advance(60_000);
  const { token } = server.issueToken(account);
  assert.equal((await caller(BASE, server.fetch, token)(...list)).status, 403);
});

test('a socket tells of each change, and ends with a code', async () => {
  const { server, account, token } = start();
  const told: { type: string; mailbox?: string; token?: string; mailboxes?: unknown[] }[] = [];
  const codes: number[] = [];
  const open = (protocols: string[]) => {
    const socket = new server.WebSocket('wss://mail.test/ws', protocols);
    socket.onmessage = ({ data }) => told.push(JSON.parse(String(data)));
    socket.addEventListener('close', ({ code }) => codes.push(code));
    return socket;
  };
  const socket = open(['postroom', `bearer.${token}`]);
  await server.clock.advance(0);
  assert.equal(socket.readyState, server.WebSocket.OPEN);
  const uid = account.deliver('INBOX', { text: 'Hello' });
  account.flag('INBOX', [uid], []);
  account.create('Projects');
  await server.clock.advance(0);
  assert.deepEqual(
    told.map(({ type, mailbox = '' }) => `${type} ${mailbox}`.trim()),
    ['hello', 'mailbox_changed INBOX', 'mailbox_changed Projects', 'mailboxes_changed'],
  );
  assert.equal(told[0]?.mailboxes?.length, 6);
  assert.equal(told[1]?.token, account.mailbox('INBOX').state.token);
  server.dropSockets();
  open(['postroom', 'bearer.none']);
  const own = open(['postroom', `bearer.${token}`]);
  await server.clock.advance(0);
  own.close(1000);
  await server.clock.advance(0);
  assert.deepEqual(codes, [1006, 1006, 1000]);
});

test('mail goes out at its time, to an account beside it too', async () => {
  const { server, account, call } = start();
  const bob = server.addAccount({ address: 'bob@acme.test' });
  const to = [{ address: 'bob@acme.test' }];
  const mail = { to, subject: 'Hi', text: 'Hello', delaySeconds: 10 };
  const { id } = (await call('POST', '/mail/send', mail)).body as { id: string };
  await server.clock.advance(9_999);
  assert.equal(account.sends.find({ id }).status, 'queued');
  assert.deepEqual(bob.mailbox('INBOX').uids, []);
  await server.clock.advance(1);
  const { sends } = (await call('POST', '/mail/sends/read', { ids: [id] })).body as {
    sends: { status: string }[];
  };
  assert.equal(sends[0]?.status, 'delivered');
  assert.equal(bob.mailbox('INBOX').find(1)?.text, 'Hello');
  assert.equal((await call('POST', '/mail/sends/cancel', { id })).status, 409);
});

test('a mailbox is made anew, and forgets what was removed: both begin with a reset', async () => {
  const { account, call } = start();
  account.deliver('INBOX');
  account.deliver('INBOX');
  const sync = async (body: object) =>
    (await call('POST', '/mail/sync', { mailbox: 'INBOX', ...body })).body as Sync;
  const { token, uidvalidity } = await sync({});
  account.remove('INBOX', [1]);
  account.mailbox('INBOX').forgetRemoved();
  const forgotten = await sync({ token, uidvalidity });
  assert.deepEqual([forgotten.reset, forgotten.changes.added], [true, [{ uid: 2 }]]);
  account.recreate('INBOX');
  const anew = await sync({ token: forgotten.token, uidvalidity });
  assert.deepEqual([anew.reset, anew.changes.added], [true, [{ uid: 1 }]]);
  assert.notEqual(anew.uidvalidity, uidvalidity);
});
