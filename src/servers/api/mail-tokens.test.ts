/** The cookie by which a browser stays signed in. */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { type Answer, type RunningApi, startApi } from '../../../test/support/api/start-api.ts';

let api: RunningApi;
const login = { address: 'ada@acme.test', password: 'correct horse' };

async function start(options: Parameters<typeof startApi>[1] = {}): Promise<RunningApi> {
  const started = await startApi('sqlite', options);
  await started.activateDomain('demo', 'acme.test');
  await started.accounts.create({
    userId: 'demo',
    domain: 'acme.test',
    localPart: 'ada',
    password: login.password,
  });
  return started;
}

before(async () => {
  api = await start();
});

const cookieOf = ({ headers }: Answer) => headers.getSetCookie()[0]?.split(';', 1)[0] ?? '';
const renew = (cookie?: string) =>
  api.call('POST', '/mail/token/renew', undefined, { cookie, 'x-api-key': undefined });

test('without remember there is no cookie', async () => {
  for (const body of [login, { ...login, remember: false }]) {
    const answer = await api.call('POST', '/mail/token', body);
    assert.equal(answer.status, 200);
    assert.deepEqual(answer.headers.getSetCookie(), []);
  }
});

test('a browser gets the next token by the cookie, and each answer has the next cookie', async () => {
  const first = await api.call('POST', '/mail/token', { ...login, remember: true });
  const [set = ''] = first.headers.getSetCookie();
  assert.match(
    set,
    /^postroom_login=[\w.-]+; Path=\/mail\/token; Max-Age=2592000; HttpOnly; SameSite=Strict$/,
  );
  assert.deepEqual(Object.keys(first.body), ['token', 'expires_in']);
  const second = await renew(`theme=dark; ${cookieOf(first)}; x=y`);
  assert.equal(second.status, 200);
  assert.notEqual(cookieOf(second), cookieOf(first));
  const authorization = `Bearer ${second.body.token}`;
  const synced = await api.call('POST', '/mail/sync', {}, { authorization });
  assert.equal(synced.status, 200);
  assert.equal((await renew(cookieOf(second))).status, 200);
});

test('a foreign cookie of the same name is ignored', async () => {
  const first = await api.call('POST', '/mail/token', { ...login, remember: true });
  const over = await api.call('POST', '/mail/token', { ...login, remember: true });
  await api.call('POST', '/mail/token/forget', undefined, { cookie: cookieOf(over) });
  const second = await renew(
    `postroom_login=x; postroom_login=; ${cookieOf(over)}; ${cookieOf(first)}`,
  );
  assert.equal(second.status, 200);
  // Signing out ends the login, whichever place its cookie has.
  const cookie = `postroom_login=x; ${cookieOf(second)}`;
  await api.call('POST', '/mail/token/forget', undefined, { cookie });
  assert.equal((await renew(cookieOf(second))).status, 401);
});

test('an ended login is refused, and the browser drops the cookie', async () => {
  const none = await renew();
  assert.equal(none.status, 401);
  assert.deepEqual(none.headers.getSetCookie(), []);
  const signedIn = await api.call('POST', '/mail/token', { ...login, remember: true });
  const [account] = await api.accounts.list({ userId: 'demo', limit: 1, offset: 0 });
  await api.accounts.resetPassword('demo', account?.id ?? 0, login.password);
  const refused = await renew(cookieOf(signedIn));
  assert.deepEqual([refused.status, refused.body.code], [401, 'unauthorized']);
  assert.match(refused.headers.getSetCookie()[0] ?? '', /^postroom_login=; .*Max-Age=0/);
  assert.match(refused.headers.get('www-authenticate') ?? '', /^Bearer/);
});

test('one browser remembers several accounts, each in a cookie of its own', async () => {
  const body = { ...login, remember: true };
  const plain = await api.call('POST', '/mail/token', body);
  const second = await api.call('POST', '/mail/token?slot=2', body);
  assert.match(cookieOf(second), /^postroom_login_2=/);
  const cookie = `${cookieOf(plain)}; ${cookieOf(second)}`;
  const renewed = await api.call('POST', '/mail/token/renew?slot=2', undefined, { cookie });
  assert.match(cookieOf(renewed), /^postroom_login_2=/);
  const none = await api.call('POST', '/mail/token/renew?slot=3', undefined, { cookie });
  assert.equal(none.status, 401);
  const out = await api.call('POST', '/mail/token/forget?slot=2', undefined, { cookie });
  assert.match(out.headers.getSetCookie()[0] ?? '', /^postroom_login_2=; .*Max-Age=0/);
  assert.equal((await renew(cookieOf(plain))).status, 200);
  for (const slot of ['10', '-1', 'x']) {
    assert.equal((await api.call('POST', `/mail/token?slot=${slot}`, body)).status, 400);
  }
});

test('signing out ends the login', async () => {
  const signedIn = await api.call('POST', '/mail/token', { ...login, remember: true });
  const cookie = cookieOf(signedIn);
  const out = await api.call('POST', '/mail/token/forget', undefined, { cookie });
  assert.deepEqual([out.status, out.body], [200, { ok: true }]);
  assert.match(out.headers.getSetCookie()[0] ?? '', /^postroom_login=; .*Max-Age=0/);
  assert.equal((await renew(cookie)).status, 401);
  const again = await api.call('POST', '/mail/token/forget');
  assert.equal(again.status, 200, 'there is nothing to forget');
});

test('where the service is reached by HTTPS the cookie is sent only by HTTPS', async () => {
  const behindProxy = await start({ trustProxy: ['127.0.0.0/8'] });
  const body = { ...login, remember: true };
  const forwarded = await behindProxy.call('POST', '/mail/token', body, {
    'x-forwarded-proto': 'https',
  });
  const [set = ''] = forwarded.headers.getSetCookie();
  assert.match(
    set,
    /^__Host-postroom_login=[\w.-]+; Path=\/; Max-Age=2592000; HttpOnly; SameSite=Strict; Secure$/,
  );
  // Another host of the domain can set the name without the prefix.
  const cookie = cookieOf(forwarded);
  const renewWith = (given: string) =>
    behindProxy.call('POST', '/mail/token/renew', undefined, {
      cookie: given,
      'x-api-key': undefined,
      'x-forwarded-proto': 'https',
    });
  assert.equal((await renewWith(cookie.replace('__Host-', ''))).status, 401);
  assert.equal((await renewWith(cookie)).status, 200);
  const direct = await behindProxy.call('POST', '/mail/token', body);
  assert.ok(!direct.headers.getSetCookie()[0]?.includes('Secure'));
  const byUrl = await start({ publicUrl: () => 'https://mail.acme.test' });
  const answer = await byUrl.call('POST', '/mail/token', body);
  assert.match(answer.headers.getSetCookie()[0] ?? '', /; Secure$/);
});

test('behind a proxy that names ports too, wrong passwords count for the client, not for each of its connections', async () => {
  const behindProxy = await start({ trustProxy: ['127.0.0.0/8'] });
  const guess = async (port: number) => {
    const body = { ...login, password: `wrong horse ${port}` };
    const from = { 'x-forwarded-for': `198.51.100.7:${port}` };
    return (await behindProxy.call('POST', '/mail/token', body, from)).status;
  };
  for (let port = 1; port <= 11; port++) assert.equal(await guess(port), 401);
  assert.equal(await guess(12), 429);
});
