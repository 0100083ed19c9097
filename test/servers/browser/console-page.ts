/** Screens of the console in Chromium, for the tests of them. */
import type { Browser, Page } from 'playwright-core';
import { API_KEY } from '../../support/service.ts';
import { openWatched, type WatchedPage } from './watched-page.ts';

type Options = Parameters<typeof openWatched>[2];

export const DESK = { viewport: { width: 1280, height: 900 } };
export const PHONE = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true };
/** What Chromium's console says of answers that the test asks for. */
const REFUSED = /^Failed to load resource.* (?:400|401|404) /;

export async function signIn(page: Page, key = API_KEY): Promise<void> {
  await page.getByLabel('API key').fill(key);
  await page.getByRole('button', { name: 'Sign in' }).click();
}

/** Opens the screen at a path, and closes it after the test with a look at what it said and asked for. */
export type Look = (
  path: string,
  look: (page: Page, watched: WatchedPage) => Promise<void>,
  options?: Options,
) => Promise<void>;

/** `visit` opens a screen as a stranger, `signedIn` as an operator. */
export function lookAtConsole(browser: Browser, url: string): { visit: Look; signedIn: Look } {
  const visit: Look = async (path, look, options = DESK) => {
    const watched = await openWatched(browser, url, options);
    try {
      await watched.page.goto(`${url}/console${path}`);
      await look(watched.page, watched);
      watched.assertQuiet(REFUSED);
    } finally {
      await watched.context.close();
    }
  };
  const signedIn: Look = (path, look, options) =>
    visit(
      path,
      async (page, watched) => {
        await signIn(page);
        await page.getByRole('button', { name: 'Sign out' }).waitFor();
        await look(page, watched);
      },
      options,
    );
  return { visit, signedIn };
}

/** How many rows of the list are seen whole without scrolling. */
export function rowsInSight(page: Page): Promise<number> {
  return page.evaluate<number>(
    `[...document.querySelectorAll('.data tbody tr')]
      .filter((row) => row.getBoundingClientRect().bottom <= innerHeight).length`,
  );
}
