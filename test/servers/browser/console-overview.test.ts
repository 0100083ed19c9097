/** What an operator sees first: what needs somebody, five numbers and four charts; and the ways from there. */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import type { Browser } from 'playwright-core';
import { freePort } from '../../support/free-port.ts';
import { startTestService, type TestAccount, type TestService } from '../../support/service.ts';
import { findViolations } from './accessibility.ts';
import { type Look, lookAtConsole } from './console-page.ts';
import { launchChromium } from './watched-page.ts';

let service: TestService;
let browser: Browser;
let signedIn: Look;
let ann: TestAccount;

before(async () => {
  service = await startTestService('sqlite', { OUTBOUND_ALLOW_CIDRS: '127.0.0.0/8' });
  ann = await service.makeAccount('ann');
  const { domain, userId } = await service.makeAccount('hook');
  await service.v2('PUT', `/v2/domains/${domain}/route`, {
    user_id: userId,
    forward_mode: 'webhook',
    webhook_url: `http://127.0.0.1:${await freePort()}/mail`,
  });
  const from = 'bob@elsewhere.test';
  for (let index = 0; index < 12; index++) await service.send({ from, to: `any@${domain}` });
  for (const name of ['nobody', 'no-one']) {
    await assert.rejects(service.send({ from, to: `${name}@${ann.domain}` }), /5\.1\.1/);
  }
  browser = await launchChromium();
  ({ signedIn } = lookAtConsole(browser, service.url));
});

test('what is wrong and what waits is said first, with the way to it', async () => {
  await signedIn('', async (page) => {
    const tile = (name: string) => page.locator('.tiles li').filter({ hasText: name });
    await tile('Refused').getByText('2', { exact: true }).waitFor();
    await tile('Refused').getByText('0 in the 24 h before').waitFor();
    const delivered = await tile('Delivered').getByRole('link').getAttribute('href');
    assert.match(decodeURIComponent(delivered ?? ''), /dir:out[+ ]is:delivered/);
    await tile('Waiting')
      .getByText(/^12oldest/)
      .waitFor();
    await page.getByRole('listitem').filter({ hasText: 'Account not found' }).waitFor();
    await page.getByRole('link', { name: /Queue 12/ }).waitFor();
    await page.getByText(/checks, the last at \d\d:\d\d/).click();
    await page.getByText('Certificate ends').waitFor();
    assert.deepEqual(await findViolations(page), []);
    await page.getByRole('link', { name: /^12 deliveries wait for/ }).click();
    await page.getByRole('heading', { level: 1, name: 'Queue' }).waitFor();
  });
});

test('a single sample is seen, and a span that is dragged over a chart opens its mail', async () => {
  await signedIn('/?hours=1', async (page) => {
    await page
      .getByText(/measured since \d\d:\d\d/)
      .first()
      .waitFor();
    const held = page.getByRole('link', { name: 'Held', exact: true });
    assert.equal(await held.getAttribute('href'), '/console/queue?q=is:held');
    const plot = page.locator('.chart', { hasText: 'Mail in' }).locator('.u-over');
    const { x = 0, y = 0, width = 0 } = (await plot.boundingBox()) ?? {};
    await page.mouse.move(x + width / 2, y + 40);
    // All charts have the cursor.
    assert.equal(await page.locator('.u-cursor-x:not(.u-off)').count(), 4);
    await page.mouse.down();
    await page.mouse.move(x + width - 2, y + 40, { steps: 5 });
    await page.mouse.up();
    await page.getByRole('heading', { level: 1, name: 'Messages' }).waitFor();
    const q = new URL(page.url()).searchParams.get('q') ?? '';
    const [, after = '', before = ''] = /^after:(\S+) before:(\S+)$/.exec(q) ?? [];
    const span = Date.parse(before) - Date.parse(after);
    assert.ok(Math.abs(span - 30 * 60_000) <= 2 * 60_000, `${span} ms`);
  });
});

test('charts are drawn where the browser names a language that there is not', async () => {
  await signedIn('', async (page) => {
    // As WebKitGTK does with LANG=C.
    await page.addInitScript(
      `Object.defineProperty(Navigator.prototype, 'language', { get: () => 'C' })`,
    );
    await page.reload();
    await page.locator('.chart .u-over').first().waitFor();
    assert.equal(await page.locator('.chart .u-over').count(), 4);
  });
});

test('the palette leads to pages, domains and accounts by keyboard alone', async () => {
  await signedIn('', async (page) => {
    const press = (key: string) => page.keyboard.press(key);
    await press('Control+k');
    const palette = page.getByRole('dialog', { name: 'Go to, or do' });
    await palette.waitFor();
    await page.keyboard.type('aud');
    await palette.getByText('Nothing begins').waitFor({ state: 'detached' });
    await press('Enter');
    await page.getByRole('heading', { level: 1, name: 'Audit' }).waitFor();
    await press('Control+k');
    await page.keyboard.type(ann.domain);
    await palette.getByRole('link', { name: `${ann.domain} Domain` }).waitFor();
    assert.deepEqual(await findViolations(page), []);
    await press('ArrowDown');
    await press('Enter');
    await page.getByRole('heading', { level: 1, name: ann.domain }).waitFor();
    await press('Control+k');
    await press('Escape');
    await palette.waitFor({ state: 'detached' });
  });
});
