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

type WebmailOptions = Parameters<typeof openWatched>[2] & {
  readonly stay?: boolean;
  /**
   * Answers requests in place of the server. From the first page on: where a route is added to a page that is there, Chromium
   * lets some of the next requests pass, and says nothing of them.
   */
  readonly routes?: (page: Page) => Promise<unknown>;
};

/** Opens the webmail, signed in, with storage of its own. */
export async function openWebmail(
  pages: MailPages,
  address: string,
  options: WebmailOptions = {},
): Promise<WatchedPage> {
  const { stay = false, routes, ...context } = options;
  const watched = await openWatched(pages.browser, pages.service.url, context);
  await routes?.(watched.page);
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
