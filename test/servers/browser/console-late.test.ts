/** The operator's console where answers come late: after another question, another press, or on another screen. */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import type { Browser, Page } from 'playwright-core';
import { startTestService, type TestAccount, type TestService } from '../../support/service.ts';
import { type Look, lookAtConsole } from './console-page.ts';
import { launchChromium } from './watched-page.ts';

const REFUSAL = { status: 400, json: { code: 'refused_here', title: 'Not today' } };

let service: TestService;
let browser: Browser;
let signedIn: Look;
let ada: TestAccount;

before(async () => {
  service = await startTestService('sqlite', { TRACE_SUBJECTS: 'true' });
  ada = await service.makeAccount('ada');
  for (const subject of ['First', 'Second']) {
    const from = `${subject.toLowerCase()}@example.test`;
    await service.send({ from, to: ada.address, subject, text: subject });
  }
  browser = await launchChromium();
  ({ signedIn } = lookAtConsole(browser, service.url));
});

/**
 * Lets requests of a path wait.
 *
 * @param isRefused whether what waited is refused then, in place of carried out
 */
async function hold(page: Page, method: 'GET' | 'POST', path: string, isRefused = false) {
  const { promise: released, resolve: release } = Promise.withResolvers<void>();
  const held = Promise.withResolvers<void>();
  const count = { asked: 0 };
  await page.route(`**/v2/operator/${path}`, async (route) => {
    if (route.request().method() !== method) return route.continue();
    count.asked += 1;
    held.resolve();
    await released;
    return isRefused ? route.fulfill(REFUSAL) : route.continue();
  });
  return { held: held.promise, release, count };
}

const question = (page: Page, name: RegExp) => page.getByRole('dialog', { name });

const told = (page: Page, text: string | RegExp) =>
  page.locator('.message').getByText(text, { exact: true }).waitFor();

async function choose(page: Page, action: string): Promise<void> {
  await page.getByRole('button', { name: `Actions of ${ada.address}` }).click();
  await page.getByRole('menuitem', { name: action }).click();
}

test('a question that had to be prepared does not take the place of the one that is open', async () => {
  await signedIn(`/accounts/${ada.id}`, async (page) => {
    const counting = await hold(page, 'POST', 'queue/drop');
    await page.getByRole('button', { name: 'Suspend' }).click();
    await counting.held;
    await choose(page, 'Quota');
    const quota = question(page, /^Quota of ada/);
    await quota.getByRole('textbox').fill('5');
    const counted = page.waitForResponse('**/queue/drop');
    counting.release();
    await (await counted).finished();
    await page.evaluate('new Promise(requestAnimationFrame)');
    assert.equal(await quota.getByRole('textbox').inputValue(), '5');
    await quota.getByRole('button', { name: 'Cancel' }).click();
    // What was typed is not in the next one.
    await choose(page, 'Quota');
    assert.equal(await quota.getByRole('textbox').inputValue(), '');
  });
});

test('a question is not asked on a screen that was opened meanwhile', async () => {
  await signedIn(`/accounts/${ada.id}`, async (page) => {
    const counting = await hold(page, 'POST', 'queue/drop');
    await page.getByRole('button', { name: 'Suspend' }).click();
    await counting.held;
    await page.getByRole('link', { name: 'Audit' }).click();
    await page.getByRole('heading', { level: 1, name: 'Audit' }).waitFor();
    const counted = page.waitForResponse('**/queue/drop');
    counting.release();
    await (await counted).finished();
    await page.evaluate('new Promise(requestAnimationFrame)');
    assert.equal(await page.getByRole('dialog').count(), 0);
  });
});

test('what fails after its question was closed is told, and not in the next question', async () => {
  await signedIn(`/accounts/${ada.id}`, async (page) => {
    const setting = await hold(page, 'POST', 'accounts/quota', true);
    await choose(page, 'Quota');
    const quota = question(page, /^Quota of ada/);
    await quota.getByRole('textbox').fill('5');
    await quota.getByRole('button', { name: 'Set' }).click();
    await setting.held;
    await quota.getByRole('button', { name: 'Cancel' }).click();
    await page.getByRole('button', { name: 'Suspend' }).click();
    const suspend = question(page, /^Suspend ada/);
    await suspend.waitFor();
    setting.release();
    await told(page, /^Quota of ada.* It failed: Not today/);
    assert.equal(await suspend.getByRole('alert').count(), 0);
    assert.ok(await suspend.getByRole('button', { name: 'Suspend' }).isEnabled());
  });
});

test('while a message is read, nothing of the one before it is shown in its place', async () => {
  await signedIn('/messages', async (page) => {
    const open = (sender: string) =>
      page.getByRole('row').filter({ hasText: sender }).getByRole('link').first().click();
    await open('first@');
    const drawer = page.getByRole('dialog');
    await drawer.getByRole('heading', { level: 2, name: 'First' }).waitFor();
    const reading = await hold(page, 'GET', 'messages/*', true);
    await open('second@');
    await reading.held;
    await drawer.getByRole('heading', { level: 2, name: 'Message' }).waitFor();
    assert.equal(await drawer.getByRole('button', { name: 'Block sender' }).count(), 0);
    reading.release();
    await drawer.getByRole('alert').filter({ hasText: 'Not today' }).waitFor();
    assert.equal(await drawer.getByRole('button', { name: 'Block sender' }).count(), 0);
  });
});

