/** The operator's console as an operator uses it, on a service with real traffic. */
import assert from 'node:assert/strict';
import { DatabaseSync } from 'node:sqlite';
import { before, test } from 'node:test';
import { setTimeout } from 'node:timers/promises';
import type { Browser, Locator, Page } from 'playwright-core';
import { freePort } from '../../support/free-port.ts';
import {
  API_KEY,
  startTestService,
  type TestAccount,
  type TestService,
} from '../../support/service.ts';
import { findViolations } from './accessibility.ts';
import { DESK, type Look, lookAtConsole, PHONE, signIn } from './console-page.ts';
import { launchChromium } from './watched-page.ts';

let service: TestService;
let browser: Browser;
let visit: Look;
let signedIn: Look;
let ann: TestAccount;
/** Origin of a webhook that never answers. */
let receiver: string;

before(async () => {
  service = await startTestService('sqlite', {
    OUTBOUND_ALLOW_CIDRS: '127.0.0.0/8',
    // Relays of the operator's own are never blocked.
    SMTP_TRUSTED_NETWORKS: 'none',
  });
  ann = await service.makeAccount('ann');
  // Nothing listens there.
  receiver = `http://127.0.0.1:${await freePort()}`;
  const { domain, userId } = await service.makeAccount('hook');
  await service.v2('PUT', `/v2/domains/${domain}/route`, {
    user_id: userId,
    forward_mode: 'webhook',
    webhook_url: `${receiver}/mail`,
  });
  for (const subject of ['One', 'Two', 'Three']) {
    await service.send({ from: 'bob@elsewhere.test', to: `any@${domain}`, subject });
  }
  await service.v2('POST', '/v2/domain', { user_id: 'user-9', domain: 'waiting.test' });
  await service.send({
    from: 'bob@elsewhere.test',
    to: ann.address,
    subject: 'Invoice',
    messageId: '<invoice@elsewhere.test>',
  });
  browser = await launchChromium();
  ({ visit, signedIn } = lookAtConsole(browser, service.url));
});

/** Waits for a message that says that something was done. */
async function said(page: Page, text: string): Promise<void> {
  await page.locator('.message').getByText(text, { exact: true }).first().waitFor();
}

/** Loads a screen again until it has what the service writes a little later. */
async function reloadUntil(page: Page, wanted: Locator): Promise<void> {
  const end = Date.now() + 30_000;
  for (;;) {
    await page.locator('[aria-busy="false"]').waitFor();
    if ((await wanted.count()) > 0 || Date.now() > end) break;
    await page.reload();
  }
  await wanted.waitFor();
}

test('a wrong key is refused in the words of the API, and the right one is not stored', async () => {
  await visit('/audit', async (page, { context }) => {
    await signIn(page, 'not the key');
    await page.getByRole('alert').filter({ hasText: 'the API key is not valid' }).waitFor();
    assert.deepEqual(await findViolations(page), []);
    await signIn(page);
    await page.getByRole('heading', { level: 1, name: 'Audit' }).waitFor();
    const stored = await page.evaluate<string>(
      'JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie])',
    );
    assert.equal(stored, '[{},{},""]');
    const [cookie] = await context.cookies();
    assert.equal(cookie?.httpOnly, true);
    assert.equal(cookie?.sameSite, 'Strict');
    assert.ok(!cookie?.value.includes(API_KEY));
    // A page that is loaded anew is signed in still.
    await page.reload();
    await page.getByRole('heading', { level: 1, name: 'Audit' }).waitFor();
  });
});

test('a session that ends leads to the sign-in, and from there to the same screen', async () => {
  await signedIn('/audit', async (page, { context }) => {
    await page.getByRole('heading', { level: 1, name: 'Audit' }).waitFor();
    await context.clearCookies();
    await page.getByRole('navigation').getByRole('link', { name: 'Domains' }).click();
    await page.getByText('Sign in to return to your screen').waitFor();
    await signIn(page);
    await page.getByRole('heading', { level: 1, name: 'Domains' }).waitFor();
    assert.equal(new URL(page.url()).pathname, '/console/domains');
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByLabel('API key').waitFor();
    assert.deepEqual(await context.cookies(), []);
  });
});

