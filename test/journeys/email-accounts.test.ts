/**
 * A product backend makes mailboxes for its users and lets their apps in.
 */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { type RunningApi, startApi } from '../support/api/start-api.ts';
import { onEachEngine } from '../support/databases.ts';

onEachEngine('email accounts', (engine) => {
  let api: RunningApi;
  before(async () => {
    api = await startApi(engine);
    await api.activateDomain('user-1', 'acme.test');
  });

  const create = (fields: object) =>
    api.call('POST', '/v2/email-accounts/create', {
      domain: 'acme.test',
      user_id: 'user-1',
      ...fields,
    });

  test('an account lives from its creation to its deletion', async () => {
    const created = await create({ local_part: 'Ann', display_name: 'Ann Example' });
    assert.equal(created.status, 201);
    assert.equal(created.body.password.length, 20);
    assert.match(created.body.note, /not shown again/);
    const { created_at, ...account } = created.body.account;
    assert.ok(!Number.isNaN(Date.parse(created_at)));
    assert.deepEqual(account, {
      id: account.id,
      user_id: 'user-1',
      domain: 'acme.test',
      local_part: 'ann',
      address: 'ann@acme.test',
      display_name: 'Ann Example',
      status: 'active',
      is_default: true,
    });

    const read = await api.call('GET', `/v2/email-accounts/${account.id}?user_id=user-1`);
    assert.equal(read.status, 200);
    assert.deepEqual(read.body, { account: created.body.account }, 'the password is not there');

    const renamed = await api.call('PUT', `/v2/email-accounts/${account.id}`, {
      user_id: 'user-1',
      display_name: 'Ann B.',
    });
    assert.equal(renamed.status, 200);
    assert.equal(renamed.body.account.display_name, 'Ann B.');
    assert.equal(renamed.body.account.status, 'active');

    const deleted = await api.call('POST', '/v2/email-accounts/delete', {
      id: account.id,
      user_id: 'user-1',
    });
    assert.equal(deleted.status, 200);
    assert.deepEqual(deleted.body, {
      ok: true,
      deleted: { id: account.id, address: 'ann@acme.test' },
    });
    const gone = await api.call('GET', `/v2/email-accounts/${account.id}?user_id=user-1`);
    assert.equal(gone.status, 404);
    assert.equal(gone.body.code, 'account_not_found');
  });

  test('a password of their own logs in until it is reset', async () => {
    const { body } = await create({ local_part: 'bob', password: 'correct horse' });
    assert.equal(body.password, 'correct horse');
    const login = (password: string) =>
      api.call(
        'POST',
        '/mail/token',
        { address: 'bob@acme.test', password },
        { 'x-api-key': undefined },
      );
    const opened = await login('correct horse');
    assert.equal(opened.status, 200);
    assert.equal(typeof opened.body.token, 'string');
    assert.ok(opened.body.expires_in > 0);

    const reset = await api.call('POST', `/v2/email-accounts/${body.account.id}/password/reset`, {
      user_id: 'user-1',
    });
    assert.equal(reset.status, 200);
    assert.equal(reset.body.account.address, 'bob@acme.test');
    assert.match(reset.body.note, /not shown again/);
    const refused = await login('correct horse');
    assert.equal(refused.status, 401);
    assert.equal(refused.body.code, 'unauthorized');
    assert.match(refused.headers.get('www-authenticate') ?? '', /^Bearer /);
    assert.equal((await login(reset.body.password)).status, 200);
    await assert.rejects(api.tokens.authenticate(opened.body.token), { code: 'unauthorized' });

    const chosen = await api.call('POST', `/v2/email-accounts/${body.account.id}/password/reset`, {
      user_id: 'user-1',
      password: 'battery staple',
    });
    assert.equal(chosen.body.password, 'battery staple');
    assert.equal((await login('battery staple')).status, 200);
  });

  test('a backend gets a token without the password; a suspended account has none', async () => {
    const { body } = await create({ local_part: 'carol' });
    const path = `/v2/email-accounts/${body.account.id}`;
    const issued = await api.call('POST', `${path}/token`, { user_id: 'user-1' });
    assert.equal(issued.status, 200);
    const access = await api.tokens.authenticate(issued.body.token);
    assert.equal(access.address, 'carol@acme.test');

    const suspended = await api.call('PUT', path, { user_id: 'user-1', status: 'suspended' });
    assert.equal(suspended.body.account.status, 'suspended');
    const refused = await api.call('POST', `${path}/token`, { user_id: 'user-1' });
    assert.equal(refused.status, 403);
    assert.equal(refused.body.code, 'account_inactive');
    const login = await api.call('POST', '/mail/token', {
      address: 'carol@acme.test',
      password: body.password,
    });
    assert.equal(login.status, 403);

    await api.call('PUT', path, { user_id: 'user-1', status: 'active' });
    assert.equal((await api.call('POST', `${path}/token`, { user_id: 'user-1' })).status, 200);
  });

  test('listings are pages ordered by id', async () => {
    await api.activateDomain('lister', 'one.test');
    await api.activateDomain('lister', 'two.test');
    for (const [domain, local_part] of [
      ['one.test', 'a'],
      ['two.test', 'b'],
      ['one.test', 'c'],
    ]) {
      await create({ user_id: 'lister', domain, local_part });
    }
    const list = async (path: string) => (await api.call('GET', path)).body;
    const addresses = (page: { items: { address: string }[] }) =>
      page.items.map((item) => item.address);

    const all = await list('/v2/email-accounts?user_id=lister');
    assert.deepEqual(addresses(all), ['a@one.test', 'b@two.test', 'c@one.test']);
    assert.deepEqual([all.limit, all.offset], [50, 0]);
    assert.deepEqual(
      all.items.map((item: { is_default: boolean }) => item.is_default),
      [true, false, false],
    );

    const second = await list('/v2/email-accounts?user_id=lister&limit=1&offset=1');
    assert.deepEqual(addresses(second), ['b@two.test']);
    assert.deepEqual([second.limit, second.offset], [1, 1]);
    const behind = await list(`/v2/email-accounts?user_id=lister&after=${all.items[0].id}`);
    assert.deepEqual(behind.items, all.items.slice(1));
    const past = await list('/v2/email-accounts?user_id=lister&offset=9007199254740991');
    assert.deepEqual(addresses(past), []);

    const filtered = await list('/v2/email-accounts?user_id=lister&domain=ONE.test');
    assert.deepEqual(addresses(filtered), ['a@one.test', 'c@one.test']);

    const ofDomain = await list('/v2/domains/one.test/email-accounts?user_id=lister&limit=1000');
    assert.equal(ofDomain.domain.domain, 'one.test');
    assert.equal(ofDomain.domain.status, 'active');
    assert.deepEqual(addresses(ofDomain), ['a@one.test', 'c@one.test']);
    assert.deepEqual([ofDomain.limit, ofDomain.offset], [1000, 0]);

    const unknown = await api.call('GET', '/v2/email-accounts?user_id=lister&domain=acme.test');
    assert.equal(unknown.status, 404);
  });

  test('absurd pages are refused', async () => {
    for (const limit of ['0', '-1', '1001', '1e3', '1.5', '-0', '', ' 5', '+5', '0x10', 'NaN']) {
      for (const path of ['/v2/email-accounts', '/v2/domains/acme.test/email-accounts']) {
        const query = new URLSearchParams({ user_id: 'user-1', limit });
        const answer = await api.call('GET', `${path}?${query}`);
        assert.equal(answer.status, 400, `limit ${limit}`);
        assert.equal(answer.body.errors[0].field, 'limit');
      }
    }
    for (const offset of ['-1', '9223372036854775808', '9007199254740992', '1e3', '1.5', '']) {
      const query = new URLSearchParams({ user_id: 'user-1', offset });
      const answer = await api.call('GET', `/v2/email-accounts?${query}`);
      assert.equal(answer.status, 400, `offset ${offset}`);
      assert.equal(answer.body.errors[0].field, 'offset');
    }
    const twice = await api.call('GET', '/v2/email-accounts?user_id=user-1&limit=1&limit=2');
    assert.equal(twice.status, 400);
  });

  test('absurd ids are not found or not ids', async () => {
    for (const id of ['0', '-5', '999999999', '9007199254740993', '99999999999999999999999']) {
      for (const [method, path, body] of [
        ['GET', `/v2/email-accounts/${id}?user_id=user-1`, undefined],
        ['PUT', `/v2/email-accounts/${id}`, { user_id: 'user-1', display_name: 'x' }],
        ['POST', `/v2/email-accounts/${id}/token`, { user_id: 'user-1' }],
        ['POST', `/v2/email-accounts/${id}/password/reset`, { user_id: 'user-1' }],
        ['POST', '/v2/email-accounts/delete', { user_id: 'user-1', id: Number(id) }],
      ] as const) {
        const answer = await api.call(method, path, body);
        assert.equal(answer.status, 404, `${method} ${path}`);
        assert.equal(answer.body.code, 'account_not_found');
      }
    }
    for (const id of ['one', '1.5', '1e3', '-0', '0x1', '01', '%20', '1'.repeat(400)]) {
      const answer = await api.call('GET', `/v2/email-accounts/${id}?user_id=user-1`);
      assert.equal(answer.status, 400, `id ${id}`);
      assert.equal(answer.body.errors[0].field, 'id');
    }
    const text = await api.call('POST', '/v2/email-accounts/delete', {
      user_id: 'user-1',
      id: '1',
    });
    assert.equal(text.status, 400, 'bodies are not converted');
  });

  test('the account of another user is not found', async () => {
    const { body } = await create({ local_part: 'dora' });
    const { id } = body.account;
    for (const [method, path, fields] of [
      ['GET', `/v2/email-accounts/${id}?user_id=thief`, undefined],
      ['PUT', `/v2/email-accounts/${id}`, { display_name: 'mine' }],
      ['POST', `/v2/email-accounts/${id}/token`, {}],
      ['POST', `/v2/email-accounts/${id}/password/reset`, {}],
      ['POST', '/v2/email-accounts/delete', { id }],
    ] as const) {
      const answer = await api.call(method, path, fields && { user_id: 'thief', ...fields });
      assert.equal(answer.status, 404, `${method} ${path}`);
      assert.equal(answer.body.code, 'account_not_found');
    }
    const listed = await api.call('GET', '/v2/email-accounts?user_id=thief');
    assert.deepEqual(listed.body.items, []);
  });

  test('accounts are made only on active domains, each address once', async () => {
    await api.call('POST', '/v2/domain', { domain: 'waiting.test', user_id: 'user-1' });
    const waiting = await create({ domain: 'waiting.test', local_part: 'ann' });
    assert.equal(waiting.status, 409);
    assert.equal(waiting.body.code, 'domain_not_active');
    assert.match(
      waiting.body.detail,
      /^waiting\.test is pending: .*GET \/v2\/domains\/waiting\.test\/dns /,
    );
    const nowhere = await create({ domain: 'nowhere.test', local_part: 'ann' });
    assert.equal(nowhere.status, 404);
    assert.equal(nowhere.body.code, 'domain_not_found');

    assert.equal((await create({ local_part: 'once' })).status, 201);
    const again = await create({ local_part: 'ONCE' });
    assert.equal(again.status, 409);
    assert.equal(again.body.code, 'address_exists');
  });

  test('wrong fields are named', async () => {
    const wrong: [object, string][] = [
      [{}, 'local_part'],
      [{ local_part: 5 }, 'local_part'],
      [{ local_part: null }, 'local_part'],
      [{ local_part: '' }, 'local_part'],
      [{ local_part: 'a+b' }, 'local_part'],
      [{ local_part: 'a b' }, 'local_part'],
      [{ local_part: 'x'.repeat(65) }, 'local_part'],
      [{ local_part: 'ok', password: 'short' }, 'password'],
      [{ local_part: 'ok', password: 12345678 }, 'password'],
      [{ local_part: 'ok', display_name: 'x'.repeat(256) }, 'display_name'],
      [{ local_part: 'ok', display_name: {} }, 'display_name'],
      [{ local_part: 'ok', user_id: '' }, 'user_id'],
      [{ local_part: 'ok', user_id: 'x'.repeat(256) }, 'user_id'],
      [{ local_part: 'ok', user_id: undefined }, 'user_id'],
      [{ local_part: 'ok', domain: undefined }, 'domain'],
    ];
    for (const [fields, field] of wrong) {
      const answer = await create(fields);
      assert.equal(answer.status, 400, JSON.stringify(fields).slice(0, 60));
      assert.equal(answer.body.code, 'invalid_request');
      assert.equal(answer.body.errors[0].field, field);
    }
    const whole = await create({ local_part: 'ann@acme.test' });
    assert.equal(whole.body.detail, 'local_part must be what stands in front of the "@" alone');
    const { body } = await create({ local_part: 'eve' });
    const path = `/v2/email-accounts/${body.account.id}`;
    const changes: [object, string][] = [
      [{}, 'display_name'],
      [{ status: null }, 'display_name'],
      [{ status: 'asleep' }, 'status'],
      [{ display_name: 5 }, 'display_name'],
    ];
    for (const [fields, field] of changes) {
      const answer = await api.call('PUT', path, { user_id: 'user-1', ...fields });
      assert.equal(answer.status, 400, JSON.stringify(fields));
      assert.equal(answer.body.errors?.[0]?.field, field, JSON.stringify(fields));
    }
    const unknown = await api.call('PUT', path, {
      user_id: 'user-1',
      display_name: 'Eve',
      favourite_colour: 'green',
    });
    assert.equal(unknown.status, 200, 'fields that are not known are ignored');
  });
});
