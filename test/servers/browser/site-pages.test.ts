/** Every page of the documentation: its links lead somewhere, and everybody can read it. */
import assert from 'node:assert/strict';
import { before, test } from 'node:test';
import type { Browser } from 'playwright-core';
import { findViolations } from './accessibility.ts';
import { listPages, ready, type SiteService, startSiteService } from './site-service.ts';
import { launchChromium, openWatched, type WatchedPage } from './watched-page.ts';

let service: SiteService;
let browser: Browser;
/** One for all pages: its cache has the scripts and fonts after the first. */
let watched: WatchedPage;

before(async () => {
  service = await startSiteService();
  browser = await launchChromium({ runsBriefly: true });
  watched = await openWatched(browser, service.url, { viewport: DESK });
});

const DESK = { width: 1360, height: 820 };
const PHONE = { width: 390, height: 844 };

/** What a page links to and can be linked at, from the rendered document. */
const collect = `({
  links: [...document.querySelectorAll('a[href]')].map((a) => a.href),
  loaded: [...document.querySelectorAll('img[src],script[src],link[href]')].map((e) => e.src || e.href),
  ids: [...document.querySelectorAll('[id]')].map((e) => e.id),
})`;

interface Collected {
  readonly links: readonly string[];
  readonly loaded: readonly string[];
  readonly ids: readonly string[];
}

/** What each page has, by its path. */
const found = new Map<string, Collected>();

/** Operations are of one form: what two keep from somebody, all do. Apart from an id that stands twice. */
const KEEP_TWO = `for (const operation of document.querySelectorAll('.operation ~ .operation ~ .operation')) {
  operation.remove();
}`;

/** The links of the sidebar but the one to this page: they are the same on all pages, and most of what these have. */
const OTHER_LINKS = '.VPSidebarItem.is-link:not(.is-active)';
let isSidebarSeen = false;

for (const path of listPages()) {
  test(`${path} complains of nothing, asks no other host and keeps nobody out, light, dark or on a phone`, async () => {
    const { page } = watched;
    watched.complaints.length = 0;
    watched.requests.length = 0;
    await page.emulateMedia({ colorScheme: 'light' });
    await page.goto(service.url + path);
    await ready(page);
    const collected = await page.evaluate<Collected>(collect);
    found.set(path, collected);
    const twice = collected.ids.filter((id, at) => collected.ids.indexOf(id) < at);
    assert.deepEqual(twice, []);
    if (isSidebarSeen) {
      await page.evaluate(
        `for (const link of document.querySelectorAll('${OTHER_LINKS}')) link.remove()`,
      );
    }
    isSidebarSeen ||= (await page.locator(OTHER_LINKS).count()) > 0;
    await page.setViewportSize(PHONE);
    const [width, seen] = await page.evaluate<[number, number]>(
      '[document.documentElement.scrollWidth, document.documentElement.clientWidth]',
    );
    assert.ok(width <= seen, `${path} is ${width} wide on a screen of ${seen}`);
    await page.setViewportSize(DESK);
    await page.evaluate(KEEP_TWO);
    assert.deepEqual(await findViolations(page), [], 'light');
    await page.emulateMedia({ colorScheme: 'dark' });
    await page.waitForSelector('html.dark');
    assert.deepEqual(await findViolations(page, 'contrast'), [], 'dark');
    watched.assertQuiet();
  });
}

test('no link or anchor is broken', async () => {
  const broken: string[] = [];
  const statuses = new Map<string, number>();
  for (const [path, { links, loaded }] of found) {
    for (const link of [...links, ...loaded]) {
      const { origin, pathname, hash, protocol } = new URL(link);
      if (origin !== service.url || protocol === 'data:') continue;
      if (!statuses.has(pathname)) {
        statuses.set(pathname, (await fetch(service.url + pathname)).status);
      }
      const page = found.get(pathname.replace(/\/$/, ''));
      const anchor = decodeURIComponent(hash.slice(1));
      if (statuses.get(pathname) !== 200 || (anchor && page && !page.ids.includes(anchor))) {
        broken.push(`${path} -> ${pathname}${hash}`);
      }
    }
  }
  assert.deepEqual([...new Set(broken)], []);
  assert.equal(found.size, service.pages.length);
  assert.ok(statuses.size > service.pages.length, 'pages link to each other');
});

test('the home page leads to the pages from each of its addresses, without scripts too', async () => {
  for (const address of ['/', '/docs']) {
    const html = await (await fetch(service.url + address)).text();
    const links = new Set(
      [...html.matchAll(/<a [^>]*href="([^"]+)"/g)].map(([, link = '']) => link),
    );
    assert.ok(links.size > 20, address);
    for (const link of links) {
      const { origin, pathname } = new URL(link, service.url + address);
      if (origin !== service.url) continue;
      assert.equal((await fetch(origin + pathname)).status, 200, `${link} on ${address}`);
    }
  }
});

test('every page exists as markdown, and in one file', async () => {
  const read = async (path: string) => {
    const answer = await fetch(service.url + path);
    assert.equal(answer.status, 200, path);
    return answer.text();
  };
  const list = await read('/docs/llms.txt');
  const whole = await read('/docs/llms-full.txt');
  for (const path of service.pages) {
    if (path === '/docs') continue;
    const text = await read(`${path}.md`);
    assert.ok(list.includes(`](${path}.md)`), `llms.txt lists ${path}`);
    assert.ok(whole.includes(text.trim()), `llms-full.txt has ${path}`);
    assert.doesNotMatch(text, /^<(?:div|script|TryIt|dl|dt)|<!--\s*@include/m, path);
    // Of the prose; code may have such brackets too.
    const prose = text.replace(/^(`{3,})[\s\S]*?^\1$/gm, '').replace(/`[^`]*`/g, '');
    for (const [, link = ''] of prose.matchAll(/\]\((?!https?:|#)([^)#\s]*)/g)) {
      assert.match(link, /^\/docs\//, path);
      assert.equal((await fetch(service.url + link)).status, 200, `${path}.md -> ${link}`);
    }
  }
});