for (const [device, options, colorScheme, look] of [
  ['a phone', PHONE, 'light', 'all'],
  ['a phone', PHONE, 'dark', 'contrast'],
  ['a desk', DESK, 'light', 'contrast'],
  ['a desk', DESK, 'dark', 'all'],
] as const) {
  test(`every screen is complete and accessible on ${device}, ${colorScheme}`, async () => {
    const check = async (page: Page) => {
      const paths = await page.evaluate<string[]>(
        `[...document.querySelectorAll('#menu a[href^="/console"]')].map((link) => link.getAttribute('href'))`,
      );
      assert.ok(paths.length > 3);
      for (const path of paths) {
        await page.goto(service.url + path);
        await page.getByRole('heading', { level: 1 }).waitFor();
        await page.locator('[aria-busy="true"], .loading').first().waitFor({ state: 'detached' });
        assert.equal(await page.getByRole('alert').count(), 0, path);
        assert.deepEqual(await findViolations(page, look), [], path);
        const [width, seen] = await page.evaluate<[number, number]>(
          '[document.documentElement.scrollWidth, document.documentElement.clientWidth]',
        );
        assert.ok(width <= seen, `${path} is ${width} wide on a screen of ${seen}`);
        const names = await page
          .locator('td.wide')
          .evaluateAll((all) => all.map((one) => one.clientWidth));
        assert.ok(
          names.every((name) => name >= 200),
          `${path} shows names in ${names} px`,
        );
      }
    };
    await signedIn('', check, { ...options, colorScheme });
  });
}

test('the menu works by keyboard, and opens and closes on a phone', async () => {
  await signedIn('', async (page) => {
    await page.reload();
    await page.getByRole('heading', { level: 1 }).waitFor();
    await page.keyboard.press('Tab');
    await page.keyboard.press('Enter');
    await page.locator('main:focus').waitFor();
    await page.getByRole('navigation').getByRole('link', { name: 'Audit' }).focus();
    await page.keyboard.press('Enter');
    await page.locator('h1:focus', { hasText: 'Audit' }).waitFor();
  });
  await signedIn(
    '',
    async (page) => {
      const menu = page.getByRole('button', { name: 'Menu' });
      await menu.click();
      await page.getByRole('link', { name: 'Audit' }).waitFor();
      assert.deepEqual(await findViolations(page), []);
      await page.keyboard.press('Escape');
      await page.getByRole('link', { name: 'Audit' }).waitFor({ state: 'hidden' });
      await menu.click();
      await page.getByRole('link', { name: 'Audit' }).click();
      await page.getByRole('heading', { level: 1, name: 'Audit' }).waitFor();
      await page.getByRole('link', { name: 'Settings' }).waitFor({ state: 'hidden' });
    },
    PHONE,
  );
});

