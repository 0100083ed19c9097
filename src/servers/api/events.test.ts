import assert from 'node:assert/strict';
import { get, type IncomingMessage } from 'node:http';
import { before, test } from 'node:test';
import { sql } from 'kysely';
import { apiKey, type RunningApi, startApi } from '../../../test/support/api/start-api.ts';
import { onEachEngine } from '../../../test/support/databases.ts';
import { Events, OLDEST_CURSOR, writeEvents } from '../../tenants/events/events.ts';

interface Item {
  readonly cursor: string;
  readonly type: string;
  readonly timestamp: string;
  readonly data: Readonly<Record<string, unknown>>;
}

/** A block of an event stream: its fields, comments under an empty name. */
type Block = Readonly<Record<string, string>>;

onEachEngine('GET /v2/events', (engine) => {
  let api: RunningApi;
  let domainId = 0;

  before(async () => {
    api = await startApi(engine);
    await api.activateDomain('demo', 'acme.test');
    domainId = (await api.domains.find('demo', 'acme.test')).id;
  });

  const read = (query: string) => api.call('GET', `/v2/events?user_id=demo&${query}`);
  /** Writes an event, and waits until it can be read: open transactions of the other suites' databases hold it up, too. */
  async function note(detail: string): Promise<void> {
    await api.database.write((tx) =>
      writeEvents(tx, [{ type: 'delivery.failed', domainId, data: { detail } }], Date.now()),
    );
    const events = new Events(api.database);
    const all = { field: 'after', cursor: OLDEST_CURSOR };
    const ofUser = { userId: 'demo', organizationId: undefined };
    while ((await events.read(ofUser, all, 1_000)).isHeld);
  }
  const detailsOf = (items: readonly Item[]) => items.map(({ data }) => data.detail);

  /** Opens a stream with Node's own client, and reads it block by block. */
  async function open(query: string, headers: Record<string, string> = {}, user = 'demo') {
    const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
    const url = `${api.url}/v2/events?user_id=${user}&${query}`;
    const common = { 'x-api-key': apiKey, accept: 'text/event-stream' };
    const request = get(url, { headers: { ...common, ...headers } }, resolve).on('error', reject);
    const response = await promise;
    response.setEncoding('utf8');
    async function* read(): AsyncGenerator<Block> {
      let text = '';
      for await (const piece of response) {
        const blocks = `${text}${piece}`.split('\n\n');
        text = blocks.pop() ?? '';
        for (const block of blocks) {
          yield Object.fromEntries(
            block.split('\n').map((line) => {
              const at = line.indexOf(':');
              return [line.slice(0, at), line.slice(at + 1).trim()];
            }),
          );
        }
      }
    }
    const blocks = read();
    const next = async () => (await blocks.next()).value as Block | undefined;
    return { response, next, close: () => request.destroy() };
  }

  test('answers with a page, its cursor, and whether there is more', async () => {
    for (const detail of ['a', 'b', 'c']) await note(detail);
    const first = await read('after=0&limit=2&wait=0');
    assert.equal(first.status, 200);
    assert.deepEqual([first.body.items.length, first.body.has_more], [2, true]);
    assert.equal(first.body.items[0].type, 'domain.active');
    assert.match(first.body.items[0].timestamp, /^\d{4}-\d\d-\d\dT.*Z$/);
    assert.equal(first.body.cursor, first.body.items[1].cursor);
    const rest = await read(`after=${first.body.cursor}`);
    assert.deepEqual([detailsOf(rest.body.items), rest.body.has_more], [['b', 'c'], false]);
    const none = await read(`after=${rest.body.cursor}&wait=0`);
    assert.deepEqual(none.body.items, []);
  });

  test('waits for the next event, from now on where no cursor is given', async () => {
    const { body: start } = await read('wait=0');
    assert.deepEqual(start.items, []);
    const waiting = read(`after=${start.cursor}&wait=20&types=delivery.failed`);
    await note('soon');
    const { body } = await waiting;
    assert.deepEqual(detailsOf(body.items), ['soon']);
    const late = await read(`after=${body.cursor}&wait=1`);
    assert.deepEqual([late.body.items, late.status], [[], 200]);
  });

  test('looks on at once where none of many events is for it', { timeout: 30_000 }, async () => {
    const told = sql`
      with recursive counted (n) as (select 1 union all select n + 1 from counted where n < 10001)
      insert into events (user_id, type, data, created_at)
      select 'many', case when n > 10000 then 'send.bounced' else 'message.received' end, '{}', ${Date.now()}
      from counted order by n`;
    await api.database.write((tx) => told.execute(tx));
    const query = 'user_id=many&after=0&wait=50&types=send.bounced';
    const { body } = await api.call('GET', `/v2/events?${query}`);
    assert.deepEqual([body.items.length, body.has_more], [1, false]);
  });

  test('names a parameter that is wrong, and says what is missing where a cursor is too old', async () => {
    const cases = [
      ['after=forged', 400, 'after'],
      ['after=1', 400, 'after'],
      ['types=message.recieved', 400, 'types'],
      ['wait=51', 400, 'wait'],
      ['limit=0', 400, 'limit'],
    ] as const;
    for (const [query, status, field] of cases) {
      const { status: found, body } = await read(query);
      assert.deepEqual([found, body.errors?.[0].field], [status, field], query);
    }
    const forged = await open('', { 'last-event-id': 'forged' });
    assert.equal(forged.response.statusCode, 400);
    forged.close();
    for (const headers of [{}, { accept: 'text/event-stream' }]) {
      const gone = await api.call('GET', '/v2/events?user_id=demo&after=z-0-1', undefined, headers);
      assert.deepEqual(
        [gone.status, gone.body.code, gone.body.oldest],
        [410, 'cursor_expired', '0'],
      );
    }
  });

  test('a page and a stream tell an event in the same order', async () => {
    await api.activateDomain('order', 'order.test');
    const { id } = await api.domains.find('order', 'order.test');
    const data = { send_id: 's', message_id: '<1@acme.test>', subject: 'x', recipients: 1 };
    await api.database.write((tx) =>
      writeEvents(tx, [{ type: 'message.sent', domainId: id, data }], Date.now()),
    );
    const query = 'after=0&wait=20&types=message.sent';
    const { body } = await api.call('GET', `/v2/events?user_id=order&${query}`);
    const stream = await open('after=0&types=message.sent', {}, 'order');
    await stream.next();
    const told = await stream.next();
    stream.close();
    assert.equal(told?.data, JSON.stringify(body.items[0]));
    assert.deepEqual(Object.keys(body.items[0].data), Object.keys(data));
  });

  test('streams what was and what comes, without a gap, and goes on from Last-Event-ID', async () => {
    const { body } = await read('after=0&wait=0&limit=1000');
    const stream = await open('after=0&types=delivery.failed');
    assert.equal(stream.response.headers['content-type'], 'text/event-stream');
    assert.equal(stream.response.headers['x-accel-buffering'], 'no');
    assert.equal((await stream.next())?.id, '0');
    const before = detailsOf(body.items).slice(1);
    const added = Array.from({ length: 30 }, (_, n) => `live ${n}`);
    const writing = (async () => {
      for (const detail of added) await note(detail);
    })();
    const seen: Block[] = [];
    while (seen.length < before.length + added.length) {
      const block = await stream.next();
      assert.ok(block);
      if (block.data !== undefined) seen.push(block);
    }
    await writing;
    const items = seen.map(({ data = '' }) => JSON.parse(data) as Item);
    assert.deepEqual(detailsOf(items), [...before, ...added]);
    assert.ok(
      seen.every(({ id, event }, at) => id === items[at]?.cursor && event === 'delivery.failed'),
    );
    stream.close();
    const again = await open('types=delivery.failed', { 'last-event-id': seen.at(-3)?.id ?? '' });
    await again.next();
    const [one, two] = [await again.next(), await again.next()];
    assert.deepEqual([one?.id, two?.id], [seen.at(-2)?.id, seen.at(-1)?.id]);
    again.close();
  });

  test('tells changes of mailboxes as hints, which have no id', async () => {
    const made = {
      userId: 'demo',
      domain: 'acme.test',
      localPart: 'ada',
      password: 'a good password',
    };
    const { account } = await api.accounts.create(made);
    const stream = await open('types=mailbox.changed');
    await stream.next();
    const change = {
      mailbox: 'INBOX',
      uidvalidity: '7',
      token: '2',
      eventType: 'MailboxesChanged',
    };
    api.changes.publish({ kind: 'mailbox', accountId: account.id, ...change });
    const block = await stream.next();
    assert.deepEqual(Object.keys(block ?? {}), ['event', 'data']);
    const { type, data } = JSON.parse(block?.data ?? '');
    assert.equal(type, 'mailbox.changed');
    const { eventType: _, ...told } = change;
    assert.deepEqual(data, { account_id: account.id, address: 'ada@acme.test', ...told });
    const { status, body } = await read('after=0&wait=0&types=mailbox.changed');
    assert.deepEqual([status, body.items], [200, []]);
    stream.close();
  });

  test('is for the user, and the organization, that the key is bound to', async () => {
    const by = { actor: 'test', requestId: undefined };
    const key = { name: 'k', scope: 'product' as const, isReadOnly: true, expiresAt: undefined };
    const bound = { ...key, userId: 'demo', organizationId: undefined };
    const { secret } = await api.keys.create(bound, by);
    const own = { 'x-api-key': secret };
    const of = (user: string, headers: Record<string, string>) =>
      api.call('GET', `/v2/events?user_id=${user}&after=0&wait=0`, undefined, headers);
    assert.ok((await of('demo', own)).body.items.length > 0);
    assert.equal((await of('other', own)).status, 403);
    assert.deepEqual((await of('other', {})).body.items, []);
    const inOrganization = { ...key, userId: undefined, organizationId: 'org-1' };
    const { secret: other } = await api.keys.create(inOrganization, by);
    assert.deepEqual((await of('demo', { 'x-api-key': other })).body.items, []);
    assert.equal((await of('demo', { 'x-api-key': 'wrong' })).status, 401);
  });

  test('tells a key that was revoked nothing more, also where it waits already', async () => {
    const by = { actor: 'test', requestId: undefined };
    const scope = { scope: 'product', userId: 'demo', organizationId: undefined } as const;
    const made = { name: 'k', ...scope, isReadOnly: true, expiresAt: undefined };
    const { key, secret } = await api.keys.create(made, by);
    const own = { 'x-api-key': secret };
    // What came before can be read then: of what an open transaction holds up, none comes after the cursor.
    await note('earlier');
    const { cursor } = (await read('wait=0')).body;
    const path = `/v2/events?user_id=demo&after=${cursor}`;
    const waiting = api.call('GET', path, undefined, own);
    const stream = await open(`after=${cursor}`, own);
    assert.equal((await stream.next())?.id, cursor);
    await note('before');
    assert.match((await stream.next())?.data ?? '', /before/);
    assert.equal((await waiting).status, 200);
    const later = (await read('wait=0')).body.cursor;
    const next = api.call('GET', `/v2/events?user_id=demo&after=${later}`, undefined, own);
    await api.keys.revoke(key.id, by);
    await note('after');
    assert.equal(await stream.next(), undefined);
    assert.equal((await next).status, 401);
  });

  test('has ten streams and waiting requests for a user at most, and gives their slots back', async () => {
    const streams = await Promise.all(Array.from({ length: 10 }, () => open('', {}, 'crowd')));
    const refused = await api.call('GET', '/v2/events?user_id=crowd');
    assert.deepEqual([refused.status, refused.body.code], [429, 'too_many_connections']);
    assert.ok(Number(refused.headers.get('retry-after')) > 0);
    assert.equal((await api.call('GET', '/v2/events?user_id=demo&after=0&wait=0')).status, 200);
    for (const { close } of streams) close();
    const deadline = Date.now() + 10_000;
    for (;;) {
      const { status } = await api.call('GET', '/v2/events?user_id=crowd&wait=0');
      if (status === 200) break;
      assert.ok(Date.now() < deadline, 'the slots are free again');
    }
  });

  test('streams to whoever wants a stream at least as much as JSON', async () => {
    const wants = async (accept: string) => {
      const url = `${api.url}/v2/events?user_id=demo&after=0&wait=0`;
      const answer = await fetch(url, { headers: { 'x-api-key': apiKey, accept } });
      await answer.body?.cancel();
      return answer.headers.get('content-type')?.split(';')[0];
    };
    for (const accept of [
      'text/event-stream',
      'Text/Event-Stream; charset=utf-8',
      'application/json, text/event-stream',
      'application/json;q=0.9, text/event-stream',
      '*/*, text/event-stream;q=0.5',
    ]) {
      assert.equal(await wants(accept), 'text/event-stream', accept);
    }
    for (const accept of [
      '*/*',
      'text/*',
      'text/event-stream;q=0',
      'application/json, text/event-stream;q=0.1',
      'text/event-streams',
    ]) {
      assert.equal(await wants(accept), 'application/json', accept);
    }
  });

  test('ends streams and waiting requests when the server stops', async () => {
    const stopping = await startApi(engine);
    const url = `${stopping.url}/v2/events?user_id=demo`;
    const headers = { 'x-api-key': apiKey };
    // It may not have arrived before the end.
    const waiting = fetch(`${url}&wait=50`, { headers }).catch(() => undefined);
    const stream = await fetch(url, { headers: { ...headers, accept: 'text/event-stream' } });
    await stopping.app.close();
    assert.match(await stream.text(), /^retry: 1000\nid: \S+\n\n$/);
    const answer = await waiting;
    if (answer?.ok) assert.match(await answer.text(), /^{"items":\[\]/);
  });
});