test('a screen that was left asks for nothing, and what was done from it leads nowhere', async () => {
  const { userId } = ada;
  const domain = 'late.test';
  await service.v2('POST', '/v2/domain', { domain, user_id: userId });
  await signedIn(`/domains/${domain}?user_id=${userId}`, async (page, { requests }) => {
    await page.getByRole('button', { name: `Actions of ${domain}` }).click();
    await page.getByRole('menuitem', { name: 'Delete' }).click();
    const dialog = question(page, /^Delete late/);
    await dialog.getByRole('textbox').fill(domain);
    const deleting = await hold(page, 'POST', 'domains/delete');
    await dialog.getByRole('button', { name: 'Delete for good' }).click();
    await deleting.held;
    await page.keyboard.press('Escape');
    await page.getByRole('link', { name: 'Blocks' }).click();
    await page.getByRole('heading', { level: 1, name: 'Blocks' }).waitFor();
    deleting.release();
    await told(page, `${domain} is deleted.`);
    await page.evaluate('new Promise(requestAnimationFrame)');
    assert.match(page.url(), /\/console\/blocks$/);

    // The same for what a screen reads again after it was changed.
    await service.v2('POST', '/v2/operator/blocks', { kind: 'domain', value: 'gone.test' });
    await page.keyboard.press('r');
    await page.getByRole('button', { name: 'Actions of gone.test' }).click();
    await page.getByRole('menuitem', { name: 'Unblock' }).click();
    const unblocking = await hold(page, 'POST', 'blocks/delete');
    await page.getByRole('dialog').getByRole('button', { name: 'Unblock' }).click();
    await unblocking.held;
    await page.keyboard.press('Escape');
    await page.getByRole('link', { name: 'Keys' }).click();
    await page.getByRole('heading', { level: 1, name: 'Keys' }).waitFor();
    const asked = requests.length;
    unblocking.release();
    await told(page, 'gone.test is no longer blocked.');
    const again = page.waitForResponse('**/v2/operator/keys*');
    await page.keyboard.press('r');
    await again;
    assert.deepEqual(
      requests.slice(asked).filter((url) => url.endsWith('/blocks')),
      [],
    );
  });
});

test('a block that is asked for twice is made once, and keeps what is typed meanwhile', async () => {
  await signedIn('/blocks', async (page) => {
    const blocking = await hold(page, 'POST', 'blocks');
    const sender = page.getByLabel('Sender', { exact: true });
    await sender.fill('one@spam.test');
    await sender.press('Enter');
    await blocking.held;
    await sender.press('Enter');
    await sender.fill('two@spam.test');
    blocking.release();
    await told(page, 'one@spam.test is blocked.');
    assert.equal(await sender.inputValue(), 'two@spam.test');
    assert.equal(blocking.count.asked, 1);
  });
});

test('a page that is asked for is added, also where the list is read again meanwhile', async () => {
  const names = Array.from({ length: 120 }, (_, index) => `spam-${index}.test`);
  const block = (value: string) =>
    service.v2('POST', '/v2/operator/blocks', { kind: 'domain', value });
  await Promise.all(names.map(block));
  await signedIn('/blocks', async (page) => {
    const rows = page.locator('.data tbody tr');
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    // Before the page is loaded again: Chromium lets requests pass a route that is added later.
    await page.route('**/v2/operator/blocks?*cursor=*', async (route) => {
      await released;
      await route.continue();
    });
    await page.clock.install();
    await page.reload();
    await rows.first().waitFor();
    const count = await rows.count();
    assert.ok(count < names.length);
    await page.getByRole('button', { name: 'Show more' }).click();
    await block('comes-meanwhile.test');
    await page.getByRole('heading', { level: 1 }).hover();
    await page.clock.fastForward('01:05');
    await page.getByRole('button', { name: '1 new' }).waitFor();
    release();
    await rows.nth(count).waitFor();
    await page.getByRole('button', { name: '1 new' }).click();
    assert.match(await rows.first().innerText(), /comes-meanwhile/);
  });
});

test('each key that is made stays until it is put away', async () => {
  await signedIn('/keys', async (page) => {
    const shown = (name: string) => page.getByText(`The key ${name} is shown only now`);
    for (const name of ['first', 'second']) {
      await page.getByLabel('Name', { exact: true }).fill(name);
      await page.getByRole('button', { name: 'Make key' }).click();
      await shown(name).waitFor();
      await page.getByRole('row').filter({ hasText: name }).waitFor();
    }
    await page
      .getByRole('status')
      .filter({ has: shown('second') })
      .getByRole('button', { name: 'I have saved it' })
      .click();
    await shown('second').waitFor({ state: 'detached' });
    assert.equal(await shown('first').count(), 1);
  });
});
