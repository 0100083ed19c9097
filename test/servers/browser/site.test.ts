/** The documentation as a reader meets it, in a real browser. */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';
import type { Browser } from 'playwright-core';
import { findViolations } from './accessibility.ts';
import { ready, type SiteService, startSiteService } from './site-service.ts';
import { launchChromium, openWatched, type WatchedPage } from './watched-page.ts';

const PHONE = { viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true };
/**
 * What loading the home page may take, compressed, in bytes; and its pictures, which are apart since the browser chooses
 * how far down it loads them.
 */
const HOME_BUDGET = 125_000;
const PICTURES_BUDGET = 120_000;

let service: SiteService;
let browser: Browser;

before(async () => {
  service = await startSiteService();
  browser = await launchChromium({ runsBriefly: true });
});

/** Opens a page, and closes it after the test with a look at what it said and asked for. */
async function visit(
  path: string,
  look: (watched: WatchedPage) => Promise<void>,
  options: Parameters<typeof openWatched>[2] = {},
): Promise<void> {
  const watched = await openWatched(browser, service.url, options);
  try {
    // Whatever is for elsewhere is refused, so that a page which needs it breaks here.
    await watched.context.route(
      (url) => url.origin !== service.url && url.protocol.startsWith('http'),
      (route) => route.abort(),
    );
    await watched.page.goto(service.url + path, { waitUntil: 'networkidle' });
    await look(watched);
    watched.assertQuiet();
  } finally {
    await watched.context.close();
  }
}

for (const path of ['/', '/docs', '/docs/']) {
  test(`the home page at ${path} shows what Postroom is, and leads on`, async () => {
    await visit(path, async ({ page }) => {
      assert.match(await page.title(), /Postroom/);
      await page.getByRole('heading', { level: 1 }).waitFor();
      await page.getByRole('img', { name: /^Mail comes in by SMTP/ }).waitFor();
      await page.locator('.VPHero').getByRole('link', { name: 'Quickstart' }).click();
      await page.waitForURL(`${service.url}/docs/quickstart`);
      await page.getByRole('heading', { level: 1, name: 'Quickstart' }).waitFor();
    });
  });
}

test('pages are reached by the menu and by the links to the next one', async () => {
  await visit('/docs/quickstart', async ({ page }) => {
    const menu = page.getByRole('navigation', { name: 'Sidebar Navigation' });
    await menu.getByRole('link', { name: 'Routes' }).click();
    await page.waitForURL(/\/docs\/concepts\/routes$/);
    await page.getByRole('heading', { level: 1, name: /^Routes/ }).waitFor();
    await page.locator('.pager-link.next').click();
    await page.waitForURL(/\/docs\/concepts\/sync$/);
    await page.goBack();
    await page.getByRole('heading', { level: 1, name: /^Routes/ }).waitFor();
  });
});

test('the webmail opens with the protocol beside the mail, also from where the live inbox was', async () => {
  await visit('/docs', async ({ page }) => {
    // As over a slow network: the protocol begins with the first call all the same.
    await page.route(/\/panel\.[^/]*\.js$/, async (request) => {
      await pause(2_000);
      await request.continue();
    });
    await page.locator('.VPNavBar').getByRole('link', { name: 'Webmail' }).click();
    await page.getByRole('button', { name: 'Sign in' }).waitFor();
    assert.equal(page.url(), `${service.url}/webmail/#/?protocol`);
    const { address, password } = await service.makeAccount();
    await page.getByLabel('Address').fill(address);
    await page.getByLabel('Password', { exact: true }).fill(password);
    await page.getByRole('button', { name: 'Sign in' }).click();
    await page
      .getByRole('complementary', { name: 'Protocol' })
      .getByText('POST /mail/sync')
      .first()
      .waitFor();
  });
});