test('a domain is found, opened and checked', async () => {
  await signedIn('/domains', async (page) => {
    await page.getByRole('link', { name: 'waiting.test' }).waitFor();
    await page.getByLabel('Search domains').fill(ann.domain);
    await page.getByRole('link', { name: 'waiting.test' }).waitFor({ state: 'detached' });
    assert.match(page.url(), /\?q=d1\.test$/);
    await page.getByRole('link', { name: ann.domain }).click();
    await page.getByRole('heading', { level: 1, name: ann.domain }).waitFor();
    await page.getByRole('button', { name: /^Copy the MX record/ }).waitFor();
    assert.deepEqual(await findViolations(page), []);
    await page.getByRole('tab', { name: 'Route' }).click();
    await page.getByText('Store', { exact: true }).waitFor();
    for (let tab = 0; tab < 3; tab++) await page.keyboard.press('ArrowLeft');
    await page.getByRole('link', { name: ann.address }).waitFor();
    await page.getByRole('tab', { name: 'Suppressions' }).click();
    await page.getByText('No address is suppressed').waitFor();
    await page.getByRole('tab', { name: 'Messages' }).click();
    await page.getByRole('row').filter({ hasText: ann.address }).first().waitFor();
    await page.getByRole('tab', { name: 'Changes' }).click();
    await page.getByRole('row').filter({ hasText: 'domain.create' }).waitFor();
    await page.getByRole('button', { name: 'Check DNS now' }).click();
    await said(page, `${ann.domain} is active: 4 of 4 records verified.`);
    await page.getByRole('button', { name: `Actions of ${ann.domain}` }).click();
    await page.getByRole('menuitem', { name: 'Change DKIM key' }).click();
    await page.getByRole('button', { name: 'Make a new key' }).click();
    await said(page, `${ann.domain} has a new DKIM key: add its record in DNS.`);
    await page.getByRole('tab', { name: 'Health' }).click();
    await page.getByText('The next DKIM key').waitFor();
    await page.goto(`${service.url}/console/domains/nobody.test`);
    await page.getByRole('alert').filter({ hasText: 'nobody has such a domain' }).waitFor();
  });
});

test('a record that is gone is missing now, and a domain that cannot send says so', async () => {
  const { domain, userId } = await service.makeAccount('eve');
  const { body } = await service.v2('GET', `/v2/domains/${domain}/info?user_id=${userId}`);
  const dkim = body.dns.find(({ purpose }: { purpose: string }) => purpose === 'dkim');
  // As the look for the record leaves it.
  const database = new DatabaseSync(service.databaseLocation, { timeout: 10_000 });
  const missed = `update dns_records set misses = 1, last_check = 'missed', failing_since = 1,
    observed_value = 'no record', detail = 'There is no such record.' where id = ?`;
  database.prepare(missed).run(dkim.id);
  database.close();
  await signedIn(`/domains/${domain}`, async (page) => {
    const row = page.getByRole('region', { name: `DKIM: ${dkim.host}.${domain}` });
    await row.getByText('Missing now', { exact: true }).waitFor();
    assert.equal(await row.getByText('Verified', { exact: true }).count(), 0);
    await row.getByText('no record', { exact: true }).waitFor();
    await row.getByText(dkim.expected_value).waitFor();
    assert.equal(await page.getByText('Yes', { exact: true }).count(), 2);
    assert.deepEqual(await findViolations(page), []);
    await page.goto(`${service.url}/console/domains`);
    const listed = page.getByRole('row').filter({ hasText: domain });
    await listed.getByTitle('DKIM missing now').waitFor();

    const mark = { user_id: userId, id: dkim.id, status: 'failed' };
    await service.v2('POST', `/v2/domains/${domain}/dns/mark`, mark);
    await page.getByLabel('Search domains').fill('-can:send dns:dkim');
    await listed.getByText('DKIM wrong since').waitFor();

    await listed.getByTitle(/^DKIM failed/).waitFor();
    await page.getByRole('link', { name: 'waiting.test' }).waitFor({ state: 'detached' });
    assert.deepEqual(await findViolations(page), []);
  });
});

