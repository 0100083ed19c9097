/** Signing out of the console, and what a hasty hand does twice. */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import type { Browser } from 'playwright-core';
import { API_KEY, startTestService, type TestService } from '../../support/service.ts';
import { findViolations } from './accessibility.ts';
import { type Look, lookAtConsole, signIn } from './console-page.ts';
import { launchChromium } from './watched-page.ts';

let service: TestService;
let browser: Browser;
let signedIn: Look;

before(async () => {
  service = await startTestService('sqlite');
  browser = await launchChromium();
  ({ signedIn } = lookAtConsole(browser, service.url));
});

test('a page that came without TLS says why nobody is signed in, where PUBLIC_URL has it', async () => {
  const secure = await startTestService('sqlite', { PUBLIC_URL: 'https://mail.test' });
  // Browsers take such cookies from 127.0.0.1.
  const chromium = await launchChromium({ hosts: 'MAP console.test 127.0.0.1' });
  const url = `http://console.test:${new URL(secure.url).port}`;
  await lookAtConsole(chromium, url).visit('/audit', async (page, { complaints }) => {
    await signIn(page);
    await page.getByRole('alert').getByText('the browser took no cookie').waitFor();
    await page.getByLabel('API key').waitFor();
    // Without TLS, Chromium ignores some headers of the page, and says so.
    complaints.length = 0;
  });
});

const session = '/v2/operator/console/session';

test('a page signs out where another one signed in anew, and where the session is over', async () => {
  await signedIn('/audit', async (page, { context, complaints }) => {
    const signOut = page.getByRole('button', { name: 'Sign out' });
    // As another tab does: the browser has one cookie.
    await context.request.post(service.url + session, { data: { api_key: API_KEY } });
    await signOut.click();
    await page.getByLabel('API key').waitFor();
    // The page asks for the new token after a refusal (403), which Chromium reports.
    assert.deepEqual(
      complaints.splice(0).filter((said) => !/ 40[13] /.test(said)),
      [],
    );
    assert.deepEqual(await context.cookies(), []);

    await signIn(page);
    await signOut.waitFor();
    await context.clearCookies();
    await signOut.click();
    await page.getByLabel('API key').waitFor();
    assert.equal(await page.locator('.message').count(), 0);
    assert.equal((await page.request.get(service.url + session)).status(), 401);
  });
});

test('a page that is loaded while the service is away says so, and goes on by itself', async () => {
  await signedIn('/audit', async (page, { complaints }) => {
    const answers = [502, 503, undefined];
    await page.route(`**${session}`, async (route) => {
      if (answers.length === 0) await route.continue();
      else {
        const status = answers.shift();
        await (status ? route.fulfill({ status, body: '<html>' }) : route.abort());
      }
    });
    await page.clock.install();
    await page.reload();
    const alert = page.getByRole('alert');
    await alert.getByText('The answer was 502').waitFor();
    assert.equal(await page.getByLabel('API key').count(), 0);
    assert.deepEqual(await findViolations(page), []);
    await alert.getByRole('button', { name: 'Try again' }).click();
    await alert.getByText('The answer was 503').waitFor();
    await page.clock.runFor(5_000);
    await alert.getByText('Postroom did not answer').waitFor();
    await page.clock.runFor(5_000);
    await page.getByRole('heading', { level: 1, name: 'Audit' }).waitFor();
    await page.getByRole('button', { name: 'Sign out' }).waitFor();
    // Chromium reports each of them.
    complaints.length = 0;
  });
});

test('a page that the browser kept shows nothing when it comes back, until it is loaded anew', async () => {
  await signedIn('/audit', async (page, { context }) => {
    // Chromium without a window keeps no pages: it is told what it would tell.
    const tell = (event: string) =>
      page.evaluate(`dispatchEvent(new PageTransitionEvent('${event}', { persisted: true }))`);
    await tell('pagehide');
    await page.getByRole('heading', { level: 1, name: 'Audit' }).waitFor({ state: 'hidden' });
    await context.clearCookies();
    await tell('pageshow');
    await page.getByLabel('API key').waitFor();
  });
});

test('rows that a colleague unblocked meanwhile stop nothing, and nothing of it is there for the next one who signs in', async () => {
  const made: number[] = [];
  for (let index = 0; index < 3; index++) {
    const block = { kind: 'domain', value: `spam-${index}.test` };
    made.push((await service.v2('POST', '/v2/operator/blocks', block)).body.id);
  }
  await signedIn('/blocks', async (page) => {
    for (const index of [2, 1, 0]) await page.getByLabel(`Choose spam-${index}.test`).check();
    await service.v2('POST', '/v2/operator/blocks/delete', { id: made[1] });
    const chosen = page.getByRole('region', { name: 'Chosen rows' });
    await chosen.getByRole('button', { name: 'Unblock' }).click();
    await page.getByRole('dialog').getByRole('button', { name: 'Unblock' }).click();
    await page.getByText('2 of 3 unblocked. 1 skipped: somebody else did it before.').waitFor();
    await page.getByRole('button', { name: 'Sign out' }).click();
    await page.getByLabel('API key').waitFor();
    assert.equal(await page.locator('.work').count(), 0);
  });
});

test('a key that is made by two presses is one key', async () => {
  await signedIn('/keys', async (page) => {
    await page.getByLabel('Name', { exact: true }).fill('billing');
    await page.getByRole('button', { name: 'Make key' }).dblclick();
    await page.getByText('The key billing is shown only now').waitFor();
    await page.locator('[aria-busy="false"]').first().waitFor();
    const { items } = (await service.v2('GET', '/v2/operator/keys')).body;
    assert.equal(items.length, 1);
  });
});
