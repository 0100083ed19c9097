/** The webmail in a real browser, where whoever writes is interrupted: nothing that was written is lost. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Page } from 'playwright-core';
import { inPage, type MailPages, PHONE, startMailPages, until } from './mail-pages.ts';
import { openWatched } from './watched-page.ts';
import { fillSignIn, goTo, isLive, openWebmail, rowOf } from './webmail-page.ts';

let pages: MailPages;

before(async () => {
  pages = await startMailPages();
});
after(() => pages.end());

const textOf = (page: Page) => page.getByLabel('Text', { exact: true });

test('who is signed out while writing signs in again, and the mail is sent', async () => {
  const { id, address } = await pages.newAccount();
  const { page, assertQuiet } = await openWebmail(pages, address);
  await page.getByRole('button', { name: 'Write' }).click();
  await page.getByLabel('Subject').fill('Half');
  await textOf(page).fill('What was written');
  await page.getByText('Draft saved').first().waitFor();
  const password = 'another good password';
  await pages.service.call('POST', `/v2/email-accounts/${id}/password/reset`, {
    user_id: 'u',
    password,
  });
  await page.locator('.toast').getByRole('button', { name: 'Sign in' }).click();
  const dialog = page.getByRole('dialog', { name: 'Sign in' });
  await dialog.getByLabel('Password').fill(password);
  await dialog.getByRole('button', { name: 'Sign in' }).click();
  await isLive(page);
  await page.locator('.toast').waitFor({ state: 'detached' });
  assert.equal(await textOf(page).inputValue(), 'What was written');
  await page.getByLabel('To', { exact: true }).fill('ada1@acme.test');
  await page.keyboard.press('Control+Enter');
  await goTo(page, 'Sent');
  await rowOf(page, 'Half').waitFor();
  assertQuiet(/401|4401/);
});

test('who signs in again in one tab is signed in again in the others, too', async () => {
  const { id, address } = await pages.newAccount();
  const { page, context, assertQuiet } = await openWebmail(pages, address, { stay: true });
  const other = await context.newPage();
  await other.goto(`${pages.service.url}/webmail`);
  await isLive(other);
  const password = 'another good password';
  await pages.service.call('POST', `/v2/email-accounts/${id}/password/reset`, {
    user_id: 'u',
    password,
  });
  await page.locator('.toast').waitFor();
  // The first one leads.
  await other.locator('.toast').getByRole('button', { name: 'Sign in' }).click();
  const dialog = other.getByRole('dialog', { name: 'Sign in' });
  await dialog.getByLabel('Password').fill(password);
  await dialog.getByRole('button', { name: 'Sign in' }).click();
  for (const tab of [other, page]) {
    await isLive(tab);
    await tab.locator('.toast').waitFor({ state: 'detached' });
  }
  assertQuiet(/401|4401/);
});

test('mail that another device wrote for later is seen as soon as it is there, and cancelled here', async () => {
  const { id, address } = await pages.newAccount();
  const { page, assertQuiet } = await openWebmail(pages, address);
  await goTo(page, 'Sent');
  const to = [{ address: 'dan@shop.test' }];
  const later = { to, subject: 'From the phone', text: 'On my way', delaySeconds: 86_400 };
  const sent = await pages.callMail(id, 'POST', '/mail/send', later);
  await rowOf(page, 'From the phone')
    .getByText(/^Goes out/)
    .waitFor();
  await rowOf(page, 'From the phone').click();
  await page.getByRole('button', { name: 'Cancel sending, and edit' }).click();
  const text = page.getByLabel('Text', { exact: true });
  await text.waitFor();
  assert.equal(await text.inputValue(), 'On my way');
  const { status } = await pages.callMail(id, 'GET', `/mail/sends/${sent.id}`);
  assert.equal(status, 'cancelled');
  assertQuiet();
});

for (const [what, path, keys] of [
  ['mail', '/mail/send', 'Control+Enter'],
  ['draft', '/mail/drafts', 'Escape'],
] as const)
  test(`a ${what} that waited and is refused after a reload is told of until it is kept as a draft, with its files`, async () => {
    const { address } = await pages.newAccount();
    const refusal = { code: 'send_limit', title: 'No', status: 429, detail: 'enough for today' };
    let [refuses, appends] = [false, false];
    const { page } = await openWebmail(pages, address, {
      stay: true,
      routes: async (each) => {
        await each.route(/\/mail\/(send|drafts)$/, (route) => {
          if (appends) return route.continue();
          const isIt = route.request().url().includes(path);
          return refuses && isIt ? route.fulfill({ status: 429, json: refusal }) : route.abort();
        });
      },
    });
    await page.getByRole('button', { name: 'Write' }).click();
    await page.getByLabel('To', { exact: true }).fill('dan@shop.test');
    await page.getByLabel('Subject').fill('The plan');
    await page.getByLabel('Attach files').setInputFiles({
      name: 'plan.txt',
      mimeType: 'text/plain',
      buffer: Buffer.from('soup'),
    });
    await textOf(page).fill('It is attached.');
    await page.keyboard.press(keys);
    await page.getByText('change pending').waitFor();
    await page.locator('.composer').waitFor({ state: 'detached' });
    // Not before: the page that is left tries again, too, and would be told.
    page.once('domcontentloaded', () => {
      refuses = true;
    });
    const told = page.locator('.toast').getByText(/ was refused: .*enough for today/);
    await page.reload();
    await told.waitFor();
    await page.reload();
    await told.waitFor();
    // Nothing else has it: whoever signs out is asked.
    await page.getByRole('button', { name: 'Account', exact: true }).click();
    await page.getByRole('menuitem', { name: 'Sign out' }).click();
    await page.getByRole('button', { name: 'Cancel', exact: true }).click();
    const other = await page.context().newPage();
    await other.goto(`${pages.service.url}/webmail`);
    await other.getByText('1 refused').waitFor();
    appends = true;
    await page.locator('.toast').getByRole('button', { name: 'Keep as a draft' }).click();
    await goTo(page, 'Drafts');
    await rowOf(page, 'The plan').getByText('Has attachments').waitFor();
    await page.getByText('change pending').waitFor({ state: 'detached' });
    for (const said of [other.getByText('1 refused'), other.locator('.toast')])
      await said.waitFor({ state: 'detached' });
    await rowOf(page, 'The plan').click();
    await page.getByText('plan.txt').waitFor();
    assert.equal(await textOf(page).inputValue(), 'It is attached.');
    await page.reload();
    await page.locator('[data-state=live]').waitFor({ state: 'attached' });
    assert.equal(await told.count(), 0);
  });

test('Back on a phone saves what is written, and shows the message below it', async () => {
  const { address } = await pages.newAccount();
  await pages.send(address, 'Question');
  const { page, assertQuiet } = await openWebmail(pages, address, {
    viewport: PHONE,
    isMobile: true,
    hasTouch: true,
  });
  await rowOf(page, 'Question').click();
  const reply = page.getByRole('button', { name: 'Reply', exact: true });
  await reply.click();
  await textOf(page).fill('An answer');
  await page.goBack();
  await page.getByText('Draft saved').first().waitFor();
  await page.getByRole('heading', { name: 'Question' }).waitFor();
  await page.goBack();
  await rowOf(page, 'Question').waitFor();
  // Closed otherwise, it leaves no step behind.
  await rowOf(page, 'Question').click();
  await reply.click();
  await textOf(page).waitFor();
  await page.getByRole('button', { name: 'Save and close' }).click();
  await until(page, "history.state === 'opened'");
  await page.goBack();
  await rowOf(page, 'Question').waitFor();
  assert.equal(await inPage(page, 'location.hash.endsWith("/INBOX")'), true);
  assertQuiet();
});

test('a page that is not seen any more saves what is written at once', async () => {
  const { address } = await pages.newAccount();
  const { page } = await openWebmail(pages, address);
  await page.getByRole('button', { name: 'Write' }).click();
  // The pause after which it would be saved never ends.
  await page.clock.install();
  await textOf(page).fill('A thought');
  await inPage(page, "document.dispatchEvent(new Event('visibilitychange'))");
  await page.getByText('Draft saved').first().waitFor();
});

test('who has lost the network can write; where the form cannot be loaded, the page says so', async () => {
  const { address } = await pages.newAccount();
  const { page, context, requests } = await openWebmail(pages, address);
  const asked = () => requests.some((url) => /composer.*js$/.test(url));
  while (!asked()) await page.waitForEvent('request');
  await page.waitForLoadState('networkidle');
  await context.setOffline(true);
  await page.getByRole('button', { name: 'Write' }).click();
  await textOf(page).fill('Without a network');
  await page.getByText('Draft saved').first().waitFor();

  const { page: other } = await openWatched(pages.browser, pages.service.url);
  await other.route(/composer.*js$/, (route) => route.abort());
  await other.goto(`${pages.service.url}/webmail`);
  await fillSignIn(other, address, false);
  await other.getByRole('button', { name: 'Write' }).click();
  await other.getByText('This part of the page could not be loaded').first().waitFor();
});

test('a message that is opened without a network is there once there is one', async () => {
  const { address } = await pages.newAccount();
  // Longer than what is fetched ahead.
  await pages.send(address, 'Long', { text: 'word '.repeat(150_000) });
  const { page, context } = await openWebmail(pages, address, { stay: true });
  await rowOf(page, 'Long').waitFor();
  await context.setOffline(true);
  await rowOf(page, 'Long').click();
  await page.locator('.message-body').getByText('no answer from the server').waitFor();
  await context.setOffline(false);
  await page.locator('.plain-text').waitFor();
});

test('a search without a network finds what is on the device, and is made again once there is one', async () => {
  const { address } = await pages.newAccount();
  // Only its beginning is on the device.
  await pages.send(address, 'Long', { text: `${'word '.repeat(200)} needle` });
  const { page, context } = await openWebmail(pages, address, { stay: true });
  await rowOf(page, 'Long').waitFor();
  await context.setOffline(true);
  await page.getByLabel('Search mail').fill('needle');
  await page.keyboard.press('Enter');
  await page.getByText('Nothing found').waitFor();
  await page.locator('.list-bar').getByText('Offline').waitFor();
  await context.setOffline(false);
  await rowOf(page, 'Long').waitFor();
  await page.locator('.list-bar').getByText('Offline').waitFor({ state: 'detached' });
});

test('with two accounts, the form stays when the other one is shown, and says who writes', async () => {
  const [one, two] = [await pages.newAccount(), await pages.newAccount()];
  const { page } = await openWebmail(pages, one.address);
  await page.getByRole('button', { name: 'Write' }).click();
  await textOf(page).fill('Half of it');
  await page.getByRole('button', { name: 'Account' }).click();
  await page.getByRole('menuitem', { name: 'Add an account' }).click();
  await fillSignIn(page, two.address, false);
  await page.getByRole('dialog', { name: `New message from ${one.address}` }).waitFor();
  assert.equal(await textOf(page).inputValue(), 'Half of it');
});

test('a file that is dropped beside the form does not take the place of the page', async () => {
  const { address } = await pages.newAccount();
  const { page } = await openWebmail(pages, address);
  const isTaken = await inPage(
    page,
    `(() => {
      const dataTransfer = new DataTransfer();
      dataTransfer.items.add(new File(['text'], 'a.txt'));
      const options = { dataTransfer, bubbles: true, cancelable: true };
      return ['dragover', 'drop'].map(
        (name) => !document.querySelector('.list').dispatchEvent(new DragEvent(name, options)),
      );
    })()`,
  );
  assert.deepEqual(isTaken, [true, true]);
});

test('what is gone is said to be gone: a folder, a message, a conversation', async () => {
  const { address } = await pages.newAccount();
  await pages.send(address, 'Here');
  const { page } = await openWebmail(pages, address);
  await rowOf(page, 'Here').waitFor();
  const show = (place: string) =>
    inPage(page, `location.hash = '#/${encodeURIComponent(address)}/${place}'`);
  await show('Gone');
  await page.getByText('There is no folder Gone').waitFor();
  await show('INBOX/m/999');
  await page.getByText('This message cannot be read now: there is no message 999').waitFor();
  assert.equal(await page.locator('#subject').textContent(), '');
  await show('INBOX/t/gone');
  await page.getByText('This message cannot be read now: it was moved or deleted').waitFor();
  await rowOf(page, 'Here').click();
  await page.locator('.message-body').getByText('Text of Here').waitFor();
});

test('a browser that keeps nothing of a site is told why the webmail does not start', async () => {
  const { page, assertQuiet } = await openWatched(pages.browser, pages.service.url);
  const blocks = `Object.defineProperty(window, 'localStorage', {
    get() { throw new DOMException('The operation is insecure.', 'SecurityError'); },
  })`;
  await page.addInitScript(blocks);
  await page.goto(`${pages.service.url}/webmail`);
  await page.getByRole('alert').getByText('needs cookies and site data').waitFor();
  await page.goto(`${pages.service.url}/console`);
  await page.getByLabel('API key').waitFor();
  assertQuiet(/status of 401/);
});
