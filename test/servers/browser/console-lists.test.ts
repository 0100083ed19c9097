/** The lists of the console: their keys, rows on a phone, and what happens to them while they are looked at. */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import type { Browser, Page } from 'playwright-core';
import { startTestService, type TestService } from '../../support/service.ts';
import { findViolations } from './accessibility.ts';
import { type Look, lookAtConsole, PHONE, rowsInSight } from './console-page.ts';
import { launchChromium } from './watched-page.ts';

let service: TestService;
let browser: Browser;
let signedIn: Look;

const block = (value: string) =>
  service.v2('POST', '/v2/operator/blocks', { kind: 'domain', value });

before(async () => {
  service = await startTestService('sqlite');
  for (let index = 10; index < 30; index++) await block(`spam-${index}.test`);
  browser = await launchChromium();
  ({ signedIn } = lookAtConsole(browser, service.url));
});

/** What a screen reader names that has the focus. */
const focused = (page: Page) =>
  page.evaluate<string | undefined>('document.activeElement?.getAttribute("aria-label")');

test('keys lead through the rows, choose them, and can be switched off', async () => {
  await signedIn('/blocks', async (page) => {
    const press = (key: string) => page.keyboard.press(key);
    await page.getByText('spam-29.test').waitFor();
    await page.getByRole('heading', { level: 1 }).focus();
    await press('j');
    assert.equal(await focused(page), 'Choose spam-29.test');
    await press('j');
    await press('j');
    await press('k');
    assert.equal(await focused(page), 'Choose spam-28.test');
    await press('x');
    for (const key of ['j', 'j', 'X']) await press(key);
    await page.getByRole('region', { name: 'Chosen rows' }).getByText('3 rows').waitFor();
    assert.deepEqual(await findViolations(page), []);
    await press('Escape');
    await page.getByRole('region', { name: 'Chosen rows' }).waitFor({ state: 'detached' });
    // What is typed is text.
    await page.getByLabel('Note').fill('');
    await page.getByLabel('Note').pressSequentially('jx?');
    assert.equal(await page.getByLabel('Note').inputValue(), 'jx?');
    await page.getByLabel('Choose spam-20.test').focus();
    await press('?');
    const help = page.getByRole('dialog', { name: 'Keys' });
    await help.getByText('Next row, row before').waitFor();
    assert.deepEqual(await findViolations(page), []);
    await help.getByLabel('Single keys do this').uncheck();
    await press('Escape');
    await help.waitFor({ state: 'detached' });
    // It gives the focus back a moment after it has gone.
    await page.getByLabel('Choose spam-20.test').and(page.locator(':focus')).waitFor();
    await press('j');
    assert.equal(await focused(page), 'Choose spam-20.test');
    await page.getByRole('button', { name: 'Keyboard' }).click();
    await help.getByLabel('Single keys do this').check();
  });
});

test('rows come by themselves, but not while somebody works in the list', async () => {
  await signedIn('/blocks', async (page) => {
    const last = page.getByRole('row').filter({ hasText: 'spam-29.test' });
    const rows = page.locator('.data tbody tr');
    await page.clock.install();
    await page.reload();
    await last.waitFor();
    await page.getByRole('heading', { level: 1 }).hover();
    await block('comes-alone.test');
    await page.clock.fastForward('01:05');
    await page.getByText('comes-alone.test').waitFor();

    await last.hover();
    await page.getByLabel('Choose spam-29.test').focus();
    const place = await last.boundingBox();
    await block('waits.test');
    await page.clock.fastForward('01:05');
    await page.getByRole('button', { name: '1 new' }).waitFor();
    assert.equal(await page.getByText('waits.test').count(), 0);
    assert.deepEqual(await last.boundingBox(), place);
    assert.equal(await focused(page), 'Choose spam-29.test');
    assert.deepEqual(await findViolations(page), []);
    await page.getByRole('button', { name: '1 new' }).click();
    assert.match(await rows.first().innerText(), /waits\.test/);

    // Without Live they always wait.
    await page.getByRole('switch', { name: 'Live' }).click();
    await block('waits-too.test');
    await page.clock.fastForward('01:05');
    await page.getByRole('button', { name: '1 new' }).waitFor();
    assert.equal(await page.getByText('waits-too.test').count(), 0);
  });
});

test('a page that nobody sees asks for nothing', async () => {
  await signedIn('/blocks', async (page, { requests }) => {
    await page.clock.install();
    await page.reload();
    await page.getByText('spam-29.test').waitFor();
    const show = (isHidden: boolean) =>
      page.evaluate(`Object.defineProperty(document, 'hidden', { value: ${isHidden}, configurable: true });
        document.dispatchEvent(new Event('visibilitychange'));`);
    await show(true);
    const asked = requests.length;
    await page.clock.fastForward('10:00');
    await block('comes-meanwhile.test');
    assert.deepEqual(requests.slice(asked), []);
    await page.getByRole('heading', { level: 1 }).hover();
    await show(false);
    await page.getByText('comes-meanwhile.test').waitFor();
  });
});

test('a look that fails keeps the rows, and says from when they are', async () => {
  await signedIn('/blocks', async (page) => {
    let isGone = false;
    // Before the page is loaded again: Chromium lets requests pass a route that is added later.
    await page.route('**/v2/operator/blocks*', (route) =>
      isGone
        ? route.fulfill({ status: 404, json: { title: 'Gone for a while' } })
        : route.continue(),
    );
    await page.clock.install();
    await page.reload();
    await page.getByText('spam-29.test').waitFor();
    isGone = true;
    await page.clock.fastForward('01:05');
    await page
      .getByRole('alert')
      .getByText(/^This is from \d\d:\d\d\./)
      .waitFor();
    await page.getByText('spam-29.test').waitFor();
    isGone = false;
    await page.getByRole('button', { name: 'Try again' }).click();
    await page.getByRole('alert').waitFor({ state: 'detached' });
  });
});

test('work on chosen rows is a strip that stays on the next screen', async () => {
  await signedIn('/blocks', async (page) => {
    for (const name of ['spam-10.test', 'spam-11.test'])
      await page.getByLabel(`Choose ${name}`).check();
    await page.getByRole('region', { name: 'Chosen rows' }).getByText('Unblock').click();
    await page.getByRole('dialog').getByRole('button', { name: 'Unblock' }).click();
    const strip = page.getByRole('region', { name: 'Unblock 2 senders' });
    await strip.getByText('2 of 2 unblocked.').waitFor();
    await page.getByText('spam-10.test').waitFor({ state: 'detached' });
    await page.getByRole('link', { name: 'Audit' }).click();
    await page.getByRole('heading', { level: 1, name: 'Audit' }).waitFor();
    await strip.waitFor();
    assert.deepEqual(await findViolations(page), []);
    await strip.getByRole('button', { name: 'Close' }).click();
    await strip.waitFor({ state: 'detached' });
  });
});

test('rows are two lines on a phone, and eight of them are in sight', async () => {
  await signedIn(
    '/audit',
    async (page) => {
      await page.locator('.data tbody tr').first().waitFor();
      assert.ok((await rowsInSight(page)) >= 8);
    },
    PHONE,
  );
});

test('words of strangers do not turn the order of letters', async () => {
  const hostile = { kind: 'domain', value: 'turned.test', note: 'photo\u202egpj.exe' };
  await service.v2('POST', '/v2/operator/blocks', hostile);
  await signedIn('/blocks', async (page) => {
    await page.getByRole('cell', { name: 'photo\ufffdgpj.exe', exact: true }).waitFor();
  });
});
