/** What operators see of all users: domains, accounts, nodes, settings. */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { type RunningApi, startApi } from '../../../test/support/api/start-api.ts';
import { onEachEngine } from '../../../test/support/databases.ts';

/** Every item of a list, read page by page. */
async function readAll(api: RunningApi, path: string, limit: number) {
  const items: Record<string, unknown>[] = [];
  let cursor = '';
  for (let pages = 0; pages < 50; pages++) {
    const query = `limit=${limit}${cursor && `&cursor=${encodeURIComponent(cursor)}`}`;
    const { status, body } = await api.call(
      'GET',
      `${path}${path.includes('?') ? '&' : '?'}${query}`,
    );
    assert.equal(status, 200, JSON.stringify(body));
    assert.ok(body.items.length <= limit);
    items.push(...body.items);
    if (body.cursor === undefined) return items;
    cursor = body.cursor;
  }
  throw new Error(`${path} has no end`);
}

/** By how much the clock that all nodes share is ahead of this machine's, in milliseconds. */
const AHEAD = 60 * 60_000;

onEachEngine('what operators see', (engine) => {
  let api: RunningApi;
  const names = (items: readonly Record<string, unknown>[]) => items.map(({ domain }) => domain);

  before(async () => {
    api = await startApi(engine, {}, { now: () => Date.now() + AHEAD });
    await api.activateDomain('ann', 'acme.test');
    await api.activateDomain('bob', 'acme-mail.test');
    await api.domains.create({ userId: 'bob', domain: 'acme.test' });
    await api.domains.create({ userId: 'cyd', domain: 'zebra.test' });
    await api.domains.create({ userId: 'dan', domain: 'zebra.test' });
    for (const localPart of ['ada', 'bea', 'cal']) {
      await api.accounts.create({ userId: 'ann', domain: 'acme.test', localPart });
    }
    await api.accounts.create({ userId: 'bob', domain: 'acme-mail.test', localPart: 'ada' });
  });

  test('domains of all users are listed, the newest first, in pages', async () => {
    const all = ['zebra.test', 'zebra.test', 'acme.test', 'acme-mail.test', 'acme.test'];
    for (const limit of [1, 2, 5, 200]) {
      assert.deepEqual(names(await readAll(api, '/v2/operator/domains', limit)), all);
    }
    const [newest] = await readAll(api, '/v2/operator/domains', 200);
    assert.deepEqual(
      {
        ...newest,
        id: undefined,
        created_at: undefined,
        can_send_since: undefined,
        next_check_at: undefined,
      },
      {
        id: undefined,
        domain: 'zebra.test',
        user_id: 'dan',
        status: 'pending',
        suspended: false,
        forward_mode: 'store',
        route: 'store',
        accounts: 0,
        created_at: undefined,
        can_send: false,
        can_send_since: undefined,
        records_failed: [],
        records_missing: [],
        next_check_at: undefined,
        received_24h: 0,
        sent_24h: 0,
        bounced_24h: 0,
        can_receive: false,
        waiting: 0,
        messages: 0,
        bytes: 0,
      },
    );
  });

  test('domains are found by status, user and the start of the name', async () => {
    const find = (query: string) => readAll(api, `/v2/operator/domains?${query}`, 1);
    assert.deepEqual(names(await find('status=active')), ['acme-mail.test', 'acme.test']);
    assert.deepEqual(names(await find('user_id=bob')), ['acme.test', 'acme-mail.test']);
    const byName = await find('q=ACME');
    assert.deepEqual(
      byName.map(({ domain, user_id }) => [domain, user_id]),
      [
        ['acme-mail.test', 'bob'],
        ['acme.test', 'ann'],
        ['acme.test', 'bob'],
      ],
    );
    assert.deepEqual(names(await find('q=acme&status=pending')), ['acme.test']);
    assert.deepEqual(await find('q=cme'), []);
    assert.deepEqual(await find('status=suspended'), []);
  });

  test('a domain says whether it can send and what DNS lacks, and is found by it', async () => {
    const find = async (query: string) =>
      (await readAll(api, `/v2/operator/domains?${query}`, 1)).map(
        ({ domain, user_id }) => `${domain} ${user_id}`,
      );
    const read = async () => (await api.call('GET', '/v2/operator/domains/acme-mail.test')).body;
    const able = ['acme-mail.test bob', 'acme.test ann'];
    const pending = ['zebra.test dan', 'zebra.test cyd', 'acme.test bob'];
    assert.deepEqual(await find('can_send=true'), able);
    assert.deepEqual(await find('can_send=false'), pending);
    const before = await read();
    assert.deepEqual([before.can_send, before.records_failed], [true, []]);

    const { id } = before.records.find(({ purpose }: { purpose: string }) => purpose === 'dkim');
    const mark = async (status: string) => {
      const { domain, user_id } = before;
      const body = { user_id, id, status };
      assert.equal((await api.call('POST', `/v2/domains/${domain}/dns/mark`, body)).status, 200);
    };
    await mark('failed');
    const after = await read();
    assert.deepEqual(
      [after.status, after.can_send, after.records_failed],
      ['active', false, ['dkim']],
    );
    assert.equal(after.can_send_since, after.records_failed_since);
    const record = after.records.find((one: { id: number }) => one.id === id);
    assert.equal(record.failing_since, after.records_failed_since);
    assert.deepEqual(await find('can_send=false&status=active'), ['acme-mail.test bob']);
    assert.deepEqual(await find('can_send=false'), [...pending.slice(0, 3), 'acme-mail.test bob']);
    assert.deepEqual(await find('can_send=false&q=acme'), ['acme-mail.test bob', 'acme.test bob']);
    assert.deepEqual(await find('records_failed=dkim'), ['acme-mail.test bob']);
    assert.deepEqual(await find('records_failed=any&user_id=bob'), ['acme-mail.test bob']);
    assert.deepEqual(await find('records_failed=mx'), []);

    const others = ['acme.test ann', 'acme.test bob', 'zebra.test cyd', 'zebra.test dan'];
    assert.deepEqual(await find('sort=trouble'), ['acme-mail.test bob', ...others]);
    await lapse('zebra.test', 'dan', 1);
    const lost = ['acme-mail.test bob', 'zebra.test dan', ...others.slice(0, 3)];
    assert.deepEqual(await find('sort=trouble'), lost);
    assert.deepEqual(await find('sort=trouble&q=acme'), [
      'acme-mail.test bob',
      ...others.slice(0, 2),
    ]);
    assert.deepEqual(await find('sort=trouble&can_send=false'), [
      ...lost.slice(0, 2),
      ...others.slice(1, 3),
    ]);
    await lapse('zebra.test', 'dan', null);
    await mark('verified');
    assert.deepEqual(await find('can_send=true'), able);
    assert.deepEqual(await find('sort=trouble'), ['acme-mail.test bob', ...others]);
  });

  const lapse = (name: string, userId: string, at: number | null) =>
    api.database.write((tx) =>
      tx
        .updateTable('domains')
        .set({ lapsed_at: at })
        .where('name', '=', name)
        .where('user_id', '=', userId)
        .execute(),
    );

  test('a domain says whether it can receive, and is found by that, its route and what waits', async () => {
    const find = async (query: string) =>
      names(await readAll(api, `/v2/operator/domains?${query}`, 1));
    const all = ['acme-mail.test', 'acme.test'];
    const pending = ['zebra.test', 'zebra.test', 'acme.test'];
    assert.deepEqual(await find('can_receive=true'), all);
    assert.deepEqual(await find('can_receive=false'), pending);
    const choice = { domain: 'acme-mail.test', user_id: 'bob' };
    const act = (verb: string) => api.call('POST', `/v2/operator/domains/${verb}`, choice);
    const suspended = await act('suspend');
    assert.deepEqual([suspended.body.can_receive, suspended.body.waiting], [false, 0]);
    assert.deepEqual(await find('can_receive=true'), ['acme.test']);
    assert.deepEqual(await find('can_receive=false&can_send=true'), ['acme-mail.test']);
    await act('resume');
    const { body } = await api.call('GET', '/v2/operator/domains/acme-mail.test');
    const mx = body.dns.find(({ purpose }: { purpose: string }) => purpose === 'mx');
    const mark = (status: string) =>
      api.call('POST', '/v2/domains/acme-mail.test/dns/mark', {
        user_id: 'bob',
        id: mx.id,
        status,
      });
    await mark('failed');
    assert.deepEqual(await find('can_receive=false&can_send=true'), ['acme-mail.test']);
    await mark('verified');
    assert.deepEqual(await find('forward_mode=store&can_receive=true'), all);
    assert.deepEqual(await find('forward_mode=webhook'), []);
    const changes = await readAll(api, '/v2/operator/audit?target=acme-mail.test', 2);
    assert.deepEqual(
      changes.slice(0, 4).map(({ action }) => action),
      ['domain.mark_dns', 'domain.mark_dns', 'domain.resume', 'domain.suspend'],
    );
    assert.deepEqual(await readAll(api, '/v2/operator/audit?target=%25', 2), []);
    const hostile = await api.call('GET', '/v2/operator/audit?target=%00');
    assert.equal(hostile.status, 400);
  });

  test('a verified record that is gone says so, with what was seen and what to publish', async () => {
    await api.database.write((tx) =>
      tx
        .updateTable('dns_records')
        .set({
          marked: 0,
          misses: 1,
          failing_since: Date.UTC(2026, 0, 1),
          last_check: 'missed',
          observed_value: 'no record',
          detail: 'There is no TXT record at x: add the one with the DKIM key.',
        })
        .where('purpose', '=', 'dkim')
        .where('domain_id', 'in', (eb) =>
          eb.selectFrom('domains').select('id').where('name', '=', 'acme-mail.test'),
        )
        .execute(),
    );
    const { body } = await api.call('GET', '/v2/operator/domains/acme-mail.test');
    assert.deepEqual([body.can_send, body.records_missing], [true, ['dkim']]);
    const own = await api.call('GET', '/v2/domains/acme-mail.test/info?user_id=bob');
    for (const records of [body.records, own.body.dns]) {
      const dkim = records.find(({ purpose }: { purpose: string }) => purpose === 'dkim');
      assert.deepEqual(
        [dkim.status, dkim.last_check, dkim.misses, dkim.failing_since, dkim.observed_value],
        ['verified', 'missed', 1, '2026-01-01T00:00:00.000Z', 'no record'],
      );
      assert.match(dkim.detail, /^Missing now, .* There is no TXT record/);
      assert.match(dkim.expected_value, /^v=DKIM1/);
    }
    const other = await api.call('GET', '/v2/domains/acme-mail.test/info?user_id=ann');
    assert.equal(other.status, 404);
  });

  test('a domain is read with its records, its DKIM state and what its deletion would remove', async () => {
    const { status, body } = await api.call('GET', '/v2/operator/domains/ACME.test');
    assert.equal(status, 200);
    assert.deepEqual([body.user_id, body.accounts], ['ann', 3]);
    assert.equal(body.dns.length, 4);
    assert.deepEqual(body.records, body.dns);
    assert.equal(body.dkim.status, 'verified');
    assert.match(body.dkim.host, /\._domainkey$/);
    assert.deepEqual(body.checks.not_verified, []);
    assert.deepEqual(body.would_remove, { accounts: 3, messages: 0, bytes: 0, deliveries: 0 });
    assert.ok(!JSON.stringify(body).includes('PRIVATE KEY'));
    const other = await api.call('GET', '/v2/operator/domains/acme.test?user_id=bob');
    assert.equal(other.body.user_id, 'bob');
  });

  test('for a name with several pending claims the user is required', async () => {
    const unclear = await api.call('GET', '/v2/operator/domains/zebra.test');
    assert.equal(unclear.status, 400);
    assert.equal(unclear.body.errors[0].field, 'user_id');
    assert.equal((await api.call('GET', '/v2/operator/domains/nobody.test')).status, 404);
    assert.equal((await api.call('GET', '/v2/operator/domains/%00')).status < 500, true);
  });

  test('accounts of all users are listed and found', async () => {
    const find = async (query: string) =>
      (await readAll(api, `/v2/operator/accounts?${query}`, 2)).map(({ address }) => address);
    const ofAnn = ['cal@acme.test', 'bea@acme.test', 'ada@acme.test'];
    assert.deepEqual(await find(''), ['ada@acme-mail.test', ...ofAnn]);
    assert.deepEqual(await find('domain=acme.test'), ofAnn);
    assert.deepEqual(await find('user_id=bob'), ['ada@acme-mail.test']);
    assert.deepEqual(await find('q=Ada@'), ['ada@acme-mail.test', 'ada@acme.test']);
    assert.deepEqual(await find('q=zoe'), []);
    const [listed] = await readAll(api, '/v2/operator/accounts?q=ada@acme.test', 1);
    const {
      account_id: id,
      email,
      suspended,
      messages,
      bytes,
      quota_bytes,
      received_24h,
      sent_24h,
      bounced_24h,
      refused_24h,
      waiting,
      ...same
    } = listed ?? {};
    const own = await api.call('GET', `/v2/email-accounts/${id}?user_id=ann`);
    assert.deepEqual(same, own.body.account);
    assert.deepEqual([email, suspended], ['ada@acme.test', false]);
    assert.deepEqual([messages, bytes, quota_bytes], [0, 0, 0]);
    const traffic = [received_24h, sent_24h, bounced_24h, refused_24h, waiting];
    assert.deepEqual(traffic, [0, 0, 0, 0, 0]);
    const unknown = await api.call('GET', '/v2/operator/accounts?domain=nobody.test');
    assert.deepEqual([unknown.status, unknown.body.code], [404, 'domain_not_found']);
  });

  test('the log level changes at once, and a line says so', async () => {
    const change = (level: string) => api.call('POST', '/v2/operator/log-level', { level });
    const wrong = await change('loud');
    assert.deepEqual([wrong.status, wrong.body.errors[0].field], [400, 'level']);
    const changed = await change('debug');
    assert.deepEqual([changed.status, changed.body], [200, { level: 'debug' }]);
    const said = api.logLines.find(({ from, to }) => from === 'info' && to === 'debug');
    assert.match(String(said?.msg), /^the log level was changed/);
    // While it is set, every request has a line.
    await api.call('GET', '/v2/operator/nodes');
    const isRequest = ({ level, msg }: Record<string, unknown>) =>
      level === 20 && msg === 'request';
    assert.equal(api.logLines.some(isRequest), true);
    assert.equal((await change('info')).status, 200);
    const audit = await api.call('GET', '/v2/operator/audit?limit=1');
    const [{ action, target }] = audit.body.items;
    assert.deepEqual([action, target], ['log_level.change', 'info']);
  });

  test('the audit log names what a product changes, and with which key', async () => {
    const user_id = 'eve';
    const post = async (path: string, body: object) => {
      const { status, body: said } = await api.call('POST', path, { user_id, ...body });
      assert.ok(status < 300, JSON.stringify(said));
      return said;
    };
    const made = await post('/v2/domain', { domain: 'eve.test' });
    for (const { id } of made.domain.dns) {
      await post('/v2/domains/eve.test/dns/mark', { id, status: 'verified' });
    }
    const route = { user_id, forward_mode: 'store' };
    assert.equal((await api.call('PUT', '/v2/domains/eve.test/route', route)).status, 200);
    const { account } = await post('/v2/email-accounts/create', {
      domain: 'eve.test',
      local_part: 'eve',
    });
    const path = `/v2/email-accounts/${account.id}`;
    const suspended = await api.call('PUT', path, { user_id, status: 'suspended' });
    assert.equal(suspended.status, 200);
    await post(`${path}/password/reset`, {});
    await post('/v2/email-accounts/delete', { id: account.id });
    await post('/v2/domains/delete', { domain: 'eve.test' });
    const { body } = await api.call('GET', '/v2/operator/audit?limit=20');
    const entries: Record<string, unknown>[] = body.items;
    const mine = entries.filter(({ target }) => String(target).endsWith('eve.test')).reverse();
    assert.deepEqual(
      mine.map(({ action, target }) => [action, target]),
      [
        ['domain.create', 'eve.test'],
        ...made.domain.dns.map(() => ['domain.mark_dns', 'eve.test']),
        ['domain.set_route', 'eve.test'],
        ['account.create', 'eve@eve.test'],
        ['account.suspend', 'eve@eve.test'],
        ['account.reset_password', 'eve@eve.test'],
        ['account.delete', 'eve@eve.test'],
        ['domain.delete', 'eve.test'],
      ],
    );
    assert.ok(mine.every(({ actor }) => typeof actor === 'string' && actor.length === 8));
    // Every entry of this suite, by the clock that all nodes share.
    const off = entries.map(({ at }) => Math.abs(Date.parse(String(at)) - Date.now() - AHEAD));
    assert.ok(Math.max(...off) < AHEAD / 2, `${off}`);
  });

  test('a wrong field is refused by its name', async () => {
    const cases = [
      ['domains?limit=0', 'limit'],
      ['domains?limit=201', 'limit'],
      ['domains?status=gone', 'status'],
      ['domains?can_send=maybe', 'can_send'],
      ['domains?records_failed=ptr', 'records_failed'],
      ['domains?q=', 'q'],
      ['domains?sort=name', 'sort'],
      ['domains?can_receive=1', 'can_receive'],
      ['domains?forward_mode=fax', 'forward_mode'],
      ['domains?sort=trouble&cursor=WzIsImEiLDFd', 'cursor'],
      ['audit?target=', 'target'],
      ['domains?cursor=x', 'cursor'],
      ['accounts?cursor=WzFd&q=a', 'cursor'],
      ['accounts?user_id=', 'user_id'],
    ];
    for (const [path, field] of cases) {
      const { status, body } = await api.call('GET', `/v2/operator/${path}`);
      assert.deepEqual([status, body.errors?.[0]?.field], [400, field], String(path));
    }
    for (const hostile of ["' or 1=1 --", '%', '_', '\u{10ffff}', '%00', 'a'.repeat(255)]) {
      for (const list of ['domains', 'accounts']) {
        const path = `/v2/operator/${list}?q=${encodeURIComponent(hostile)}`;
        const { status, body } = await api.call('GET', path);
        assert.deepEqual([status, body.items], [200, []], path);
      }
    }
  });
});
