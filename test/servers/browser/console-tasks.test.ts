/**
 * What an operator does most, from the overview to the end, by mouse and by keyboard alone. Each task says in how many steps: a
 * step is a click, a key, or a text that is typed. How long it took is told, not tested.
 */
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';
import { DatabaseSync } from 'node:sqlite';
import { before, type TestContext, test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import type { Browser, Locator, Page } from 'playwright-core';
import { type DnsServer, startDnsServer, type ZoneRecord } from '../../support/dns-server.ts';
import { freePort } from '../../support/free-port.ts';
import { startTestService, type TestAccount, type TestService } from '../../support/service.ts';
import { type Look, lookAtConsole } from './console-page.ts';
import { launchChromium } from './watched-page.ts';

const SPAM = 12;
const WEBHOOKS = 2;
const ways = ['mouse', 'keyboard'] as const;
type Way = (typeof ways)[number];

/** What the tasks of one way are done to. */
interface Case {
  readonly got: TestAccount;
  readonly spammer: TestAccount;
  /** Port of a webhook that nobody listens at yet. */
  readonly port: number;
  readonly broken: Broken;
  readonly oldKey: string;
}

/** A domain whose DKIM record is wrong. */
interface Broken {
  readonly domain: string;
  readonly right: readonly ZoneRecord[];
}

const zone: readonly ZoneRecord[] = [
  ['elsewhere.test', 'MX', '10 127.0.0.1'],
  ['elsewhere.test', 'TXT', 'v=spf1 ip4:127.0.0.1 -all'],
];
let service: TestService;
let dns: DnsServer;
let browser: Browser;
let signedIn: Look;
const cases = new Map<Way, Case>();

/** Rows as a worker leaves them whose receiver did not answer. */
function fill(database: DatabaseSync, { id, address }: TestAccount): void {
  const account =
    database.prepare('select domain_id, user_id from accounts where id = ?').get(id) ??
    assert.fail();
  const body = database.prepare('insert into bodies (size, content) values (1, ?)').run('x');
  const insert = database.prepare(
    `insert into deliveries (kind, domain_id, destination, sender, body_id, public_id, status, attempts, next_attempt_at,
      attempted_at, mail_from, recipient, subject, created_at, updated_at)
     values ('send', ?, 'dead.test', ?, ?, ?, 'queued', 3, ?, ?, ?, ?, 'Offer', ?, ?)`,
  );
  const pay = database.prepare(
    "insert into delivery_payloads (delivery_id, payload) values (?, '{}')",
  );
  const now = Date.now();
  for (let number = 0; number < SPAM; number++) {
    const { lastInsertRowid } = insert.run(
      ...[Number(account.domain_id), `${account.domain_id}/${id}/${account.user_id}`],
      ...[Number(body.lastInsertRowid), randomUUID(), now + 86_400_000, now - 60_000],
      ...[address, `someone${number}@dead.test`, now - 7_200_000, now],
    );
    pay.run(lastInsertRowid);
  }
}

interface Expected {
  readonly id: number;
  readonly purpose: string;
  readonly record_type: 'MX' | 'TXT';
  readonly host: string;
  readonly expected_value: string;
  readonly priority?: number;
}

/** A domain that DNS verified, and whose DKIM record was lost since. */
async function breakDomain(database: DatabaseSync, domain: string): Promise<Broken> {
  const { body } = await service.v2('POST', '/v2/domain', { user_id: 'user-dns', domain });
  const records: readonly Expected[] = body.domain.dns;
  const right = records.map(({ host, record_type: type, expected_value: value, priority }) => {
    const name = host === '@' ? domain : `${host}.${domain}`;
    const strings = value.match(/.{1,255}/g) ?? [];
    return [name, type, type === 'MX' ? `${priority} ${value}` : strings] as const;
  });
  dns.publish([...zone, ...right]);
  const path = `/v2/domains/${domain}/verify`;
  const verified = await service.v2('POST', path, { user_id: 'user-dns' });
  assert.equal(verified.body.domain.status, 'active');
  const { id } = records.find(({ purpose }) => purpose === 'dkim') ?? assert.fail();
  const lost = `update dns_records set status = 'failed', misses = 3, last_check = 'missed', failing_since = 1,
    observed_value = 'v=DKIM1; p=wrong' where id = ?`;
  database.prepare(lost).run(id);
  // The check above is forgotten: the task asks for one within the 10 seconds that lie between two.
  database.prepare('update domains set verify_called_at = null where name = ?').run(domain);
  return { domain, right };
}

before(async () => {
  dns = await startDnsServer(zone);
  service = await startTestService('sqlite', {
    DNS_SERVERS: dns.address,
    OUTBOUND_ALLOW_CIDRS: '127.0.0.0/8',
    SMTP_TRUSTED_NETWORKS: 'none',
  });
  const database = new DatabaseSync(service.databaseLocation, { timeout: 10_000 });
  for (const way of ways) {
    const got = await service.makeAccount(`got-${way}`);
    const spammer = await service.makeAccount(`spammer-${way}`);
    const hook = await service.makeAccount(`hook-${way}`);
    const port = await freePort();
    await service.v2('PUT', `/v2/domains/${hook.domain}/route`, {
      user_id: hook.userId,
      forward_mode: 'webhook',
      webhook_url: `http://127.0.0.1:${port}/mail`,
    });
    const from = 'bob@elsewhere.test';
    for (let index = 0; index < WEBHOOKS; index++) {
      await service.send({ from, to: `any@${hook.domain}`, subject: 'Order' });
    }
    await service.send({ from, to: got.address, subject: 'Invoice' });
    fill(database, spammer);
    const broken = await breakDomain(database, `broken-${way}.test`);
    const oldKey = `billing-${way}`;
    await service.v2('POST', '/v2/operator/keys', { name: oldKey, scope: 'product' });
    cases.set(way, { got, spammer, port, broken, oldKey });
  }
  database.close();
  browser = await launchChromium();
  ({ signedIn } = lookAtConsole(browser, service.url));
});

/** Does steps, and counts them. */
class Hand {
  readonly page: Page;
  steps = 0;

  constructor(page: Page) {
    this.page = page;
  }

  async click(place: Locator): Promise<void> {
    this.steps++;
    await place.click();
  }

  async type(place: Locator, text: string): Promise<void> {
    this.steps++;
    await place.fill(text);
  }

  /** By keyboard: a text goes where the focus is. */
  async keys(...pressed: readonly string[]): Promise<void> {
    for (const key of pressed) {
      this.steps++;
      if (/^(?:Enter|Tab|Escape|Arrow\w+|Control\+k|\/|j)$/.test(key))
        await this.page.keyboard.press(key);
      else await this.page.keyboard.type(key);
    }
  }

  /** Says something to the palette, and takes what it finds first. */
  async say(text: string, first: string | RegExp): Promise<void> {
    await this.keys('Control+k', text);
    await this.page.getByRole('list', { name: 'Found' }).getByText(first).first().waitFor();
    await this.keys('Enter');
  }
}

interface Task {
  readonly name: string;
  /** How many steps it takes. */
  readonly steps: Readonly<Record<Way, number>>;
  readonly run: Readonly<Record<Way, (hand: Hand, about: Case) => Promise<void>>>;
}

const row = (page: Page, name: string) => page.getByRole('row').filter({ hasText: name });
const menu = (page: Page, name: string) =>
  page.getByRole('navigation').getByRole('link', { name: new RegExp(`^${name}`) });
const item = (page: Page, name: string) => page.getByRole('menuitem', { name, exact: true });
const dialog = (page: Page) => page.getByRole('dialog');

/** By keyboard: a question begins at Cancel, and what does it comes next. */
async function confirm(hand: Hand): Promise<void> {
  const cancel = dialog(hand.page).getByRole('button', { name: 'Cancel' });
  await cancel.and(hand.page.locator(':focus')).waitFor();
  await hand.keys('Tab', 'Enter');
}

/** Waits until a message says that it was done. */
const said = (page: Page, text: string | RegExp) =>
  page.locator('.message').getByText(text).first().waitFor();
const stored = (page: Page) =>
  dialog(page).locator('.time-line li').filter({ hasText: 'INBOX, UID' }).waitFor();

/** Starts the receiver, and sees that it gets all mail once `revive` was done. */
async function whileUp(port: number, revive: () => Promise<void>): Promise<void> {
  let got = 0;
  const server = createServer((request, response) => {
    got++;
    request.resume().once('end', () => response.end());
  }).listen(port, '127.0.0.1');
  await once(server, 'listening');
  try {
    await revive();
    const end = Date.now() + 30_000;
    while (got < WEBHOOKS && Date.now() < end) await setTimeout(50);
    assert.equal(got, WEBHOOKS);
  } finally {
    server.close();
    server.closeAllConnections();
  }
}

/** Until each was tried twice: the third attempt comes after minutes, so that none is under way. */
async function allWait(port: number): Promise<void> {
  const path = `/v2/operator/queue/deliveries?destination=${encodeURIComponent(`http://127.0.0.1:${port}`)}`;
  for (let tries = 0; tries < 300; tries++) {
    const { items } = (await service.v2('GET', path)).body;
    const soon = Date.now() + 60_000;
    const waits = items.filter(({ due_at: due }: { due_at: string }) => Date.parse(due) > soon);
    if (waits.length === WEBHOOKS) return;
    await setTimeout(200);
  }
  assert.fail('the deliveries were not tried twice within a minute');
}

const tasks: readonly Task[] = [
  {
    name: 'where one mail went',
    steps: { mouse: 3, keyboard: 8 },
    run: {
      mouse: async (hand, { got }) => {
        const { page } = hand;
        await hand.click(menu(page, 'Messages'));
        await hand.type(page.getByLabel('Search messages'), got.address);
        await row(page, 'any@').first().waitFor({ state: 'detached' });
        await hand.click(page.getByRole('link', { name: got.address }));
        await stored(page);
      },
      keyboard: async (hand, { got }) => {
        const { page } = hand;
        await hand.say('messages', 'Messages');
        await page.locator('h1:focus', { hasText: 'Messages' }).waitFor();
        await hand.keys('/');
        await page.getByLabel('Search messages').and(page.locator(':focus')).waitFor();
        await hand.keys(got.address, 'Escape');
        // Before the first answer there is no row at all, and keys for rows do nothing.
        await row(page, got.address).first().waitFor();
        await row(page, 'any@').first().waitFor({ state: 'detached' });
        await row(page, got.address).first().waitFor();
        await hand.keys('j', 'Enter');
        await stored(page);
      },
    },
  },
  {
    name: 'a spammer is stopped, and its waiting mail dropped',
    steps: { mouse: 5, keyboard: 5 },
    run: {
      mouse: async (hand, { spammer }) => {
        const { page } = hand;
        await hand.click(menu(page, 'Accounts'));
        await hand.click(page.getByRole('link', { name: spammer.address }));
        await hand.click(page.getByRole('button', { name: 'Suspend', exact: true }));
        await hand.click(dialog(page).getByLabel(/^Drop/));
        await hand.click(dialog(page).getByRole('button', { name: 'Suspend and drop' }));
        await page.getByText(`${SPAM} of ${SPAM} are dropped.`).waitFor();
      },
      keyboard: async (hand, { spammer }) => {
        const { page } = hand;
        await hand.say(`suspend account ${spammer.address}`, `Suspend ${spammer.address}`);
        await dialog(page).getByLabel(/^Keep/).and(page.locator(':focus')).waitFor();
        await hand.keys('ArrowDown', 'Enter');
        await page.getByText(`${SPAM} of ${SPAM} are dropped.`).waitFor();
      },
    },
  },
  {
    name: 'a quota is raised',
    steps: { mouse: 5, keyboard: 5 },
    run: {
      mouse: async (hand, { got }) => {
        const { page } = hand;
        await hand.click(menu(page, 'Accounts'));
        await hand.click(page.getByRole('button', { name: `Actions of ${got.address}` }));
        await hand.click(item(page, 'Quota'));
        await dialog(page).getByText('It has no limit now.').waitFor();
        await hand.type(dialog(page).getByLabel('Megabytes'), '5000');
        await hand.click(dialog(page).getByRole('button', { name: 'Set' }));
        await row(page, got.address).getByText('of 5.0 GB').waitFor();
      },
      keyboard: async (hand, { got }) => {
        const { page } = hand;
        await hand.say(`quota ${got.address}`, `Set the quota of ${got.address}`);
        await dialog(page).getByLabel('Megabytes').and(page.locator(':focus')).waitFor();
        await hand.keys('5000', 'Enter');
        await said(page, `The quota of ${got.address} is set.`);
        const path = `/v2/operator/accounts/${got.id}`;
        assert.equal((await service.v2('GET', path)).body.quota_bytes, 5e9);
      },
    },
  },
  {
    name: 'broken DNS is seen, and checked once it is repaired',
    steps: { mouse: 3, keyboard: 6 },
    run: {
      mouse: async (hand, { broken }) => {
        const { page } = hand;
        await hand.click(menu(page, 'Domains'));
        const first = page.locator('.data tbody tr').first();
        await first.getByText('DKIM wrong').waitFor();
        await hand.click(page.getByRole('link', { name: broken.domain }));
        await page.getByText('v=DKIM1; p=wrong').waitFor();
        dns.publish([...zone, ...broken.right]);
        await hand.click(page.getByRole('button', { name: 'Check DNS now' }));
        await said(page, `${broken.domain} is active: 4 of 4 records verified.`);
        await page.getByText('v=DKIM1; p=wrong').waitFor({ state: 'detached' });
      },
      keyboard: async (hand, { broken }) => {
        const { page } = hand;
        await hand.say(broken.domain, broken.domain);
        await page.getByText('v=DKIM1; p=wrong').waitFor();
        dns.publish([...zone, ...broken.right]);
        await hand.say(`verify ${broken.domain}`, `Check DNS of ${broken.domain}`);
        await said(page, `${broken.domain} is active: 4 of 4 records verified.`);
        await page.getByText('v=DKIM1; p=wrong').waitFor({ state: 'detached' });
      },
    },
  },
  {
    name: 'an API key and a DKIM key are replaced',
    steps: { mouse: 11, keyboard: 15 },
    run: {
      mouse: async (hand, { oldKey, broken: { domain } }) => {
        const { page } = hand;
        await hand.click(menu(page, 'Keys'));
        await hand.type(page.getByLabel('Name', { exact: true }), `${oldKey}-2`);
        await hand.click(page.getByRole('button', { name: 'Make key' }));
        await page.getByText(`The key ${oldKey}-2 is shown only now`).waitFor();
        await hand.click(page.getByRole('button', { name: new RegExp(`^Actions of ${oldKey}, `) }));
        await hand.click(item(page, 'Revoke'));
        await hand.click(dialog(page).getByRole('button', { name: 'Revoke' }));
        await said(page, /is revoked/);
        await hand.click(menu(page, 'Domains'));
        await hand.click(page.getByRole('link', { name: domain }));
        await hand.click(page.getByRole('button', { name: `Actions of ${domain}` }));
        await hand.click(item(page, 'Change DKIM key'));
        await hand.click(dialog(page).getByRole('button', { name: 'Make a new key' }));
        await said(page, `${domain} has a new DKIM key`);
      },
      keyboard: async (hand, { oldKey, broken: { domain } }) => {
        const { page } = hand;
        await hand.say('new api', 'New API key');
        await page.getByLabel('Name', { exact: true }).and(page.locator(':focus')).waitFor();
        await hand.keys(`${oldKey}-2`, 'Enter');
        await page.getByText(`The key ${oldKey}-2 is shown only now`).waitFor();
        await hand.say(`revoke ${oldKey}`, new RegExp(`^Revoke ${oldKey} `));
        await confirm(hand);
        await said(page, `${oldKey} (key`);
        // Keys do nothing before the question is gone.
        await dialog(page).waitFor({ state: 'detached' });
        await hand.say(`dkim ${domain}`, `Change the DKIM key of ${domain}`);
        await confirm(hand);
        await said(page, `${domain} has a new DKIM key`);
      },
    },
  },
  {
    name: 'a dead receiver is revived',
    steps: { mouse: 4, keyboard: 5 },
    run: {
      mouse: async (hand, { port }) => {
        const { page } = hand;
        const name = `http://127.0.0.1:${port}`;
        await allWait(port);
        await whileUp(port, async () => {
          await hand.click(menu(page, 'Queue'));
          await hand.click(page.getByRole('button', { name: `Actions of ${name}` }));
          await hand.click(item(page, 'Retry'));
          await hand.click(dialog(page).getByRole('button', { name: 'Retry' }));
          await page.getByText(`${WEBHOOKS} of ${WEBHOOKS} are tried again.`).waitFor();
        });
      },
      keyboard: async (hand, { port }) => {
        const { page } = hand;
        await allWait(port);
        await whileUp(port, async () => {
          await hand.say(
            `retry receiver 127.0.0.1:${port}`,
            `Retry all to http://127.0.0.1:${port}`,
          );
          await confirm(hand);
          await page.getByText(`${WEBHOOKS} of ${WEBHOOKS} are tried again.`).waitFor();
        });
      },
    },
  },
];

for (const way of ways) {
  test(`the tasks of operators, by ${way}`, async (t: TestContext) => {
    const about = cases.get(way) ?? assert.fail();
    await signedIn('', async (page) => {
      for (const { name, steps, run } of tasks) {
        await page.goto(`${service.url}/console/`);
        await page.getByRole('heading', { level: 1, name: 'Overview' }).waitFor();
        const hand = new Hand(page);
        const start = performance.now();
        await run[way](hand, about);
        t.diagnostic(`${name}: ${hand.steps} steps, ${Math.round(performance.now() - start)} ms`);
        assert.equal(hand.steps, steps[way], name);
      }
    });
  });
}
