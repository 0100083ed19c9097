/**
 * A product backend puts a domain online: claims it, sees what DNS must say, sets its route.
 */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { type RunningApi, startApi } from '../support/api/start-api.ts';
import { onEachEngine } from '../support/databases.ts';

onEachEngine('domains', (engine) => {
  let api: RunningApi;
  before(async () => {
    api = await startApi(engine);
  });

  test("a user's domains are listed by their ids, page by page", async () => {
    const names = ['zeta.test', 'alpha.test', 'mitte.test'];
    for (const domain of [...names, 'other.test']) {
      const user_id = domain === 'other.test' ? 'somebody' : 'collector';
      await api.call('POST', '/v2/domain', { domain, user_id });
    }
    const list = async (query: string) => {
      const { status, body } = await api.call('GET', `/v2/domains?user_id=collector${query}`);
      assert.equal(status, 200);
      return body;
    };
    const namesOf = ({ items }: { items: { domain: string }[] }) => items.map((one) => one.domain);
    const all = await list('');
    assert.deepEqual(namesOf(all), names);
    assert.deepEqual([all.limit, all.offset], [50, 0]);
    assert.deepEqual(Object.keys(all.items[0]), ['id', 'domain', 'status', 'created_at']);
    assert.deepEqual(namesOf(await list('&limit=1&offset=1')), ['alpha.test']);
    const first = await list('&limit=1');
    // What goes meanwhile moves no page.
    await api.call('POST', '/v2/domains/delete', { domain: 'zeta.test', user_id: 'collector' });
    const after = await list(`&limit=2&after=${first.items[0].id}`);
    assert.deepEqual(namesOf(after), ['alpha.test', 'mitte.test']);
    assert.deepEqual(namesOf(await list(`&after=${after.items[1].id}`)), []);
    for (const query of ['&limit=0', '&after=-1', '&after=x', '&limit=1001']) {
      const { status } = await api.call('GET', `/v2/domains?user_id=collector${query}`);
      assert.equal(status, 400, query);
    }
    const { body } = await api.call('GET', '/v2/domains?user_id=nobody');
    assert.deepEqual(body.items, []);
    assert.equal((await api.call('GET', '/v2/domains')).status, 400);
  });

  test('a domain is created, proved, read and deleted', async () => {
    const created = await api.call('POST', '/v2/domain', {
      domain: 'Acme.test',
      user_id: 'user-1',
      organization_id: 'org-1',
    });
    assert.equal(created.status, 201);
    assert.equal(typeof created.body.message, 'string');
    const details = created.body.domain;
    assert.equal(details.domain.domain, 'acme.test');
    assert.equal(details.domain.status, 'pending');
    assert.equal(details.domain.organization_id, 'org-1');
    assert.ok(!Number.isNaN(Date.parse(details.domain.created_at)));
    assert.deepEqual(details.route, { domain: 'acme.test', forward_mode: 'store' });
    assert.deepEqual(details.mx, { host: 'mail.localhost', priority: 10 });
    assert.deepEqual(
      details.dns.map((record: Record<string, unknown>) => [record.record_type, record.purpose]),
      [
        ['MX', 'mx'],
        ['TXT', 'spf'],
        ['TXT', 'dmarc'],
        ['TXT', 'dkim'],
      ],
    );
    for (const record of details.dns) {
      assert.equal(record.status, 'pending');
      assert.ok(!('observed_value' in record), 'what was not observed is left out');
      assert.equal(typeof record.expected_value, 'string');
    }

    const listed = await api.call('GET', '/v2/domains/acme.test/dns?user_id=user-1');
    assert.equal(listed.status, 200);
    assert.deepEqual(listed.body, { domain: details.domain, dns: details.dns });

    let marked = created;
    for (const { id } of details.dns) {
      marked = await api.call('POST', '/v2/domains/acme.test/dns/mark', {
        user_id: 'user-1',
        id,
        status: 'verified',
        observed_value: 'seen by hand',
      });
      assert.equal(marked.status, 200);
    }
    assert.equal(marked.body.domain.status, 'active');
    assert.equal(typeof marked.body.domain.verified_at, 'string');
    assert.equal(marked.body.dns[3].observed_value, 'seen by hand');

    const read = await api.call('GET', '/v2/domains/ACME.test/info?user_id=user-1');
    assert.equal(read.status, 200);
    assert.deepEqual(read.body, marked.body);

    const deleted = await api.call('POST', '/v2/domains/delete', {
      domain: 'acme.test',
      user_id: 'user-1',
    });
    assert.equal(deleted.status, 200);
    assert.deepEqual(deleted.body, { ok: true, deleted: 'acme.test' });
    const gone = await api.call('GET', '/v2/domains/acme.test/info?user_id=user-1');
    assert.equal(gone.status, 404);
    assert.equal(gone.body.code, 'domain_not_found');
  });

  test('an IDN is read by either of its names', async () => {
    const made = await api.call('POST', '/v2/domain', { domain: 'bücher.test', user_id: 'u' });
    assert.equal(made.body.domain.domain.domain, 'xn--bcher-kva.test');
    for (const name of ['xn--bcher-kva.test', encodeURIComponent('bücher.test')]) {
      const read = await api.call('GET', `/v2/domains/${name}/info?user_id=u`);
      assert.equal(read.status, 200);
    }
  });

  test('a route is replaced as a whole', async () => {
    await api.call('POST', '/v2/domain', { domain: 'routes.test', user_id: 'user-1' });
    const put = (body: object) =>
      api.call('PUT', '/v2/domains/routes.test/route', { user_id: 'user-1', ...body });

    const hooked = await put({
      forward_mode: 'webhook_then_store',
      webhook_url: 'https://app.example.com/mail',
      webhook_secret: 'a secret',
    });
    assert.equal(hooked.status, 200);
    assert.deepEqual(hooked.body.route, {
      domain: 'routes.test',
      forward_mode: 'webhook_then_store',
      webhook_url: 'https://app.example.com/mail',
      webhook_secret: 'a secret',
    });

    const bare = await put({
      forward_mode: 'webhook',
      webhook_url: 'https://app.example.com/mail',
      webhook_secret: null,
    });
    assert.deepEqual(bare.body.route, {
      domain: 'routes.test',
      forward_mode: 'webhook',
      webhook_url: 'https://app.example.com/mail',
    });

    const forwarded = await put({ forward_mode: 'forward_email', forward_to_email: 'a@b.test' });
    assert.equal(forwarded.body.route.forward_to_email, 'a@b.test');
    assert.equal((await put({ forward_mode: 'webhook' })).status, 400);
    const { body } = await api.call('GET', '/v2/domains/routes.test/info?user_id=user-1');
    assert.equal(body.route.forward_to_email, 'a@b.test', 'a refused route changes nothing');
    assert.deepEqual((await put({ forward_mode: 'store' })).body.route, {
      domain: 'routes.test',
      forward_mode: 'store',
    });
  });

  test('a route that cannot work is refused by the name of the field', async () => {
    await api.call('POST', '/v2/domain', { domain: 'bad-routes.test', user_id: 'user-1' });
    const refused = async (body: object, field: string) => {
      const answer = await api.call('PUT', '/v2/domains/bad-routes.test/route', {
        user_id: 'user-1',
        ...body,
      });
      assert.equal(answer.status, 400, JSON.stringify(body));
      assert.equal(answer.body.code, 'invalid_request');
      assert.deepEqual(
        answer.body.errors.map((error: { field: string }) => error.field),
        [field],
      );
    };
    await refused({}, 'forward_mode');
    await refused({ forward_mode: 'carrier_pigeon' }, 'forward_mode');
    await refused({ forward_mode: 'webhook' }, 'webhook_url');
    const hooked = { forward_mode: 'webhook', webhook_url: 'https://x.test' };
    await refused({ ...hooked, webhook_url: null }, 'webhook_url');
    await refused({ ...hooked, webhook_secret: 'whsec_!' }, 'webhook_secret');
    await refused({ forward_mode: 'forward_email' }, 'forward_to_email');
  });

  test('a name that cannot be claimed is refused', async () => {
    const claim = (domain: unknown, user_id: unknown = 'user-1') =>
      api.call('POST', '/v2/domain', { domain, user_id });
    for (const domain of ['', 'com', 'a b.test', 42, null]) {
      const answer = await claim(domain);
      assert.equal(answer.status, 400, `domain ${domain}`);
      assert.equal(answer.body.errors[0].field, 'domain');
    }
    assert.equal((await claim('twice.test')).status, 201);
    const twice = await claim('TWICE.test');
    assert.equal(twice.status, 409);
    assert.equal(twice.body.code, 'domain_exists');

    await api.activateDomain('owner', 'held.test');
    const waiting = await claim('held.test');
    assert.equal(waiting.status, 201);
    assert.equal(waiting.body.domain.domain.status, 'pending');
    assert.match(waiting.body.domain.dns[3].detail, /^Another claim on this domain is active/);
  });

  test('the domain of another user is not found', async () => {
    await api.call('POST', '/v2/domain', { domain: 'mine.test', user_id: 'owner' });
    const { body } = await api.call('GET', '/v2/domains/mine.test/dns?user_id=owner');
    const attempts = [
      api.call('GET', '/v2/domains/mine.test/info?user_id=thief'),
      api.call('GET', '/v2/domains/mine.test/dns?user_id=thief'),
      api.call('GET', '/v2/domains/mine.test/email-accounts?user_id=thief'),
      api.call('PUT', '/v2/domains/mine.test/route', { user_id: 'thief', forward_mode: 'store' }),
      api.call('POST', '/v2/domains/delete', { user_id: 'thief', domain: 'mine.test' }),
      api.call('POST', '/v2/domains/mine.test/dns/mark', {
        user_id: 'thief',
        id: body.dns[0].id,
        status: 'verified',
      }),
    ];
    for (const answer of await Promise.all(attempts)) {
      assert.equal(answer.status, 404);
      assert.equal(answer.body.code, 'domain_not_found');
    }
  });

  test('a mark needs a record of the domain and a valid status', async () => {
    await api.call('POST', '/v2/domain', { domain: 'marks.test', user_id: 'user-1' });
    const other = await api.call('POST', '/v2/domain', {
      domain: 'others.test',
      user_id: 'user-1',
    });
    const { body } = await api.call('GET', '/v2/domains/marks.test/dns?user_id=user-1');
    const mark = (fields: object) =>
      api.call('POST', '/v2/domains/marks.test/dns/mark', {
        user_id: 'user-1',
        id: body.dns[0].id,
        status: 'verified',
        ...fields,
      });
    for (const status of ['pending', 'failed', 'disabled', 'verified']) {
      assert.equal((await mark({ status })).body.dns[0].status, status);
    }
    for (const id of [0, -1, 999_999_999, 2 ** 53, 1e300, other.body.domain.dns[0].id]) {
      const answer = await mark({ id });
      assert.equal(answer.status, 404, `id ${id}`);
      assert.equal(answer.body.code, 'dns_record_not_found');
    }
    for (const fields of [
      { id: '1' },
      { id: 1.5 },
      { id: null },
      { id: [1] },
      { status: 'great' },
      { status: 1 },
      { observed_value: 5 },
      { observed_value: 'x'.repeat(5000) },
    ]) {
      assert.equal((await mark(fields)).status, 400, JSON.stringify(fields).slice(0, 50));
    }
  });
});