test('a message is one row, found by its recipient, and shows what happened to it', async () => {
  await signedIn('/mail', async (page) => {
    await page.getByRole('heading', { level: 1, name: 'Messages' }).waitFor();
    const box = page.getByLabel('Search messages');
    await box.fill(`to:${ann.address} -from:nobody@elsewhere.test`);
    await box.press('Enter');
    assert.deepEqual(await findViolations(page), []);
    const link = page.getByRole('link', { name: ann.address }).first();
    await link.click();
    const drawer = page.getByRole('dialog', { name: `To ${ann.address}` });
    await drawer
      .locator('.facts')
      .getByText(/^[45]\d\d B$/)
      .waitFor();
    await drawer.locator('.recipients').getByText('Delivered').waitFor();
    const steps = drawer.locator('.time-line li');
    await steps.filter({ hasText: 'Received' }).waitFor();
    await steps.filter({ hasText: 'Stored' }).filter({ hasText: ann.address }).waitFor();
    await drawer.getByText('Ids and where it came from').click();
    await drawer.getByText('<invoice@elsewhere.test>').waitFor();
    assert.deepEqual(await findViolations(page), []);
    // It has an address of its own, with that of the list beside it.
    const open = new URL(page.url());
    assert.match(open.pathname, /^\/console\/messages\/[\da-f-]{36}$/);
    await page.keyboard.press('Escape');
    await drawer.waitFor({ state: 'detached' });
    assert.deepEqual(new URL(page.url()).search, open.search);
    await link.and(page.locator(':focus')).waitFor();
    await page.keyboard.press('Enter');
    await drawer.getByRole('button', { name: 'Block sender' }).click();
    const question = page.getByRole('dialog', { name: 'Block bob@elsewhere.test?' });
    await question.getByLabel(/^elsewhere\.test/).check();
    await question.getByRole('button', { name: 'Block elsewhere.test' }).waitFor();
    await page.keyboard.press('Escape');
    await question.waitFor({ state: 'detached' });
    await drawer.getByRole('button', { name: 'Close' }).click();
    // What was refused is found as well, with the reason.
    const refused = service.send({ from: 'bob@elsewhere.test', to: `nobody@${ann.domain}` });
    await assert.rejects(refused, /5\.1\.1/);
    await page.goto(`${service.url}/console/messages?q=to:nobody@${ann.domain}`);
    const row = page.getByRole('row').filter({ hasText: 'Refused' });
    await reloadUntil(page, row.first());
    await page.getByRole('button', { name: 'Bounced' }).click();
    await page.getByText('No message matches').waitFor();
  });
});

/** Waits until each delivery was tried twice: the third attempt comes after minutes, so that none is under way. */
async function allWait(): Promise<void> {
  const path = `/v2/operator/queue/deliveries?destination=${encodeURIComponent(receiver)}`;
  for (let tries = 0; tries < 300; tries++) {
    const { items } = (await service.v2('GET', path)).body;
    const soon = Date.now() + 60_000;
    const waits = items.filter(({ due_at: due }: { due_at: string }) => Date.parse(due) > soon);
    if (waits.length === 3) return;
    await setTimeout(200);
  }
  assert.fail('the deliveries were not tried twice within a minute');
}

test('the deliveries of a dead receiver are counted before they are retried, held, released and dropped', async () => {
  await allWait();
  await signedIn(`/queue?q=to:"${receiver}"`, async (page) => {
    const row = page.getByRole('row').filter({ hasText: receiver });
    const act = async (verb: string, title: string, done: string) => {
      await row.getByRole('button', { name: `Actions of ${receiver}` }).click();
      await page.getByRole('menuitem', { name: verb, exact: true }).click();
      const dialog = page.getByRole('dialog', { name: title });
      await dialog.waitFor();
      if (verb === 'Drop') {
        assert.equal(await dialog.getByRole('button', { name: verb }).isDisabled(), true);
        await dialog.getByLabel('Type drop to confirm').fill('drop');
      }
      if (verb === 'Hold') assert.deepEqual(await findViolations(page), []);
      await dialog.getByRole('button', { name: verb }).click();
      const strip = page.getByRole('region', { name: new RegExp(`^${verb} 3 deliveries`) });
      await strip.getByText(done).waitFor();
      await strip.getByRole('button', { name: 'Close' }).click();
    };
    /** What the row has below the heads "Waiting" and "Held". */
    const shows = async (waiting: string, held: string) => {
      await row.getByRole('cell').nth(2).getByText(waiting, { exact: true }).waitFor();
      await row.getByRole('cell').nth(6).getByText(held, { exact: true }).waitFor();
    };
    await shows('3', '–');
    await act('Hold', 'Hold 3 deliveries?', '3 of 3 are held.');
    await shows('3', '3');
    await act('Release', 'Release 3 deliveries?', '3 of 3 are released.');
    await shows('3', '–');
    await act('Drop', 'Drop 3 deliveries?', '3 of 3 are dropped.');
    await page.getByText('Nothing waits').waitFor();
    await page.goto(`${service.url}/console/queue?q=is:failed`);
    await row.getByRole('link', { name: receiver }).click();
    await page.getByRole('link', { name: 'Three' }).click();
    await page.locator('.time-line li').filter({ hasText: 'Dropped' }).waitFor();
  });
});

