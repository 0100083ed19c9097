/** The webmail in a real browser, where whoever writes is interrupted: nothing that was written is lost. */
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import type { Page } from 'playwright-core';
import { inPage, type MailPages, PHONE, startMailPages, until } from './mail-pages.ts';
import { goTo, isLive, openWebmail, rowOf } from './webmail-page.ts';

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
  assert.equal(await textOf(page).inputValue(), 'What was written');
  await page.getByLabel('To', { exact: true }).fill('ada1@acme.test');
  await page.keyboard.press('Control+Enter');
  await goTo(page, 'Sent');
  await rowOf(page, 'Half').waitFor();
  assertQuiet(/401|4401/);
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
