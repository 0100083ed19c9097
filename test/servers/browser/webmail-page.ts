/** The webmail as tests use it: signed in, and looked at. */
import type { Locator, Page } from 'playwright-core';
import type { MailPages } from './mail-pages.ts';
import { PASSWORD } from './mail-service.ts';
import { openWatched, type WatchedPage } from './watched-page.ts';

export async function fillSignIn(page: Page, address: string, stay: boolean): Promise<void> {
  await page.getByLabel('Address').fill(address);
  await page.getByLabel('Password', { exact: true }).fill(PASSWORD);
  if (stay) await page.getByLabel('Stay signed in').check();
  await page.getByRole('button', { name: 'Sign in' }).click();
  await isLive(page);
}

/** Waits until a WebSocket tells of each change. */
export async function isLive(page: Page): Promise<void> {
  await page.locator('[data-state=live]').waitFor({ state: 'attached' });
}

/** Opens the webmail, signed in, with storage of its own. */
export async function openWebmail(
  pages: MailPages,
  address: string,
  options: Parameters<typeof openWatched>[2] & { stay?: boolean } = {},
): Promise<WatchedPage> {
  const { stay = false, ...context } = options;
  const watched = await openWatched(pages.browser, pages.service.url, context);
  await watched.page.goto(`${pages.service.url}/webmail`);
  await fillSignIn(watched.page, address, stay);
  return watched;
}

/** The row of a message or conversation. */
export function rowOf(page: Page, subject: string): Locator {
  return page.getByRole('row').filter({ hasText: subject });
}

export async function goTo(page: Page, mailbox: string): Promise<void> {
  const link = page.locator('.mailboxes a', { hasText: mailbox });
  await link.click();
  // On a phone the mailboxes are gone then.
  await link.and(page.locator('[aria-current=page]')).waitFor({ state: 'attached' });
}