test('a domain is suspended, resumed, and deleted once its name is typed', async () => {
  await signedIn('/domains?q=status:pending', async (page) => {
    const menu = async (item: string) => {
      await page.getByRole('button', { name: 'Actions of waiting.test' }).click();
      await page.getByRole('menuitem', { name: item }).click();
    };
    await page.getByLabel('Choose waiting.test').check();
    const chosen = page.getByRole('region', { name: 'Chosen rows' });
    await chosen.getByRole('button', { name: 'Suspend' }).click();
    const dialog = page.getByRole('dialog');
    await dialog.getByText('waiting.test').waitFor();
    await dialog.getByLabel('Reason').fill('unpaid');
    await dialog.getByRole('button', { name: 'Suspend' }).click();
    const strip = page.getByRole('region', { name: 'Suspend 1 domain' });
    await strip.getByText('1 of 1 are suspended.').waitFor();
    await page.getByLabel('Search domains').fill('-can:receive route:store status:suspended');
    await page.getByRole('link', { name: 'waiting.test' }).click();
    await page
      .locator('.facts')
      .filter({ hasText: 'unpaid' })
      .getByText('Suspended', { exact: true })
      .waitFor();
    await menu('Resume');
    await dialog.getByRole('button', { name: 'Resume' }).click();
    await page.locator('.facts').getByText('Pending').waitFor();
    await menu('Delete');
    const button = dialog.getByRole('button', { name: 'Delete for good' });
    await dialog.getByLabel('Type waiting.test to confirm').fill('d1.test');
    assert.equal(await button.isDisabled(), true);
    await page.keyboard.press('Escape');
    await dialog.waitFor({ state: 'detached' });
    await menu('Delete');
    await dialog.getByLabel('Type waiting.test to confirm').fill('waiting.test');
    await button.click();
    await page.getByRole('heading', { level: 1, name: 'Domains' }).waitFor();
    await page.getByRole('link', { name: ann.domain }).waitFor();
    assert.equal(await page.getByRole('link', { name: 'waiting.test' }).count(), 0);
    await page.getByRole('link', { name: 'Audit' }).click();
    await page.getByRole('row').filter({ hasText: 'domain.delete' }).waitFor();
  });
});

test('a sender is blocked, refused, and accepted again', async () => {
  const mail = { from: 'spam@bad.test', to: ann.address, subject: 'Buy' };
  await signedIn('/blocks', async (page) => {
    await page.getByText('Nobody is blocked').waitFor();
    const sender = page.getByLabel('Sender', { exact: true });
    const block = page.getByRole('button', { name: 'Block', exact: true });
    await page.getByLabel('Kind', { exact: true }).selectOption('network');
    await sender.fill('no network');
    await block.click();
    await page.getByRole('alert').waitFor();
    await page.getByLabel('Kind', { exact: true }).selectOption('address');
    await sender.fill('spam@bad.test');
    await page.getByLabel('Note', { exact: true }).fill('Monday');
    await block.click();
    await page.getByRole('row').filter({ hasText: 'Monday' }).waitFor();
    await assert.rejects(service.send(mail), /5\.7\.1/);
    await page.getByRole('button', { name: 'Actions of spam@bad.test' }).click();
    await page.getByRole('menuitem', { name: 'Unblock' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Unblock' }).click();
    await page.getByText('Nobody is blocked').waitFor();
    await service.send(mail);
  });
});
