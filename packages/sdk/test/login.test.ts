/** Signing in from a page: by a cookie that stays, or for a tab alone; on a whole service. */
import assert from 'node:assert/strict';
import { before, beforeEach, test } from 'node:test';
import {
  startTestService,
  type TestAccount,
  type TestService,
} from '../../../test/support/service.ts';
import { ApiError, keptLogins, signIn } from '../src/login.ts';
import { openMail, SessionEnded } from '../src/mail.ts';

let service: TestService;
let ada: TestAccount;
let bob: TestAccount;

before(async () => {
  service = await startTestService('sqlite', { RATE_LIMIT_PER_MINUTE: '0' });
  ada = await service.makeAccount('ada');
  bob = await service.makeAccount('bob');
});

/** As a page has it. */
class MemoryStorage {
  readonly #items = new Map<string, string>();

  getItem = (key: string) => this.#items.get(key) ?? null;
  setItem = (key: string, value: string) => void this.#items.set(key, value);
  removeItem = (key: string) => void this.#items.delete(key);
  get text(): string {
    return JSON.stringify([...this.#items]);
  }
}

const page = globalThis as unknown as { localStorage: object; sessionStorage: object };
const cookies = new Map<string, string>();
const paths: string[] = [];
let local = new MemoryStorage();
let session = new MemoryStorage();

/** Node has neither. */
function define(name: 'localStorage' | 'sessionStorage', value: object): void {
  Object.defineProperty(page, name, { value, configurable: true, writable: true });
}

/** Another tab, and what a tab has after a reload of its browser. */
function openTab(): void {
  session = new MemoryStorage();
  define('sessionStorage', session);
}

beforeEach(() => {
  cookies.clear();
  paths.length = 0;
  local = new MemoryStorage();
  define('localStorage', local);
  openTab();
});

/** Keeps cookies, as a browser does. */
const browserFetch: typeof fetch = async (input, init) => {
  const headers = new Headers(init?.headers);
  headers.set('cookie', [...cookies].map(([name, value]) => `${name}=${value}`).join('; '));
  const response = await fetch(input, { ...init, headers });
  for (const cookie of response.headers.getSetCookie()) {
    const [, name = '', value = ''] = /^([^=]+)=([^;]*)/.exec(cookie) ?? [];
    if (value === '') cookies.delete(name);
    else cookies.set(name, value);
  }
  const { pathname, search } = new URL(String(input));
  paths.push(pathname + search);
  return response;
};

const server = () => ({ baseUrl: service.url, fetch: browserFetch });
const login = (account: TestAccount, remember: boolean) =>
  signIn({
    ...server(),
    address: ` ${account.address.toUpperCase()}`,
    password: account.password,
    remember,
  });

/** Whose mail a token opens. */
async function mailOf(token: string): Promise<string | undefined> {
  const { sub } = JSON.parse(atob(token.split('.')[1] ?? '')) as { sub?: string };
  const headers = { authorization: `Bearer ${token}` };
  const { status } = await fetch(`${service.url}/mail/mailboxes`, { headers });
  return status === 200 ? sub : undefined;
}

test('a login that is remembered opens mail in each tab without the password, until it is ended', async () => {
  for (const account of [ada, bob]) {
    const made = await login(account, true);
    assert.ok(made.remembered);
    assert.equal(await mailOf((await made.token()).token), account.address);
  }
  openTab();
  const kept = keptLogins(server());
  assert.deepEqual(
    kept.map(({ address, remembered }) => [address, remembered]),
    [
      [ada.address, true],
      [bob.address, true],
    ],
  );
  for (const one of kept) assert.equal(await mailOf((await one.token()).token), one.address);
  assert.deepEqual(paths.slice(2), ['/mail/token/renew?slot=0', '/mail/token/renew?slot=1']);
  assert.doesNotMatch(local.text + session.text, new RegExp(ada.password));

  await kept[0]?.end();
  assert.deepEqual(
    keptLogins(server()).map(({ address }) => address),
    [bob.address],
  );
  await assert.rejects(async () => await kept[0]?.token(), { code: 'unauthorized' });
  // The cookie that is free now is the next one's.
  await login(ada, true);
  assert.equal(paths.at(-1), '/mail/token?slot=0');
});

test('a login of a tab is there after a reload as long as its token is good, and nowhere else', async () => {
  const made = await login(ada, false);
  const { token, expires_in = 0 } = await made.token();
  assert.ok(expires_in > 0 && expires_in < 3600);
  // The password renews it, as long as the page is open.
  assert.equal(await mailOf((await made.token()).token), ada.address);
  assert.equal(cookies.size, 0);
  assert.doesNotMatch(session.text, new RegExp(ada.password));
  const [reloaded] = keptLogins(server());
  assert.equal(reloaded?.remembered, false);
  assert.equal(await mailOf((await reloaded?.token())?.token ?? ''), ada.address);
  assert.notEqual(token, '');
  await assert.rejects(async () => await reloaded?.token(), SessionEnded);
  openTab();
  assert.deepEqual(keptLogins(server()), []);
});

test('a login that ends while it asks for a token leaves nothing, either', async () => {
  const made = await login(ada, false);
  await made.token();
  const asking = made.token();
  await made.end();
  await asking;
  assert.deepEqual(keptLogins(server()), []);
});

test('who signs in for the tab alone is remembered no more', async () => {
  await login(ada, true);
  await login(ada, false);
  assert.deepEqual(
    keptLogins(server()).map(({ remembered }) => remembered),
    [false],
  );
  assert.equal(cookies.size, 0);
  assert.equal(paths.at(-1), '/mail/token/forget?slot=0');
});

test('ten accounts are remembered; the next one is signed in for its tab', async () => {
  const slots = Array.from({ length: 10 }, (_, slot) => ({ address: `${slot}@acme.test`, slot }));
  local.setItem(`postroom-logins ${service.url}`, JSON.stringify(slots));
  assert.equal((await login(ada, true)).remembered, false);
});

test('a wrong password leaves nothing, and another origin has no cookie', async () => {
  const wrong = { ...server(), address: ada.address, password: 'not the one', remember: true };
  await assert.rejects(signIn(wrong), (error) => error instanceof ApiError && error.status === 401);
  assert.deepEqual(keptLogins(server()), []);
  Object.defineProperty(page, 'location', {
    value: { origin: 'https://app.test' },
    configurable: true,
  });
  try {
    await assert.rejects(login(ada, true), TypeError);
    assert.equal((await login(ada, false)).remembered, false);
  } finally {
    Reflect.deleteProperty(page, 'location');
  }
});

test('a client opens with a login', async () => {
  const made = await login(ada, true);
  const mail = await openMail({
    baseUrl: service.url,
    address: made.address,
    auth: made.token,
    platform: { fetch: browserFetch, openChannel: undefined },
  });
  const isLive = new Promise<void>((resolve) => {
    mail.on('state', ({ state }) => state === 'live' && resolve());
  });
  await isLive;
  await mail.signOut();
  await made.end();
  assert.equal(cookies.size, 0);
});
