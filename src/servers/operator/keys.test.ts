/** API keys that operators make: by the API and at the sign-in of the console. */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import {
  type Answer,
  apiKey,
  type RunningApi,
  startApi,
} from '../../../test/support/api/start-api.ts';
import { onEachEngine } from '../../../test/support/databases.ts';

const PATH = '/v2/operator/keys';
const SESSION = '/v2/operator/console/session';
const HOUR_MS = 60 * 60 * 1000;

onEachEngine('keys of the API', (engine) => {
  let api: RunningApi;
  let now = Date.now();

  before(async () => {
    api = await startApi(engine, {}, { now: () => now });
  });

  async function make(fields: object): Promise<{ id: number; name: string; secret: string }> {
    const { status, body } = await api.call('POST', PATH, {
      name: 'k',
      scope: 'operator',
      ...fields,
    });
    assert.equal(status, 201, JSON.stringify(body));
    return { ...body.key, secret: body.api_key };
  }
  const callWith = (secret: string, method: string, path: string, body?: object) =>
    api.call(method, path, body, { 'x-api-key': secret });
  const signIn = (secret: string, on = api) =>
    on.call('POST', SESSION, { api_key: secret }, { 'x-api-key': undefined });
  const cookieOf = ({ headers }: Answer) => headers.getSetCookie()[0]?.split(';', 1)[0] ?? '';

  test('a key is made, listed without its secret, used, and revoked', async () => {
    const made = await api.call('POST', PATH, {
      name: 'billing',
      scope: 'product',
      user_id: 'ann',
      read_only: true,
      expires_at: new Date(now + HOUR_MS).toISOString(),
    });
    assert.equal(made.status, 201);
    assert.equal(made.headers.get('cache-control'), 'no-store');
    const { key, api_key: secret } = made.body;
    const item = async () => (await api.call('GET', PATH)).body.items[0];
    assert.deepEqual(await item(), key);
    assert.deepEqual(key, {
      id: key.id,
      name: 'billing',
      scope: 'product',
      user_id: 'ann',
      read_only: true,
      status: 'active',
      created_at: new Date(now).toISOString(),
      created_by: key.created_by,
      expires_at: new Date(now + HOUR_MS).toISOString(),
    });
    assert.match(key.created_by, /^[\da-f]{8}$/);
    assert.equal((await callWith(secret, 'GET', '/v2/domains?user_id=ann')).status, 200);
    await api.keys.stop();
    assert.deepEqual(await item(), { ...key, last_used_at: new Date(now).toISOString() });
    const { status, body } = await api.call('POST', `${PATH}/revoke`, { id: key.id });
    assert.deepEqual([status, body.status], [200, 'revoked']);
    const refused = await callWith(secret, 'GET', '/v2/domains?user_id=ann');
    assert.deepEqual([refused.status, refused.body.code], [401, 'unauthorized']);
    const unknown = await api.call('POST', `${PATH}/revoke`, { id: 999_999 });
    assert.deepEqual([unknown.status, unknown.body.code], [404, 'key_not_found']);
  });

  test('a key that has ended is shown as such', async () => {
    const { secret } = await make({ expires_at: new Date(now + HOUR_MS).toISOString() });
    now += HOUR_MS;
    const [item] = (await api.call('GET', `${PATH}?limit=1`)).body.items;
    assert.equal(item.status, 'expired');
    assert.equal((await callWith(secret, 'GET', PATH)).status, 401);
  });

  test('a lost key is replaced without a gap', async () => {
    const old = await make({ name: 'backend', scope: 'product' });
    const works = async (secret: string) =>
      (await callWith(secret, 'GET', '/v2/domains?user_id=ann')).status;
    const next = await make({ name: 'backend', scope: 'product' });
    assert.deepEqual([await works(old.secret), await works(next.secret)], [200, 200]);
    await api.call('POST', `${PATH}/revoke`, { id: old.id });
    assert.deepEqual([await works(old.secret), await works(next.secret)], [401, 200]);
  });

  test('the audit log names the key', async () => {
    const { id, secret } = await make({ name: 'backend of acme', scope: 'product' });
    const claimed = await callWith(secret, 'POST', '/v2/domain', {
      domain: 'audit.test',
      user_id: 'u',
    });
    assert.equal(claimed.status, 201);
    const { body } = await api.call('GET', '/v2/operator/audit?limit=2');
    const [claim, creation] = body.items;
    const name = `backend of acme (key ${id})`;
    assert.deepEqual([claim.actor, claim.action], [name, 'domain.create']);
    assert.deepEqual([creation.action, creation.target], ['key.create', name]);
  });

  test("only operators' keys make keys, and open the console", async () => {
    const product = await make({ scope: 'product' });
    const reader = await make({ read_only: true });
    for (const { secret } of [product, reader]) {
      const refused = await callWith(secret, 'POST', PATH, { name: 'more', scope: 'operator' });
      assert.deepEqual([refused.status, refused.body.code], [403, 'key_restricted']);
    }
    assert.equal((await callWith(reader.secret, 'GET', PATH)).status, 200);
    const signedIn = await signIn(product.secret);
    assert.deepEqual([signedIn.status, signedIn.body.code], [403, 'key_restricted']);
    assert.deepEqual(signedIn.headers.getSetCookie(), []);
  });

  test('a session may do what its key may, and ends with it', async () => {
    for (const read_only of [false, true]) {
      const { id, name, secret } = await make({ name: 'ops', read_only });
      const opened = await signIn(secret);
      assert.equal(opened.status, 200);
      const cookie = cookieOf(opened);
      const inConsole = (method: string, path: string, body?: object) =>
        api.call(method, path, body, {
          'x-api-key': undefined,
          cookie,
          'x-csrf-token': opened.body.csrf_token,
        });
      assert.equal((await inConsole('GET', SESSION)).status, 200);
      const block = { kind: 'domain', value: `by-${id}.example` };
      const blocked = await inConsole('POST', '/v2/operator/blocks', block);
      assert.equal(blocked.status, read_only ? 403 : 200);
      const { items } = (await api.call('GET', '/v2/operator/audit?limit=1')).body;
      assert.equal(items[0].actor, `${name} (key ${id})`);
      if (read_only) assert.equal((await inConsole('DELETE', SESSION)).status, 200);
      else await api.call('POST', `${PATH}/revoke`, { id });
      assert.equal((await inConsole('GET', '/v2/operator/audit')).status, 401);
    }
  });

  test('a session ends at the end of its key', async () => {
    const { secret } = await make({ expires_at: new Date(now + HOUR_MS).toISOString() });
    const cookie = cookieOf(await signIn(secret));
    const read = () => api.call('GET', SESSION, undefined, { 'x-api-key': undefined, cookie });
    assert.equal((await read()).status, 200);
    now += HOUR_MS;
    assert.equal((await read()).status, 401);
  });

  test('who guesses is limited for these keys as well', async () => {
    const guarded = await startApi(engine);
    const { body } = await guarded.call('POST', PATH, { name: 'k', scope: 'operator' });
    for (let at = 0; at < 12; at++) assert.equal((await signIn(body.api_key, guarded)).status, 200);
    const guess = `prk_${'A'.repeat(43)}`;
    const guesses = await Promise.all(Array.from({ length: 15 }, () => signIn(guess, guarded)));
    assert.deepEqual(
      [401, 429].map((code) => guesses.filter(({ status }) => status === code).length),
      [10, 5],
    );
    assert.equal((await signIn(body.api_key, guarded)).status, 429);
    assert.equal((await signIn(apiKey, guarded)).status, 429);
  });

  test('a wrong field is refused by its name', async () => {
    const wrong: [object, string][] = [
      [{ scope: 'admin' }, 'scope'],
      [{ name: '' }, 'name'],
      [{ scope: 'product', user_id: '' }, 'user_id'],
      [{ scope: 'product', organization_id: '' }, 'organization_id'],
      [{ user_id: 'ann' }, 'user_id'],
      [{ expires_at: 'tomorrow' }, 'expires_at'],
      [{ expires_at: '2020-01-31T12:00:00Z' }, 'expires_at'],
      [{ read_only: 'yes' }, 'read_only'],
    ];
    for (const [fields, field] of wrong) {
      const { status, body } = await api.call('POST', PATH, {
        name: 'k',
        scope: 'operator',
        ...fields,
      });
      assert.deepEqual([status, body.errors?.[0]?.field], [400, field], JSON.stringify(fields));
    }
  });
});
