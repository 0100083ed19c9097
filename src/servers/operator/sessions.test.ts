/** The console's session: signing in and out, what its cookie opens, and what a stranger gets. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { before, test } from 'node:test';
import {
  type Answer,
  apiKey,
  type RunningApi,
  secondApiKey,
  startApi,
} from '../../../test/support/api/start-api.ts';
import { onEachEngine } from '../../../test/support/databases.ts';
import { limitInMemory } from '../../platform/net/net.ts';
import { ConsoleSessions } from './sessions.ts';

const PATH = '/v2/operator/console/session';
const HOUR_MS = 60 * 60 * 1000;

const cookieOf = ({ headers }: Answer) => headers.getSetCookie()[0]?.split(';', 1)[0] ?? '';

onEachEngine('sessions of the console', (engine) => {
  let api: RunningApi;
  let now = Date.now();

  before(async () => {
    api = await startApi(engine, {}, { now: () => now });
  });

  const signIn = (key = apiKey) =>
    api.call('POST', PATH, { api_key: key }, { 'x-api-key': undefined });
  const withCookie = (
    method: string,
    path: string,
    cookie: string,
    options: { readonly body?: object; readonly csrf?: string } = {},
  ) =>
    api.call(method, path, options.body, {
      'x-api-key': undefined,
      cookie,
      'x-csrf-token': options.csrf,
    });

  test('an API key opens a session, whose cookie opens /v2', async () => {
    const opened = await signIn();
    assert.equal(opened.status, 200);
    const [set = ''] = opened.headers.getSetCookie();
    assert.match(
      set,
      /^postroom-console=[\w-]{43}; Path=\/v2; Max-Age=43200; HttpOnly; SameSite=Strict$/,
    );
    assert.equal(Date.parse(opened.body.expires_at), now + 12 * HOUR_MS);
    const cookie = cookieOf(opened);
    const again = await withCookie('GET', PATH, cookie);
    assert.deepEqual(again.body, opened.body);
    assert.equal((await withCookie('GET', '/v2/domains?user_id=demo', cookie)).status, 200);
    assert.equal((await withCookie('GET', '/v2/operator/audit', cookie)).status, 200);
  });

  test('a change needs the CSRF token of its own session', async () => {
    const opened = await signIn();
    const other = await signIn();
    const cookie = cookieOf(opened);
    const body = { user_id: 'demo', domain: 'csrf.test' };
    for (const csrf of [undefined, '', 'x', other.body.csrf_token]) {
      const refused = await withCookie('POST', '/v2/domain', cookie, {
        body,
        ...(csrf !== undefined && { csrf }),
      });
      assert.deepEqual([refused.status, refused.body.code], [403, 'csrf_token_invalid']);
    }
    const csrf = opened.body.csrf_token;
    assert.equal((await withCookie('POST', '/v2/domain', cookie, { body, csrf })).status, 201);
    // A page of another site that knows a key could send it anyway: only the header decides.
    const keyed = await api.call('POST', '/v2/domains/delete', body, { cookie });
    assert.equal(keyed.status, 200);
  });

  test('a cookie is invalid after the sign-out', async () => {
    const opened = await signIn();
    const cookie = cookieOf(opened);
    assert.equal((await withCookie('DELETE', PATH, cookie)).status, 403, 'without the token');
    const ended = await withCookie('DELETE', PATH, cookie, { csrf: opened.body.csrf_token });
    assert.equal(ended.status, 200);
    assert.match(ended.headers.getSetCookie()[0] ?? '', /^postroom-console=; .*Max-Age=0/);
    for (const path of [PATH, '/v2/operator/audit', '/v2/domains?user_id=demo']) {
      const replayed = await withCookie('GET', path, cookie);
      assert.deepEqual([replayed.status, replayed.body.code], [401, 'unauthorized']);
    }
  });

  test('signing in again ends the session before', async () => {
    const cookie = cookieOf(await signIn());
    const next = await api.call(
      'POST',
      PATH,
      { api_key: apiKey },
      { 'x-api-key': undefined, cookie },
    );
    assert.equal((await withCookie('GET', PATH, cookie)).status, 401);
    assert.equal((await withCookie('GET', PATH, cookieOf(next))).status, 200);
  });

  test('a session ends after 12 hours, and its row is removed at the next sign-in', async () => {
    const cookie = cookieOf(await signIn());
    now += 12 * HOUR_MS - 1;
    assert.equal((await withCookie('GET', PATH, cookie)).status, 200);
    now += 1;
    assert.equal((await withCookie('GET', PATH, cookie)).status, 401);
    await signIn();
    const { count } = await api.database.read
      .selectFrom('console_sessions')
      .select(({ fn }) => fn.countAll<number>().as('count'))
      .executeTakeFirstOrThrow();
    assert.equal(Number(count), 1);
  });

  test('the database holds neither cookie nor key', async () => {
    const cookie = cookieOf(await signIn());
    const secret = cookie.split('=')[1] ?? '';
    const rows = await api.database.read.selectFrom('console_sessions').selectAll().execute();
    const kept = JSON.stringify(rows);
    const hash = createHash('sha256').update(apiKey).digest('hex');
    for (const text of [secret, apiKey, hash]) assert.ok(!kept.includes(text), text);
    assert.ok(rows.every(({ actor }) => actor === hash.slice(0, 8)));
  });

  test('any other text as a session is refused', async () => {
    const hostile = ['x', '.', '%00', "' or 1=1 --", 'a'.repeat(5_000), '"quoted"'];
    for (const value of hostile) {
      const { status } = await withCookie('GET', PATH, `postroom-console=${value}`);
      assert.equal(status, 401, value);
    }
    assert.equal((await withCookie('GET', PATH, 'postroom_login=x')).status, 401);
    const keyed = await api.call('GET', PATH);
    assert.equal(keyed.status, 401, 'an API key has no session');
    const wrong = await api.call('GET', '/v2/operator/audit', undefined, {
      'x-api-key': 'wrong',
      cookie: cookieOf(await signIn()),
    });
    assert.equal(wrong.status, 401, 'a wrong key is not made good by a cookie');
  });

  test("an account's token opens nothing of the operator's", async () => {
    await api.activateDomain('demo', 'acme.test');
    const { account } = await api.accounts.create({
      userId: 'demo',
      domain: 'acme.test',
      localPart: 'ada',
    });
    const { token } = await api.tokens.issue(account);
    const authorization = `Bearer ${token}`;
    for (const headers of [
      { 'x-api-key': undefined, authorization },
      { 'x-api-key': token },
      { 'x-api-key': undefined, cookie: `postroom-console=${token}` },
    ]) {
      const { status, body } = await api.call('GET', '/v2/operator/audit', undefined, headers);
      assert.deepEqual([status, body.code], [401, 'unauthorized']);
    }
    const signedIn = await signIn(token);
    assert.equal(signedIn.status, 401);
  });

  test('the sign-in is in the audit log, by the name of its key', async () => {
    await signIn(secondApiKey);
    const { body } = await api.call('GET', '/v2/operator/audit?limit=1');
    const [entry] = body.items;
    const actor = createHash('sha256').update(secondApiKey).digest('hex').slice(0, 8);
    assert.deepEqual(
      [entry.action, entry.actor, entry.target],
      ['console.sign_in', actor, '127.0.0.1'],
    );
    assert.ok(entry.request_id && entry.node && Date.parse(entry.at));
  });

  test('by HTTPS the cookie is of this host alone', async () => {
    const secure = await startApi(engine, { publicUrl: () => 'https://mail.acme.test' });
    const opened = await secure.call('POST', PATH, { api_key: apiKey }, { 'x-api-key': undefined });
    const [set = ''] = opened.headers.getSetCookie();
    assert.match(set, /^__Host-postroom-console=[\w-]{43}; Path=\/; .*SameSite=Strict; Secure$/);
    const [, secret] = cookieOf(opened).split('=');
    const plain = { 'x-api-key': undefined, cookie: `postroom-console=${secret}` };
    assert.equal((await secure.call('GET', PATH, undefined, plain)).status, 401);
  });

  test('a client that guesses is limited, and the right key is not counted', async () => {
    const guarded = await startApi(engine);
    const attempt = (key: string) =>
      guarded.call('POST', PATH, { api_key: key }, { 'x-api-key': undefined });
    for (let at = 0; at < 12; at++) assert.equal((await attempt(apiKey)).status, 200);
    const guesses = await Promise.all(Array.from({ length: 15 }, () => attempt('guessed')));
    const statuses = guesses.map(({ status }) => status);
    assert.equal(statuses.filter((status) => status === 401).length, 10);
    assert.equal(statuses.filter((status) => status === 429).length, 5);
    const late = await attempt(apiKey);
    assert.equal(late.status, 429);
    assert.ok(Number(late.headers.get('retry-after')) > 0);
    assert.equal((await guarded.call('GET', '/v2/operator/audit')).status, 200);
  });

  test('a session ends where its API key is no longer one of the keys', async () => {
    const open = (apiKeys: readonly string[]) =>
      new ConsoleSessions({
        database: api.database,
        apiKeys,
        keys: api.keys,
        openLimit: limitInMemory,
        now: () => now,
      });
    const both = open([apiKey, secondApiKey]);
    const { secret } = await both.open({ apiKey, ip: '127.0.0.1', requestId: 'r' });
    assert.ok(await both.find(secret));
    assert.ok(await open([apiKey]).find(secret), 'on another node');
    assert.equal(await open([secondApiKey]).find(secret), undefined);
  });
});