test('search finds words of the text and goes there', async () => {
  await visit('/docs', async ({ page }) => {
    await ready(page);
    await page.keyboard.press('Control+k');
    const box = page.locator('.VPLocalSearchBox');
    await box.locator('input').fill('tombstones');
    await box.locator('.result').first().waitFor();
    assert.deepEqual(await findViolations(page), [], 'of the search');
    await box.locator('input').fill('Claim a domain');
    await box.locator('.result', { hasText: 'Claim a domain' }).first().click();
    await page.waitForURL(/\/docs\/reference\/api\/domains(?:#createDomain.*)?$/);
    await page.getByRole('heading', { name: 'Claim a domain' }).waitFor();
  });
});

test('on a phone the menu opens', async () => {
  await visit(
    '/docs/concepts/routes',
    async ({ page }) => {
      await ready(page);
      await page.getByRole('button', { name: 'Menu', exact: true }).click();
      await page.locator('.VPSidebar').getByRole('link', { name: 'Sync' }).click();
      await page.waitForURL(/\/docs\/concepts\/sync$/);
      await page.getByRole('button', { name: 'mobile navigation' }).click();
      await page.locator('.VPNavScreen').getByRole('link', { name: 'API reference' }).waitFor();
      assert.deepEqual(await findViolations(page), [], 'of the menu');
    },
    PHONE,
  );
});

test('dark mode follows the system, and the switch stays', async () => {
  await visit(
    '/docs/quickstart',
    async ({ page }) => {
      const isDark = () =>
        page.evaluate<boolean>('document.documentElement.classList.contains("dark")');
      assert.equal(await isDark(), true);
      await ready(page);
      await page.locator('.VPNavBar').getByRole('switch').click();
      await page.waitForSelector('html:not(.dark)');
      await page.reload({ waitUntil: 'networkidle' });
      assert.equal(await isDark(), false);
    },
    { colorScheme: 'dark' },
  );
});

test('at an unknown path, a browser gets a page that leads back', async () => {
  for (const path of ['/docs/nothing/here', '/nothing']) {
    await visit(path, async ({ page, complaints }) => {
      await page.getByRole('link', { name: 'To the start' }).click();
      await page.waitForURL(/\/docs\/?$/);
      await page.getByRole('heading', { level: 1 }).waitFor();
      // That of the page itself.
      assert.match(complaints.splice(0).join(), /^Failed to load resource.*404[^,]*$/);
    });
  }
});

test('the home page loads within its budget', async (t) => {
  const watched = await openWatched(browser, service.url);
  try {
    const session = await watched.context.newCDPSession(watched.page);
    await session.send('Network.enable');
    let [bytes, ofPictures] = [0, 0];
    const pictures = new Set<string>();
    session.on('Network.responseReceived', ({ requestId, type }) => {
      if (type === 'Image') pictures.add(requestId);
    });
    session.on('Network.loadingFinished', ({ requestId, encodedDataLength }) => {
      if (pictures.has(requestId)) ofPictures += encodedDataLength;
      else bytes += encodedDataLength;
    });
    await watched.page.goto(`${service.url}/docs`, { waitUntil: 'networkidle' });
    t.diagnostic(
      `${bytes} bytes, and ${ofPictures} of pictures, in ${watched.requests.length} requests, prefetched pages included`,
    );
    assert.ok(bytes > 10_000 && bytes < HOME_BUDGET, `${bytes} bytes`);
    assert.ok(ofPictures < PICTURES_BUDGET, `${ofPictures} bytes of pictures`);
  } finally {
    await watched.context.close();
  }
});

test('reading a dozen pages stays within the rate limit', async () => {
  const limited = await startSiteService({ RATE_LIMIT_PER_MINUTE: '60' });
  const watched = await openWatched(browser, limited.url);
  try {
    for (const path of limited.pages.slice(0, 12)) {
      const answer = await watched.page.goto(limited.url + path, { waitUntil: 'networkidle' });
      assert.equal(answer?.status(), 200, path);
    }
    watched.assertQuiet();
  } finally {
    await watched.context.close();
  }
});
